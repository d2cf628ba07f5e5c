//! Tests of the memory table: registration, checks, the end of a registration.

use std::collections::HashSet;

use super::*;

const PD: PdId = PdId(1);

fn registration(access: Access, iova: u64, len: usize) -> Registration {
    Registration { pd: PD, stream: None, access, iova, region: Region::owned(len).unwrap() }
}

fn claim(stag: Stag, right: Access, pd: PdId) -> Claim {
    Claim { stag, right, pd, stream: StreamId::unique() }
}

fn table(access: Access, iova: u64) -> (MemoryTable, Stag) {
    let mut table = MemoryTable::new(1);
    let stag = table.register(registration(access, iova, 100)).unwrap().stag;
    (table, stag)
}

#[test]
fn every_violation_by_name() {
    let (table, stag) = table(Access::LOCAL_WRITE | Access::REMOTE_WRITE, 1000);
    let check = |stag, right, pd, to, len| table.check(claim(stag, right, pd), to, len).map(|_| ());
    assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 1000, 100), Ok(()));
    assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 1100, 0), Ok(()));
    assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 1000, 101), Err(Violation::Bounds));
    assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 999, 1), Err(Violation::Bounds));
    assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 1101, 0), Err(Violation::Bounds));
    assert_eq!(check(stag, Access::REMOTE_WRITE, PD, u64::MAX, 2), Err(Violation::Wrap));
    assert_eq!(check(stag, Access::REMOTE_READ, PD, 1000, 1), Err(Violation::Access));
    assert_eq!(check(stag, Access::REMOTE_WRITE, PdId(2), 1000, 1), Err(Violation::WrongPd));
    assert_eq!(check(Stag(stag.0 ^ 1), Access::REMOTE_WRITE, PD, 1000, 1), Err(Violation::InvalidStag));
    assert_eq!(check(Stag(stag.0 ^ 0x100), Access::REMOTE_WRITE, PD, 1000, 1), Err(Violation::InvalidStag));
}

/// An STag that was deregistered tells nothing about the next one.
// Covers 5040-8.1.1-9, 5042-6.1.1-4.
#[test]
fn stags_come_back_late_and_unpredictably() {
    let mut table = MemoryTable::new(3);
    let mut seen = HashSet::new();
    let (mut steps, mut last) = (HashSet::new(), 0);
    for _ in 0..20_000 {
        let region = Region::owned(1).unwrap();
        let registration = Registration { pd: PD, stream: None, access: Access::ALL, iova: 0, region };
        let stag = table.register(registration).unwrap().stag;
        assert!(seen.insert(stag.0), "STag {:#x} comes back after {} others", stag.0, seen.len());
        steps.insert(stag.0.wrapping_sub(last));
        last = stag.0;
        assert!(table.deregister(stag).is_some());
    }
    assert!(steps.len() > 19_900, "{} different steps", steps.len());
}

#[test]
fn a_stag_does_not_come_back_at_once() {
    let (mut table, stag) = table(Access::ALL, 0);
    assert!(table.deregister(stag).is_some());
    assert!(table.deregister(stag).is_none());
    assert!(table.is_empty());
    let next = table.register(registration(Access::ALL, 0, 1)).unwrap();
    assert_ne!(next.stag, stag);
    assert_eq!(
        table.check(claim(stag, Access::LOCAL_READ, PD), 0, 1).map(|_| ()),
        Err(Violation::InvalidStag)
    );
}

#[test]
fn invalidation_ends_all_access() {
    let (mut table, stream) = (MemoryTable::new(1), StreamId::unique());
    let bound = Registration { stream: Some(stream), ..registration(Access::ALL, 0, 100) };
    let stag = table.register(bound).unwrap().stag;
    assert_eq!(table.invalidate(stag, PdId(9), stream), Err(Violation::WrongPd));
    assert_eq!(table.invalidate(stag, PD, stream), Ok(()));
    let claim = Claim { stream, ..claim(stag, Access::REMOTE_READ, PD) };
    assert_eq!(table.check(claim, 0, 1).map(|_| ()), Err(Violation::InvalidStag));
    assert_eq!(table.invalidate(stag, PD, stream), Err(Violation::InvalidStag));
}

// Covers 5041-8.2-2, 5041-8.2-4, 5041-8.3.1-3.
#[test]
fn an_stag_of_one_stream_is_unknown_to_all_others() {
    let mut table = MemoryTable::new(1);
    let (own, other) = (StreamId::unique(), StreamId::unique());
    let bound = Registration { stream: Some(own), ..registration(Access::ALL, 0, 8) };
    let stag = table.register(bound).unwrap().stag;
    let check = |stream| {
        let claim = Claim { stream, ..claim(stag, Access::REMOTE_WRITE, PD) };
        table.check(claim, 0, 8).map(|_| ())
    };
    assert_eq!((check(own), check(other)), (Ok(()), Err(Violation::WrongStream)));
    assert_eq!(table.check_invalidate(stag, PD, other), Err(Violation::WrongStream));
    assert_eq!(table.invalidate(stag, PD, other), Err(Violation::WrongStream));
    assert_eq!(check(own), Ok(()));
    assert_eq!(table.invalidate(stag, PD, own), Ok(()));
    assert_eq!(check(own), Err(Violation::InvalidStag));
}

// Covers 5040-8.1.1-8.
#[test]
fn one_stream_cannot_invalidate_memory_of_the_domain() {
    let (table, stag) = table(Access::ALL, 0);
    let stream = StreamId::unique();
    assert_eq!(table.check_invalidate(stag, PD, stream), Err(Violation::Access));
    assert_eq!(table.invalidate(stag, PD, stream), Err(Violation::Access));
    assert_eq!(table.check(claim(stag, Access::REMOTE_WRITE, PD), 0, 1).map(|_| ()), Ok(()));
}

#[test]
fn local_memory_is_not_the_peers_to_invalidate() {
    let (mut table, stream) = (MemoryTable::new(1), StreamId::unique());
    let bound = Registration { stream: Some(stream), ..registration(Access::LOCAL_WRITE, 0, 8) };
    let stag = table.register(bound).unwrap().stag;
    assert_eq!(table.invalidate(stag, PD, stream), Err(Violation::Access));
}

#[test]
fn bad_registrations() {
    let mut table = MemoryTable::new(1);
    let mut register = |access, iova| table.register(registration(access, iova, 16)).map(|_| ());
    assert_eq!(register(Access::REMOTE_WRITE, 0), Err(RegisterError::Access));
    assert_eq!(register(Access::ALL, u64::MAX - 3), Err(RegisterError::Wrap));
}
