//! `TCP_INFO`: the kernel's answer, with the octets that went by rings.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::call::Call;
use crate::evidence::{BYTES_ACKED, BYTES_RECEIVED, BYTES_SENT};
use crate::{channel, ends, queue};

/// Adds the octets of rings to `struct tcp_info`, as far as the kernel has filled it. What is in a ring has arrived.
pub(crate) fn complete(descriptor: c_int, info: &mut [u8]) {
    let Some(stream) = ends::known(descriptor) else { return };
    let counts = &stream.end.counts;
    let sent = counts.out_ring.load(Ordering::Relaxed);
    let waiting = channel::inbound(&stream).map_or(0, |_| {
        let (octets, _) = queue::in_ring(&Call { descriptor, stream, flags: 0 });
        octets
    });
    let received = counts.in_ring.load(Ordering::Relaxed) + waiting;
    for (place, octets) in [(BYTES_ACKED, sent), (BYTES_RECEIVED, received), (BYTES_SENT, sent)] {
        raise(info.get_mut(place..).unwrap_or_default(), octets);
    }
}

/// Adds to a number at the beginning of `field`, of which the kernel may have told the low octets only.
fn raise(field: &mut [u8], more: u64) {
    let (mut number, len) = ([0; 8], field.len().min(8));
    let (Some(low), Some(field)) = (number.get_mut(..len), field.get_mut(..len)) else { return };
    low.copy_from_slice(field);
    let sum = u64::from_le_bytes(number).wrapping_add(more).to_le_bytes();
    field.copy_from_slice(sum.get(..len).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_raised_as_far_as_they_are_told() {
        let mut info = [0xff, 1, 0, 0, 0, 0, 0, 0, 7];
        raise(&mut info, 0x1_0000_0002);
        assert_eq!(info, [1, 2, 0, 0, 1, 0, 0, 0, 7]);
        raise(&mut info[7..8], 0xff02);
        raise(&mut [], 5);
        assert_eq!(info, [1, 2, 0, 0, 1, 0, 0, 2, 7]);
    }
}
