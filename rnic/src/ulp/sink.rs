//! The receiving half of a DDP stream: it places segments and delivers messages (RFC 5041 sections 5 and 7.1).

use core::ops::Range;

use weft_ddp::{Error, Header, Segment, Stag};
use weft_verbs::{Access, Reach, Violation};

use super::DdpEvent;
use super::buffer::BufferQueue;

/// The buffers of a DDP stream, tagged and untagged.
#[derive(Debug)]
pub(super) struct Sink {
    queues: Box<[BufferQueue]>,
    /// The range that the current tagged message has covered so far.
    run: Option<Run>,
}

/// Consecutive segments of one tagged message.
#[derive(Debug)]
struct Run {
    stag: Stag,
    to: Range<u64>,
}

impl Sink {
    pub(super) fn new(queues: usize) -> Self {
        Self { queues: (0..queues).map(|_| BufferQueue::default()).collect(), run: None }
    }

    /// Returns the buffers of a queue.
    pub(super) fn queue_mut(&mut self, queue: u32) -> Option<&mut BufferQueue> {
        self.queues.get_mut(usize::try_from(queue).ok()?)
    }

    /// Places a segment, and returns the event of the message that it completes. In case of an error nothing of the
    /// segment is placed.
    pub(super) fn accept(
        &mut self,
        segment: &Segment<'_>,
        reach: Reach<'_>,
    ) -> Result<Option<DdpEvent>, Error> {
        let Segment { header, payload } = *segment;
        match header {
            Header::Tagged { last, control, stag, to } => {
                let claim = reach.claim(stag, Access::REMOTE_WRITE);
                reach.place(claim, to, payload).map_err(blame)?;
                let run = self.extend(stag, to, payload.len() as u64);
                if !last {
                    self.run = Some(run);
                    return Ok(None);
                }
                let Run { stag, to } = run;
                Ok(Some(DdpEvent::Tagged { stag, to, rsvd: control }))
            }
            Header::Untagged { last, control, word, queue, msn, mo } => {
                let buffers = self.queue_mut(queue).ok_or(Error::InvalidQueue)?;
                buffers.place(mo, payload)?;
                if !last {
                    return Ok(None);
                }
                // The call above has placed octets into this buffer, so the buffer exists and is long enough.
                let len = mo + u32::try_from(payload.len()).map_err(|_| Error::TooLong)?;
                let buffer = buffers.deliver(len).ok_or(Error::NoBuffer)?;
                let [a, b, c, d] = word.to_be_bytes();
                let rsvd = [control, a, b, c, d];
                Ok(Some(DdpEvent::Untagged { id: buffer.id, queue, msn, rsvd, buffer: buffer.octets }))
            }
        }
    }

    /// Returns a buffer that gets no message any more.
    pub(super) fn give_back(&mut self) -> Option<DdpEvent> {
        (0..).zip(&mut self.queues).find_map(|(queue, buffers)| {
            let buffer = buffers.give_back()?;
            Some(DdpEvent::Returned { id: buffer.id, queue, buffer: buffer.octets })
        })
    }

    /// Returns the range that the message covers with a further segment. The header does not say where its message
    /// began, but the segments of a message are consecutive (RFC 5041 section 5.3).
    fn extend(&mut self, stag: Stag, to: u64, len: u64) -> Run {
        let end = to.wrapping_add(len);
        match self.run.take() {
            // STag and TO have no meaning in a segment without octets (RFC 5041 section 5.2).
            Some(run) if len == 0 => run,
            Some(run) if run.stag == stag && run.to.end == to => Run { stag, to: run.to.start..end },
            _ => Run { stag, to: to..end },
        }
    }
}

/// Returns DDP's error for a violation by a tagged segment. A buffer without the right to write does not allow
/// placement. That is the second check of RFC 5041 section 7.1, which has only the code of the first check.
const fn blame(violation: Violation) -> Error {
    match violation {
        Violation::WrongPd | Violation::WrongStream => Error::WrongStream,
        Violation::Wrap => Error::ToWrap,
        Violation::Bounds => Error::BaseOrBounds,
        _ => Error::InvalidStag,
    }
}
