//! The three sets of `select` as a list for `poll`, and the answers back.

use core::ffi::c_int;

use libc::pollfd;

/// The sets that a program gives to `select`, in words of 64 descriptors.
#[derive(Debug, Default)]
pub(crate) struct Sets<'a> {
    /// To be read, to be written, and those with urgent data.
    pub(crate) sets: [Option<&'a mut [u64]>; 3],
}

impl Sets<'_> {
    /// Lists the descriptors below `limit` that are in a set. Returns how many there are, or `None` if the list is too
    /// short for them.
    pub(crate) fn list(&self, limit: c_int, list: &mut [pollfd]) -> Option<usize> {
        let mut len = 0;
        for at in 0..usize::try_from(limit).unwrap_or(0).div_ceil(64) {
            let words = [0, 1, 2].map(|set| self.word(set, at));
            let mut members = words[0] | words[1] | words[2];
            while members != 0 {
                let bit = members.trailing_zeros();
                members &= members - 1;
                let descriptor = c_int::try_from(at * 64).ok()? + bit.cast_signed();
                let in_set = |set: &usize| words[*set] >> bit & 1 != 0;
                let events = (0..3).filter(in_set).fold(0, |events, set| events | ASKED[set]);
                if descriptor < limit {
                    *list.get_mut(len)? = pollfd { fd: descriptor, events, revents: 0 };
                    len += 1;
                }
            }
        }
        Some(len)
    }

    /// Returns how many descriptors are in a set.
    pub(crate) fn len(&self, limit: c_int) -> usize {
        let words = usize::try_from(limit).unwrap_or(0).div_ceil(64);
        (0..words)
            .map(|at| (self.word(0, at) | self.word(1, at) | self.word(2, at)).count_ones() as usize)
            .sum()
    }

    /// Stores the answers. Returns how many bits are set, or the error.
    pub(crate) fn answer(&mut self, list: &[pollfd]) -> Result<usize, c_int> {
        if list.iter().any(|item| item.revents & libc::POLLNVAL != 0) {
            return Err(libc::EBADF);
        }
        let mut bits = 0;
        for item in list {
            for set in 0..3 {
                let (at, bit) = place(item.fd);
                let asked = item.events & ASKED[set] == ASKED[set];
                let Some(word) = self.sets[set].as_deref_mut().and_then(|words| words.get_mut(at)) else {
                    continue;
                };
                *word &= !bit;
                if asked && item.revents & TOLD[set] != 0 {
                    *word |= bit;
                    bits += 1;
                }
            }
        }
        Ok(bits)
    }

    fn word(&self, set: usize, at: usize) -> u64 {
        self.sets[set].as_deref().and_then(|words| words.get(at)).copied().unwrap_or(0)
    }
}

/// The word of a descriptor and its bit there.
fn place(descriptor: c_int) -> (usize, u64) {
    let number = usize::try_from(descriptor).unwrap_or(usize::MAX);
    (number / 64, 1 << (number % 64))
}

/// What is asked for a descriptor in each set. The bits tell the sets apart.
const ASKED: [i16; 3] =
    [libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND, libc::POLLOUT | libc::POLLWRNORM, libc::POLLPRI];
/// The answers for which a descriptor stays in each set.
const TOLD: [i16; 3] = [
    libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR,
    libc::POLLPRI,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_listed_once_and_answers_go_to_their_sets() {
        let (mut read, mut write, mut except) = ([1 << 3 | 1 << 5, 1 << 2], [1 << 3, 0], [0, 1 << 2]);
        let mut sets = Sets { sets: [Some(&mut read), Some(&mut write), Some(&mut except)] };
        let mut list = [pollfd { fd: 0, events: 0, revents: 0 }; 3];
        assert_eq!(sets.list(67, &mut list[..2]), None);
        assert_eq!(sets.list(67, &mut list), Some(3));
        assert_eq!(sets.list(66, &mut list), Some(2), "the limit is not in it");
        sets.list(67, &mut list);
        assert_eq!(list.map(|item| item.fd), [3, 5, 66]);
        list[0].revents = libc::POLLOUT;
        list[2].revents = libc::POLLHUP | libc::POLLRDHUP;
        assert_eq!(sets.answer(&list), Ok(2));
        assert_eq!((read, write, except), ([0, 1 << 2], [1 << 3, 0], [0, 0]));
    }

    #[test]
    fn errors_are_told_to_readers_and_writers() {
        let (mut read, mut write) = ([1], [1]);
        let mut sets = Sets { sets: [Some(&mut read), Some(&mut write), None] };
        let mut list = [pollfd { fd: 0, events: 0, revents: 0 }];
        sets.list(1, &mut list);
        list[0].revents = libc::POLLERR;
        assert_eq!(sets.answer(&list), Ok(2));
        list[0].revents = libc::POLLNVAL;
        assert_eq!(sets.answer(&list), Err(libc::EBADF));
    }
}
