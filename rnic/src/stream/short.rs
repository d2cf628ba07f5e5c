//! The short way of short messages: what takes most of a small message's time is what has to be remembered of it in
//! case that it does not go out, or arrive, as a whole. What these functions refuse goes the general way, and nothing
//! has happened to it.

use weft_ddp::{Header, Segment};
use weft_rdmap::Opcode;
use weft_verbs::Short;

use crate::stream::parked::Rdmap;
use crate::stream::segments::Segments;
use crate::stream::user::User;

/// Builds the FPDU of the next message in `out` if that is a short one, of at most `max_ulpdu` octets with its
/// header, and nothing else waits to be sent. Answers its length.
#[inline]
pub(crate) fn transmit(
    rdmap: &mut Rdmap,
    segments: &mut Segments,
    (out, max_ulpdu): (&mut [u8], usize),
    user: &mut impl User,
) -> Option<usize> {
    let max_ulpdu = max_ulpdu.min(Short::MAX_ULPDU);
    if rdmap.has_output() || segments.sends_markers() || max_ulpdu < Header::UNTAGGED_LEN {
        return None;
    }
    let short = user.put_short(segments.ulpdu_mut(out, max_ulpdu))?;
    let segment = rdmap.whole_message(&short.message, max_ulpdu)?;
    let octets = segments.seal_short(out, &segment.header, segment.len);
    user.count_sent(&segment.header, segment.len, octets);
    user.finish_short(&short);
    Some(octets)
}

/// Places and completes a Send that is whole in one segment. Returns whether it has.
#[inline]
pub(crate) fn place(segment: &Segment<'_>, user: &mut impl User) -> bool {
    Opcode::whole_send(&segment.header).is_some_and(|solicited| user.place_whole(segment.payload, solicited))
}
