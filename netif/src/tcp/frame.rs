//! Frames that a connection sends, from the first octet until the last one is acknowledged.

use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

use weft_tcp::{Token, Unsent};

use super::pool::Pool;

/// The frames of a connection with octets that are not acknowledged, in order.
///
/// The user writes payload behind the place of the headers. A frame goes as it is, once. What has to go in another way
/// (again, or cut where a window ends) goes in a copy. A [`Token`] is the number of a frame.
#[derive(Debug)]
pub(crate) struct Outbox {
    frames: VecDeque<Built>,
    /// The number of the first frame.
    first: u32,
    /// The place of the first frame of which octets were never sent.
    next: usize,
    unsent: usize,
    /// Octets of the headers of a segment with data.
    headers: usize,
    /// Octets of payload that a frame may have: several segments if the device cuts them.
    longest: usize,
}

/// A frame that is being built, or was.
#[derive(Debug)]
pub(crate) struct Built {
    /// Missing only while it is on its way to the wire.
    buffer: Option<Arc<[u8]>>,
    len: usize,
    /// Octets that were sent for the first time.
    pub(crate) sent: usize,
    /// The EMSS when the frame was begun.
    pub(crate) segment: usize,
    /// Octets may be added.
    is_open: bool,
}

impl Outbox {
    pub(crate) const fn new() -> Self {
        Self { frames: VecDeque::new(), first: 0, next: 0, unsent: 0, headers: 0, longest: 0 }
    }

    /// Sets the octets of a data segment's headers, and the octets of payload of the longest frame.
    pub(crate) const fn set_form(&mut self, headers: usize, longest: usize) {
        (self.headers, self.longest) = (headers, longest);
    }

    /// Returns what was never sent. No segment is longer than `emss`.
    pub(crate) fn unsent(&self, emss: usize) -> Unsent {
        let first = self.frames.get(self.next).map_or(0, |built| (built.len - built.sent).min(emss));
        let number = |octets: usize| u32::try_from(octets).unwrap_or(u32::MAX);
        Unsent { octets: number(self.unsent), first: number(first) }
    }

    /// Lets `f` write into the rest of the open segment if that has at least `least` octets, and otherwise into a new
    /// one. `room` is the most octets. `f` returns how many to queue, and a result.
    pub(crate) fn write<R>(
        &mut self,
        pool: &mut Pool,
        [emss, least, room]: [usize; 3],
        f: impl FnOnce(&mut [u8]) -> (usize, R),
    ) -> (usize, R) {
        if room == 0 {
            return (0, f(&mut []).1);
        }
        let rest = match self.open_room(emss).filter(|&rest| rest >= least.clamp(1, emss)) {
            Some(rest) => rest,
            None => {
                self.begin(pool, emss);
                emss
            }
        };
        let Some(built) = self.frames.back_mut() else { return (0, f(&mut []).1) };
        let start = self.headers + built.len;
        // Only an open frame is written to, and no one else has its buffer.
        let place = built.buffer.as_mut().and_then(Arc::get_mut).and_then(|buffer| buffer.get_mut(start..));
        let place = place.unwrap_or_default();
        let end = rest.min(room).min(place.len());
        let (len, result) = f(&mut place[..end]);
        let len = len.min(end);
        built.len += len;
        self.unsent += len;
        if built.len == 0
            && let Some(built) = self.frames.pop_back()
        {
            built.buffer.into_iter().for_each(|buffer| pool.give_unused(buffer));
        }
        (len, result)
    }

    /// Returns the octets that the open segment still takes: a whole one if the frame takes another one.
    fn open_room(&self, emss: usize) -> Option<usize> {
        let built = self.frames.back().filter(|built| built.is_open && built.segment == emss)?;
        let rest = emss - built.len % emss;
        (built.len + rest <= self.longest.max(emss)).then_some(rest)
    }

    fn begin(&mut self, pool: &mut Pool, emss: usize) {
        if let Some(built) = self.frames.back_mut() {
            built.is_open = false;
        }
        let buffer = Some(pool.take(self.headers + self.longest.max(emss)));
        self.frames.push_back(Built { buffer, len: 0, sent: 0, segment: emss, is_open: true });
    }

    /// Returns the next frame with octets that were never sent, and its token.
    pub(crate) fn next(&mut self) -> Option<(Token, &mut Built)> {
        let place = u32::try_from(self.next).ok()?;
        let built = self.frames.get_mut(self.next)?;
        Some((Token(self.first.wrapping_add(place)), built))
    }

    /// Notes that octets of the next frame were sent for the first time.
    pub(crate) fn note_sent(&mut self, len: usize) {
        let Some(built) = self.frames.get_mut(self.next) else { return };
        built.sent += len;
        built.is_open &= built.sent < built.len;
        self.unsent -= len.min(self.unsent);
        if built.sent >= built.len {
            self.next += 1;
        }
    }

    /// Returns octets of the payload of a frame.
    pub(crate) fn payload(&self, Token(token): Token, range: Range<usize>) -> &[u8] {
        let place = usize::try_from(token.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        let built = self.frames.get(place);
        built.and_then(|built| built.payload(self.headers, range)).unwrap_or_default()
    }

    /// Gives the buffer of a frame back, all of whose octets are acknowledged, and of those before it.
    pub(crate) fn release(&mut self, Token(token): Token, pool: &mut Pool) {
        let count = usize::try_from(token.wrapping_sub(self.first)).map_or(0, |place| place + 1);
        if count > self.next {
            return;
        }
        self.frames.drain(..count).filter_map(|built| built.buffer).for_each(|buffer| pool.give(buffer));
        self.first = token.wrapping_add(1);
        self.next -= count;
    }

    /// Gives all buffers back.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.frames.drain(..).filter_map(|built| built.buffer).for_each(|buffer| pool.give(buffer));
        (self.next, self.unsent) = (0, 0);
    }
}

impl Built {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    fn payload(&self, headers: usize, range: Range<usize>) -> Option<&[u8]> {
        self.buffer.as_ref()?.get(headers + range.start..headers + range.end.min(self.len))
    }

    /// Takes the buffer out to send it: a smaller one if it would be nearly empty.
    pub(crate) fn take_out(&mut self, headers: usize, pool: &mut Pool) -> Option<Arc<[u8]>> {
        self.is_open = false;
        let buffer = self.buffer.take()?;
        let len = headers + self.len;
        if len * WASTE >= buffer.len() || pool.size_for(len) >= buffer.len() {
            return Some(buffer);
        }
        let mut small = pool.take(len);
        Arc::get_mut(&mut small)?.get_mut(headers..len)?.copy_from_slice(buffer.get(headers..len)?);
        pool.give_unused(buffer);
        Some(small)
    }

    /// Puts the buffer back that was taken out.
    pub(crate) fn put_back(&mut self, buffer: Option<Arc<[u8]>>) {
        self.buffer = buffer;
    }
}

/// A buffer of which less than this part is filled is exchanged for a smaller one.
const WASTE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: usize = 66;

    fn outbox(longest: usize) -> (Outbox, Pool) {
        let mut outbox = Outbox::new();
        outbox.set_form(HEADERS, longest);
        (outbox, Pool::new(longest + HEADERS))
    }

    fn write(outbox: &mut Outbox, pool: &mut Pool, least: usize, octets: &[u8]) -> usize {
        outbox
            .write(pool, [1000, least, 1 << 20], |room| {
                let len = room.len().min(octets.len());
                room[..len].copy_from_slice(&octets[..len]);
                (len, ())
            })
            .0
    }

    #[test]
    fn a_place_never_lies_across_two_segments() {
        for longest in [1000, 3000] {
            let (mut outbox, mut pool) = outbox(longest);
            assert_eq!(write(&mut outbox, &mut pool, 1, &[1; 600]), 600);
            assert_eq!(outbox.open_room(1000), Some(400));
            assert_eq!(write(&mut outbox, &mut pool, 400, &[2; 600]), 400, "the rest of the segment");
            assert_eq!(write(&mut outbox, &mut pool, 1, &[3; 600]), 600);
            assert_eq!(
                write(&mut outbox, &mut pool, 401, &[4; 600]),
                600,
                "a new one, as the rest is too short"
            );
            let frames = if longest == 1000 { vec![1000, 600, 600] } else { vec![1600, 600] };
            assert_eq!(outbox.frames.iter().map(|built| built.len).collect::<Vec<_>>(), frames);
            assert_eq!(outbox.unsent(1000), Unsent { octets: 2200, first: 1000 });
            assert_eq!(outbox.payload(Token(0), 599..601), [1, 2]);
        }
    }

    #[test]
    fn what_is_short_goes_in_a_small_buffer_and_is_kept_until_it_is_acknowledged() {
        let (mut outbox, mut pool) = outbox(1000);
        assert_eq!(write(&mut outbox, &mut pool, 1, &[7; 8]), 8);
        let (token, built) = outbox.next().unwrap();
        let buffer = built.take_out(HEADERS, &mut pool).unwrap();
        assert_eq!((buffer.len(), &buffer[HEADERS..HEADERS + 8]), (256, &[7; 8][..]));
        built.put_back(Some(buffer));
        outbox.note_sent(8);
        assert_eq!((outbox.unsent(1000).octets, outbox.next().is_none()), (0, true));
        assert_eq!(write(&mut outbox, &mut pool, 1, &[8; 8]), 8, "in another frame");
        assert_eq!((outbox.payload(token, 0..8), outbox.payload(Token(1), 0..9)), (&[7; 8][..], &[8; 8][..]));
        outbox.release(token, &mut pool);
        assert_eq!((outbox.payload(token, 0..8), outbox.payload(Token(1), 2..4)), (&[][..], &[8; 2][..]));
        outbox.release(Token(1), &mut pool);
        assert_eq!(outbox.frames.len(), 1, "it was not sent yet");
    }
}
