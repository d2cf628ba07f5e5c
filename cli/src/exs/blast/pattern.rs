//! Octets that tell their position.

/// Fills octets that begin at a position.
pub(super) fn fill(octets: &mut [u8], position: u64) {
    for (octet, at) in octets.iter_mut().zip(position..) {
        *octet = octet_at(at);
    }
}

/// Returns the position of the first octet that is not what [`fill`] has put there.
pub(super) fn find_wrong(octets: &[u8], position: u64) -> Option<u64> {
    octets.iter().zip(position..).find(|(octet, at)| **octet != octet_at(*at)).map(|(_, at)| at)
}

/// The octets of neighboring positions look like chance, so that a shift shows within a few of them.
const fn octet_at(position: u64) -> u8 {
    let [.., high] = position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_of_another_position_are_wrong() {
        let mut octets = [0; 300];
        fill(&mut octets, 1000);
        assert_eq!(find_wrong(&octets, 1000), None);
        for shift in [1, 64, 4096, 1 << 20] {
            assert!(find_wrong(&octets, 1000 + shift).is_some_and(|at| at < 1010 + shift), "{shift}");
        }
        octets[299] ^= 1;
        assert_eq!(find_wrong(&octets, 1000), Some(1299));
    }
}
