//! Names and measures that processes and daemons share.

use weft_sockets_stepped::RingPlace;

/// The names of links between a process and a daemon have this bit. Those of families that stand for hosts have it, too.
pub(crate) const FAR_NAME: u64 = 1 << 60;
/// The logarithm by which rings are smaller than the daemon has them.
pub(crate) const SMALLER: u8 = weft_sockets::MIN_LOG2 - weft_sockets_stepped::MIN_LOG2;
/// The ring in the core's own measure.
pub(crate) fn small(ring: weft_sockets::RingPlace) -> Option<RingPlace> {
    RingPlace::new(ring.unit, ring.log2.checked_sub(SMALLER)?)
}

/// The ring as daemons have it.
pub(crate) fn large(ring: RingPlace) -> weft_sockets::RingPlace {
    weft_sockets::RingPlace::new(ring.unit, ring.log2 + SMALLER).expect("a place")
}

/// The octets from a place of a link on: those of the unit, and the place in it.
pub(crate) fn place(at: u64) -> (RingPlace, usize) {
    let unit = u32::try_from(at >> 16).expect("a place");
    let within = usize::try_from(at & 0xffff).expect("a place");
    (RingPlace::new(unit, weft_sockets_stepped::MAX_LOG2).expect("a place"), within)
}
