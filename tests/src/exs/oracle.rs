//! What a side may have received, from what the other one has started to send.

/// A send, and what is known of it.
#[derive(Debug)]
pub(super) struct Sent<'a> {
    pub(super) octets: &'a [u8],
    pub(super) fate: Fate,
}

/// What the outcome of a send says about its octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The peer has so many of the octets of a message.
    Taken(usize),
    /// They come before anything that was sent later, if that comes. Of a stream, they may end in the middle.
    InTurn,
    /// They come so, or not at all.
    MayBe,
    /// They do not come.
    Never,
}

/// A message that has come.
#[derive(Debug)]
pub(super) struct Message {
    /// As far as the receive has taken it.
    pub(super) octets: Vec<u8>,
    /// Octets that were sent.
    pub(super) len: usize,
}

/// Checks the messages that have come. If it `is_all`, nothing more was sent.
///
/// # Errors
/// Why no order of events explains them.
pub(super) fn check_messages(sent: &[Sent<'_>], came: &[Message], is_all: bool) -> Result<(), String> {
    explain(sent, came.len(), is_all, |send, at| {
        let message = came.get(at)?;
        let placed = &message.octets[..];
        let is_it = message.len == send.octets.len() && send.octets.get(..placed.len()) == Some(placed);
        let is_known = !matches!(send.fate, Fate::Taken(octets) if octets != placed.len());
        (is_it && is_known).then_some((at + 1, true))
    })
}

/// Checks the octets that have come. If it `is_all`, nothing more was sent.
///
/// # Errors
/// Why no order of events explains them.
pub(super) fn check_octets(sent: &[Sent<'_>], came: &[u8], is_all: bool) -> Result<(), String> {
    explain(sent, came.len(), is_all, |send, at| {
        let rest = &came[at..];
        let common = rest.len().min(send.octets.len());
        (rest[..common] == send.octets[..common]).then_some((at + common, common == send.octets.len()))
    })
}

/// A place in what has come, and whether all that was sent before has come.
type State = (usize, bool);

/// Follows all orders of events. `take` says where a send ends that begins at a place, and whether it is there in full.
fn explain(
    sent: &[Sent<'_>],
    end: usize,
    is_all: bool,
    take: impl Fn(&Sent<'_>, usize) -> Option<State>,
) -> Result<(), String> {
    let mut states = vec![(0, true)];
    for (number, send) in sent.iter().enumerate() {
        let mut next = Vec::new();
        for &(at, is_open) in &states {
            let taken = if is_open { take(send, at) } else { None };
            match send.fate {
                Fate::Never => next.push((at, is_open)),
                Fate::Taken(_) => next.extend(taken),
                Fate::MayBe => next.extend(taken.into_iter().chain([(at, is_open)])),
                // What did not come is the end of all.
                Fate::InTurn => next.extend(taken.or_else(|| (at == end).then_some((at, false)))),
            }
        }
        next.sort_unstable();
        next.dedup();
        if next.is_empty() {
            let furthest = states.iter().map(|(at, _)| *at).max().unwrap_or(0);
            let sent: Vec<_> = sent.iter().map(|send| (send.octets.len(), send.fate)).collect();
            return Err(format!("send {number} does not follow {furthest} of {end} that came: {sent:?}"));
        }
        states = next;
    }
    if states.iter().any(|&(at, is_open)| at == end && (is_open || !is_all)) {
        return Ok(());
    }
    let what = if is_all { "the peer has ended, but not all has come" } else { "more came than was sent" };
    let sent: Vec<_> = sent.iter().map(|send| (send.octets.len(), send.fate)).collect();
    Err(format!("{what}: {states:?}, {end} came of {sent:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(came: &[u8], is_all: bool, fates: &[Fate]) -> bool {
        let sent: Vec<_> = [b"abc".as_slice(), b"", b"xy"]
            .iter()
            .zip(fates)
            .map(|(octets, fate)| Sent { octets, fate: *fate })
            .collect();
        check_octets(&sent, came, is_all).is_ok()
    }

    #[test]
    fn octets_come_in_order_and_end_anywhere_if_the_end_was_not_told() {
        let sent = [Fate::InTurn; 3];
        for len in 0..=5 {
            assert!(octets(&b"abcxy"[..len], false, &sent), "{len}");
            assert_eq!(octets(&b"abcxy"[..len], true, &sent), len == 5, "{len}");
        }
        for wrong in [b"abx".as_slice(), b"xy", b"abcxyz", b"abcabc"] {
            assert!(!octets(wrong, false, &sent), "{wrong:?}");
        }
        let may_be = [Fate::MayBe, Fate::InTurn, Fate::InTurn];
        assert!(octets(b"xy", true, &may_be) && octets(b"abcxy", true, &may_be));
        assert!(!octets(b"abcxy", true, &[Fate::Never, Fate::InTurn, Fate::InTurn]));
    }

    #[test]
    fn messages_come_whole_or_cut_off_as_both_sides_know() {
        let sent = |fates: [Fate; 2]| {
            let octets = [b"abc".as_slice(), b"xy"];
            octets.into_iter().zip(fates).map(|(octets, fate)| Sent { octets, fate }).collect::<Vec<_>>()
        };
        let came = |parts: &[(&str, usize)]| {
            let message = |&(part, len): &(&str, usize)| Message { octets: part.as_bytes().to_vec(), len };
            parts.iter().map(message).collect::<Vec<_>>()
        };
        let is_right = |fates, parts: &[(&str, usize)], is_all| {
            check_messages(&sent(fates), &came(parts), is_all).is_ok()
        };
        assert!(is_right([Fate::Taken(3), Fate::Taken(1)], &[("abc", 3), ("x", 2)], true));
        assert!(!is_right([Fate::Taken(3), Fate::Taken(2)], &[("abc", 3), ("x", 2)], true));
        assert!(!is_right([Fate::Taken(3), Fate::Taken(2)], &[("abc", 3)], false));
        assert!(is_right([Fate::Taken(3), Fate::InTurn], &[("abc", 3)], false));
        assert!(!is_right([Fate::Taken(3), Fate::InTurn], &[("abc", 3)], true));
        assert!(!is_right([Fate::InTurn, Fate::Taken(2)], &[("xy", 2)], false));
        assert!(is_right([Fate::MayBe, Fate::Taken(2)], &[("xy", 2)], true));
    }
}
