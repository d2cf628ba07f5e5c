//! Registration: chosen tagged offsets, changes in place, and objects in use.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use weft_netif::Duration;
use weft_rnic::{
    Access, Bind, Data, Mr, Region, RegisterError, Reregistration, SendOpcode, SendWr, Sge, Status,
    WindowType,
};
use weft_tests::Pair;

use crate::world::{
    GUARD, WR, connected, contents, end_of_a, outcomes, post_recv, qp_on, read_from, terminate_code, write_to,
};

const LEN: usize = 32;

fn region() -> Region {
    let region = Region::owned(LEN).unwrap();
    assert!(region.copy_in(0, &[GUARD; LEN]));
    region
}

/// `a` writes four octets to this place of `b`'s memory, and waits until they are placed or refused.
fn write(pair: &mut Pair, memory: &Mr, offset: usize) {
    let wr = SendWr { opcode: write_to(memory, offset), data: Data::Inline(b"four"), ..WR };
    pair.a.qp.post_send(&wr).unwrap();
    assert_eq!(pair.completion_of_a().status, Status::Success);
    pair.settle(Duration::from_millis(10));
}

/// Checks that `memory` has the octets of `a` at this place, and guard octets elsewhere.
fn expect_at(memory: &Mr, offset: usize) {
    let mut expected = vec![GUARD; LEN];
    expected[offset..offset + 4].copy_from_slice(b"four");
    assert_eq!(contents(memory), expected);
    memory.write(0, &[GUARD; LEN]).unwrap();
}

/// Local and remote access both use the tagged offset, whatever it is.
#[test]
fn tagged_offsets_have_nothing_to_do_with_addresses() {
    let highest = u64::MAX - LEN as u64;
    for (access, iova, first) in [
        (Access::ALL, 0, 0),
        (Access::ALL, 1, 1),
        (Access::ALL, 1 << 63, 1 << 63),
        (Access::ALL, highest, highest),
        (Access::ALL | Access::ZERO_BASED, 77, 0),
    ] {
        let mut pair = connected();
        let target = pair.b.pd.register_at(region(), access, iova).unwrap();
        assert_eq!(target.addr(), first);
        for offset in [0, LEN - 4] {
            write(&mut pair, &target, offset);
            expect_at(&target, offset);
        }
        // The memory serves as sink and source of a Read, and of messages.
        let source = pair.a.pd.register_at(region(), access, iova).unwrap();
        source.write(0, b"four").unwrap();
        let sges = [Sge { addr: first + 8, length: 4, lkey: target.lkey() }];
        let wr = SendWr { opcode: read_from(&source, 0), data: Data::Sges(&sges), ..WR };
        pair.b.qp.post_send(&wr).unwrap();
        assert_eq!(pair.completion_of_b().status, Status::Success);
        expect_at(&target, 8);
        post_recv(&pair.b.qp, 7, &[target.sge(4, 4)]);
        pair.a.qp.post_send(&SendWr { data: Data::Sges(&[source.sge(0, 4)]), ..WR }).unwrap();
        assert_eq!(outcomes(&[pair.completion_of_b()]), [(7, Status::Success)]);
        expect_at(&target, 4);
    }
    let pair = connected();
    let wraps = pair.b.pd.register_at(region(), Access::ALL, highest + 1).map(|_| ());
    assert_eq!(wraps, Err(RegisterError::Wrap));
    assert_eq!(pair.b.pd.register(0, Access::ALL | Access::ZERO_BASED).unwrap().addr(), 0);
}

#[test]
fn rights_change_in_place() {
    let mut pair = connected();
    let mut target = pair.b.pd.register_at(region(), Access::ALL, 100).unwrap();
    let stag = target.rkey();
    write(&mut pair, &target, 0);
    expect_at(&target, 0);
    let access = Some(Access::LOCAL_WRITE | Access::REMOTE_READ);
    target.reregister(Reregistration { access, ..Reregistration::default() }).unwrap();
    assert_eq!((target.rkey(), target.addr()), (stag, 100));
    let wr = SendWr { opcode: read_from(&target, 0), data: Data::Sges(&[]), ..WR };
    pair.a.qp.post_send(&wr).unwrap();
    assert_eq!(pair.completion_of_a().status, Status::Success);
    write(&mut pair, &target, 0);
    assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x0, 0x1, 0x02));
    assert_eq!(contents(&target), [GUARD; LEN]);
}

#[test]
fn memory_changes_in_place() {
    let mut pair = connected();
    let mut target = pair.b.pd.register_at(region(), Access::ALL, 100).unwrap();
    let next = Region::owned(4).unwrap();
    target.reregister(Reregistration { region: Some((next, 1 << 50)), ..Reregistration::default() }).unwrap();
    assert_eq!((target.addr(), target.len()), (1 << 50, 4));
    write(&mut pair, &target, 0);
    assert_eq!(contents(&target), b"four");
    let old = SendOpcode::Write { stag: target.rkey(), to: 100 };
    pair.a.qp.post_send(&SendWr { opcode: old, data: Data::Inline(b"1"), ..WR }).unwrap();
    assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x1, 0x1, 0x01));
}

#[test]
fn the_domain_changes_in_place() {
    let mut pair = connected();
    let mut target = pair.b.pd.register_at(region(), Access::ALL, 100).unwrap();
    let other = pair.b.device.alloc_pd();
    target.reregister(Reregistration { pd: Some(&other), ..Reregistration::default() }).unwrap();
    write(&mut pair, &target, 0);
    assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x1, 0x1, 0x02));
    assert_eq!(contents(&target), [GUARD; LEN]);
    let (other, error) = other.dealloc().unwrap_err();
    assert_eq!(error, RegisterError::Busy);
    drop(target);
    assert!(other.dealloc().is_ok());
}

#[test]
fn changes_that_are_refused_change_nothing() {
    let mut pair = connected();
    let bindable = Access::ALL | Access::MW_BIND;
    let mut target = pair.b.pd.register_at(region(), bindable, 100).unwrap();
    let mut own = pair.b.own_memory(LEN);
    let other = pair.b.device.alloc_pd();
    let elsewhere = pair.a.pd.clone();
    let none = Reregistration::default;
    let access = Some(Access::REMOTE_WRITE);
    assert_eq!(target.reregister(Reregistration { access, ..none() }), Err(RegisterError::Access));
    let wraps = Some((region(), u64::MAX));
    assert_eq!(target.reregister(Reregistration { region: wraps, ..none() }), Err(RegisterError::Wrap));
    let foreign = Reregistration { pd: Some(&elsewhere), ..none() };
    assert_eq!(target.reregister(foreign), Err(RegisterError::ForeignQp));
    let for_one = Reregistration { pd: Some(&other), ..none() };
    assert_eq!(own.reregister(for_one), Err(RegisterError::ForeignQp));
    let window = pair.b.pd.alloc_mw(WindowType::Type2B).unwrap();
    let access = Access::REMOTE_READ;
    let bind = Bind { window: window.stag(1), region: target.rkey(), addr: 100, length: 4, access };
    pair.b.qp.post_send(&SendWr { opcode: SendOpcode::BindWindow(bind), ..WR }).unwrap();
    assert_eq!(pair.completion_of_b().status, Status::Success);
    assert_eq!(target.reregister(none()), Err(RegisterError::Busy));
    write(&mut pair, &target, 8);
    expect_at(&target, 8);
    drop(window);
    assert_eq!(target.reregister(none()), Ok(()));
    target.invalidate();
    assert_eq!(target.reregister(none()), Ok(()));
    assert!(target.is_invalidated());
    write(&mut pair, &target, 8);
    assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x1, 0x1, 0x00));
}

#[test]
fn a_domain_in_use_is_not_given_back() {
    let pair = connected();
    let mut pd = pair.a.device.alloc_pd();
    let refused = |pd: weft_rnic::Pd, what| {
        let Err((pd, RegisterError::Busy)) = pd.dealloc() else { panic!("{what} is in use") };
        pd
    };
    let memory = pd.register(8, Access::ALL).unwrap();
    pd = refused(pd, "a region");
    drop(memory);
    let window = pd.alloc_mw(WindowType::Type1).unwrap();
    pd = refused(pd, "a window");
    drop(window);
    let fast = pd.alloc_fast_mr(8).unwrap();
    pd = refused(pd, "memory for fast registration");
    drop(fast);
    let srq = pd.create_srq(&weft_rnic::SrqInit { max_wr: 4, max_sge: 1, limit: 0 }).unwrap();
    pd = refused(pd, "a shared receive queue");
    drop(srq);
    let init = weft_rnic::QpInit::new(&pair.a.cq, &pair.a.cq);
    let qp = pair.a.device.create_qp(&pd, &init).unwrap();
    pd = refused(pd, "a queue pair");
    drop(qp);
    assert!(pd.dealloc().is_ok());
    let unrelated = qp_on(&pair.a, &pair.a.cq);
    assert!(pair.a.pd.clone().dealloc().is_err());
    drop(unrelated);
}

/// A peer writes into memory that another process could have mapped, and a second mapping shows it.
#[test]
fn a_peer_writes_into_shared_memory() {
    let file = memfd_create("weft", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, LEN as u64).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    let seen = Region::shared(&file, 0, LEN).unwrap();
    assert!(seen.copy_in(0, &[GUARD; LEN]));
    let mut pair = connected();
    let target = pair.b.pd.register_at(Region::shared(&file, 0, LEN).unwrap(), Access::ALL, 0).unwrap();
    write(&mut pair, &target, 8);
    let mut octets = [0; 4];
    assert!(seen.copy_out(8, &mut octets));
    assert_eq!(&octets, b"four");
    drop(target);
    assert!(seen.copy_out(8, &mut octets));
}
