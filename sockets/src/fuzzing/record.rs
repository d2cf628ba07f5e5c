//! Records, by which a sender goes back to TCP, in octets of the kernel's stream.

use crate::leg::MAX_LOG2;
use crate::sync::Ordering;
use crate::{Inbound, Link, Record, Secret, Slab, Source};

/// Reads `data` as the secret of a channel, a position that a reader has come to, and the kernel's stream. The reader
/// takes a record only if it begins with the secret, and leaves the ring only for a position that it has come to.
///
/// # Panics
/// If a record is found elsewhere or is written otherwise, or if the reader drops too much.
pub fn record(data: &[u8]) {
    let Some((secret, rest)) = data.split_first_chunk::<16>() else { return };
    let Some((consumed, stream)) = rest.split_first_chunk::<8>() else { return };
    let [low, high] = [0, 8].map(|at| u64::from_le_bytes(core::array::from_fn(|next| secret[at + next])));
    // The count of a stream never comes near the end of the numbers.
    let consumed = u64::from_le_bytes(*consumed) >> 1;
    check_search(stream, [low, high], *secret);
    let whole = Record::decode(stream, [low, high]);
    let is_secret = [low, high] != [0; 2] && stream.iter().zip(secret).all(|(one, other)| one == other);
    assert_eq!(whole.is_ok(), is_secret);
    for len in 0..stream.len().min(Record::LEN) {
        let begin = Record::decode(&stream[..len], [low, high]);
        assert!(begin == Ok(None) || whole.is_err(), "{len} octets are no record, or one");
    }
    let Ok(Some(record)) = whole else {
        assert!(whole.is_err() || stream.len() < Record::LEN);
        return;
    };
    if record.position != u64::MAX {
        assert_eq!(record.encode([low, high]), stream[..Record::LEN]);
    }
    check_reader(consumed, record);
}

/// A secret is found where it stands first, and nowhere else.
fn check_search(stream: &[u8], secret: Secret, octets: [u8; 16]) {
    let first = (0..stream.len()).find(|at| stream[*at..].starts_with(&octets));
    assert_eq!(Record::find(stream, secret), first.filter(|_| secret != [0; 2]));
}

/// A reader that has come to `consumed` leaves the ring for a record.
fn check_reader(consumed: u64, record: Record) {
    let link = Link::map(Link::create().expect("memory")).expect("a link");
    let slab = Slab::map(Slab::create().expect("memory")).expect("a slab");
    let own = &slab.end(0).expect("an end").inbound;
    own.consumed.store(consumed, Ordering::Relaxed);
    let inbound = Inbound::new(own, &link, 0, 0).expect("a channel");
    let again = consumed.checked_sub(record.position).filter(|again| *again <= 2 << MAX_LOG2);
    assert_eq!(inbound.leave(record).is_ok(), again.is_some());
    assert_eq!(inbound.has_left(), again.is_some(), "a reader that refuses a record stays");
    let Some(again) = again else { return };
    assert_eq!(inbound.skip(), again + Record::LEN as u64);
    assert!(matches!(inbound.source(), Ok(Source::Tcp { .. })));
    inbound.skipped(again);
    assert_eq!(inbound.skip(), Record::LEN as u64);
    inbound.skipped(u64::MAX);
    assert_eq!((inbound.skip(), own.consumed.load(Ordering::Relaxed)), (0, consumed));
}
