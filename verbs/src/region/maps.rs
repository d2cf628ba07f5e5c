//! What the system says of this process's memory, for kernels that cannot be asked to fault a range in.

use core::ops::Range;

/// Returns whether all of `range` is mapped and can be read, and written where `writable` asks for it, by
/// `/proc/self/maps`. What the system does not tell is not there.
pub(super) fn are_mapped(range: &Range<usize>, writable: bool) -> bool {
    std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| covers(&maps, range, writable))
}

/// Returns whether `maps` covers the range. Mappings come in the order of their addresses, so that a gap between two is
/// a hole.
fn covers(maps: &str, range: &Range<usize>, writable: bool) -> bool {
    let mut next = range.start;
    for mapping in maps.lines().filter_map(Mapping::parse) {
        if next >= range.end || mapping.start > next {
            break;
        }
        if mapping.end > next {
            if !mapping.readable || writable && !mapping.writable {
                return false;
            }
            next = mapping.end;
        }
    }
    next >= range.end
}

struct Mapping {
    start: usize,
    end: usize,
    readable: bool,
    writable: bool,
}

impl Mapping {
    /// Reads `7f0000000000-7f0000001000 rw-p …`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?.as_bytes();
        let number = |digits| usize::from_str_radix(digits, 16).ok();
        Some(Self {
            start: number(start)?,
            end: number(end)?,
            readable: rights.first() == Some(&b'r'),
            writable: rights.get(1) == Some(&b'w'),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-3000 rw-p 00000000 00:00 0
3000-4000 r--p 00000000 08:01 77 /lib/some library.so
4000-5000 ---p 00000000 00:00 0
6000-7000 rw-s 00000000 00:01 5 /memfd:x (deleted)
7000-8000 rw-p 00000000 00:00 0 [heap]
";

    #[test]
    fn ranges_are_covered_or_not() {
        let cases = [
            (0x1000..0x3000, [true, true]),
            (0x1fff..0x2001, [true, true]),
            (0x0fff..0x1001, [false, false]),
            (0x2fff..0x3001, [true, false]),
            (0x1000..0x4001, [false, false]),
            (0x4fff..0x6001, [false, false]),
            (0x5000..0x6001, [false, false]),
            (0x6000..0x8000, [true, true]),
            (0x6000..0x8001, [false, false]),
            (0x9000..0x9001, [false, false]),
            (0x9000..0x9000, [true, true]),
        ];
        for (range, expected) in cases {
            assert_eq!([false, true].map(|writable| covers(MAPS, &range, writable)), expected, "{range:x?}");
        }
        assert!(!covers("nonsense\n-\n12-zz rw-p\n", &(1..2), false));
    }

    #[test]
    fn the_systems_own_list() {
        let octets = [1_u8; 64];
        let start = octets.as_ptr().addr();
        assert!(are_mapped(&(start..start + 64), true));
        let constant = "of the program, not to be written".as_ptr().addr();
        assert!(are_mapped(&(constant..constant + 1), false));
        assert!(!are_mapped(&(constant..constant + 1), true));
        assert!(!are_mapped(&(16..17), false));
    }
}
