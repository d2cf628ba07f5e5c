//! Steps that dialogues about memory have: a stream that works, a wrong segment, and the headers that come back.

use std::fmt::Display;

use crate::check::Stop;
use crate::fault::{Fault, Refusal};
use crate::stream::Stream;
use crate::terminate::Terminate;
use crate::trial::Trial;

impl Trial<'_> {
    /// A stream that works, as a zero-length Read shows. The next MSN of queue 1 is 2.
    pub(crate) fn open_alive(&mut self) -> Result<Stream, Stop> {
        let mut stream = self.open()?;
        self.expect_alive(&[], &mut stream, 1)
            .map_err(|_| Stop::Unsuited("the target does not answer a zero-length Read".to_owned()))?;
        Ok(stream)
    }

    /// Judges `ids`, by a step which the rest of the dialogue needs.
    pub(crate) fn need(
        &mut self,
        ids: &[&'static str],
        stream: &Stream,
        is_right: bool,
        words: (impl Display, impl Display),
    ) -> Result<(), Stop> {
        self.judge(ids, stream, is_right, words);
        if is_right { Ok(()) } else { Err(Stop::Judged) }
    }

    /// Sends a wrong segment, which the target has to refuse.
    pub(crate) fn provoke(
        &mut self,
        fault: &Fault<'_>,
        stream: &mut Stream,
        ulpdu: &[u8],
    ) -> Result<Refusal, Stop> {
        stream.send_ulpdu(ulpdu);
        match self.expect_refusal_on(fault, stream) {
            Refusal::None => Err(Stop::Judged),
            refusal => Ok(refusal),
        }
    }

    /// A refusal has to be a Terminate that returns the DDP Header of `ulpdu`, and with `is_read` the RDMA Header too; judges `ids`.
    pub(crate) fn judge_returned(
        &mut self,
        ids: &[&'static str],
        stream: &Stream,
        refusal: &Refusal,
        (ulpdu, is_read): (&[u8], bool),
    ) {
        let expected = if is_read {
            "a Terminate with M=D=R=1 and both headers of the Read Request"
        } else {
            "a Terminate with M=D=1, R=0 and the DDP Header"
        };
        match refusal {
            Refusal::Said(terminate) => {
                let is_right = returns(terminate, ulpdu, is_read);
                self.judge(ids, stream, is_right, (expected, terminate));
            }
            Refusal::Ended => self.judge(ids, stream, false, (expected, "the end of the connection")),
            Refusal::None => {}
        }
    }
}

/// Whether the bits and the headers of the Terminate are right. The length is not looked at: the RFC's words can be read in two ways.
fn returns(terminate: &Terminate, ulpdu: &[u8], is_read: bool) -> bool {
    let ddp_len = if ulpdu[0] & 0x80 == 0 { 18 } else { 14 };
    let (len, bits) = if is_read { (ddp_len + 28, 0xE0) } else { (ddp_len, 0xC0) };
    let Some((wanted, headers)) = ulpdu.get(..len).zip(terminate.rest.get(2..)) else { return false };
    // "Set to zero" is as good as "not there" for the RDMA Header.
    let rest_is_zero = headers.get(len..).is_some_and(|rest| rest.iter().all(|&octet| octet == 0));
    terminate.header_bits() == bits && headers.starts_with(wanted) && rest_is_zero
}
