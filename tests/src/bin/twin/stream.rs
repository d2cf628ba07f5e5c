//! The octets that a connection carries: each follows from the stream's number and its position.

/// Returns octets of a stream from a position on, in pieces of these lengths.
pub(crate) fn pieces(stream: i64, position: u64, lens: &[usize]) -> Vec<Vec<u8>> {
    let mut position = position;
    let piece = |len: &usize| {
        let piece = (position..position + *len as u64).map(|position| octet(stream, position)).collect();
        position += *len as u64;
        piece
    };
    lens.iter().map(piece).collect()
}

/// Returns the hash of octets behind those that made `hash`.
pub(crate) fn hash<'a>(hash: u64, octets: impl Iterator<Item = &'a u8>) -> u64 {
    octets.fold(hash, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the hash of a stretch of a stream.
pub(crate) fn hash_of(stream: i64, position: u64, len: u64) -> u64 {
    let octets: Vec<u8> = (position..position + len).map(|position| octet(stream, position)).collect();
    hash(START, octets.iter())
}

fn octet(stream: i64, position: u64) -> u8 {
    let mixed = (position + ((stream as u64) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

/// The hash of no octets.
pub(crate) const START: u64 = 0xcbf2_9ce4_8422_2325;
