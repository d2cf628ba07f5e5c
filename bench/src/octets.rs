//! The octets of transfers, and their comparison after arrival.

use crate::case::Trouble;

/// Returns octets that differ from place to place, so that a wrong place shows.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut octets = Vec::with_capacity(len + 8);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while octets.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        octets.extend_from_slice(&state.to_le_bytes());
    }
    octets.truncate(len);
    octets
}

/// Compares arrived octets with the sent ones.
pub(crate) fn compare(came: &[u8], sent: &[u8]) -> Result<(), Trouble> {
    if came == sent {
        return Ok(());
    }
    if came.len() != sent.len() {
        return Err(Trouble::failed(format!("{} octets have come instead of {}", came.len(), sent.len())));
    }
    let place = came.iter().zip(sent).position(|(came, sent)| came != sent).unwrap_or_default();
    Err(Trouble::failed(format!(
        "octet {place} of {} came as {:#04x} instead of {:#04x}",
        sent.len(),
        came[place],
        sent[place]
    )))
}

/// Returns how many transfers of `size` octets one round has. A round must take some time, and its memory must fit in
/// caches.
pub(crate) fn round_len(size: usize) -> usize {
    (ROUND_OCTETS / size.max(1)).clamp(2, MOST_TRANSFERS)
}

/// Octets of one round. With both ends in one process, source, sink and TCP's buffers together exceed a second-level
/// cache, as they do in a program whose data changes.
const ROUND_OCTETS: usize = 4 << 20;
const MOST_TRANSFERS: usize = 4096;
