//! Steps of dialogues about memory: a working stream, a wrong segment, and the returned headers.

use std::fmt::Display;

use crate::fault::{Fault, Refusal};
use crate::finding::Stop;
use crate::stream::Stream;
use crate::terminate::Terminate;
use crate::trial::Trial;

impl Trial<'_> {
    /// Opens a stream and shows by a zero-length Read that it works. The next MSN of queue 1 is 2.
    pub(crate) fn open_alive(&mut self) -> Result<Stream, Stop> {
        let mut stream = self.open()?;
        self.expect_alive(&[], &mut stream, 1)
            .map_err(|_| Stop::Unsuited("the target does not answer a zero-length Read".to_owned()))?;
        Ok(stream)
    }

    /// Judges `ids` by a step that the rest of the dialogue needs. Ends the dialogue if the step failed.
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

    /// A refusal has to be a Terminate that returns the DDP Header of `ulpdu`, and with `is_read` the RDMA Header
    /// too. Judges `ids` by the headers, and the requirements on M, D and R by these bits.
    pub(crate) fn judge_returned(
        &mut self,
        ids: &[&'static str],
        stream: &Stream,
        refusal: &Refusal,
        (ulpdu, is_read): (&[u8], bool),
    ) {
        let (headers, bits) = if is_read {
            ("a Terminate with both headers of the Read Request", 0xE0)
        } else {
            ("a Terminate with the DDP Header and no other", 0xC0)
        };
        match refusal {
            Refusal::Said(terminate) => {
                self.judge(ids, stream, returns(terminate, ulpdu, is_read), (headers, terminate));
                let expected = if is_read { "M=D=R=1" } else { "M=D=1 and R=0" };
                let ids: &[&'static str] = if is_read { READ_BITS } else { BITS };
                self.judge(ids, stream, terminate.header_bits() == bits, (expected, terminate));
                if is_read && terminate.header_bits() & R != 0 {
                    let is_there = terminate.rest.len() >= RETURNED_LEN;
                    let words = ("28 octets of RDMA Header for R=1", terminate);
                    self.judge(&["5040-4.8-13"], stream, is_there, words);
                }
            }
            Refusal::Ended => self.judge(ids, stream, false, (headers, "the end of the connection")),
            Refusal::None => {}
        }
    }
}

/// Returns true if the headers of the Terminate are right, whatever its bits. Ignores the length: the RFC's words
/// about it can be read in two ways.
fn returns(terminate: &Terminate, ulpdu: &[u8], is_read: bool) -> bool {
    let ddp_len = if ulpdu[0] & 0x80 == 0 { 18 } else { 14 };
    let len = if is_read { ddp_len + 28 } else { ddp_len };
    let Some((wanted, headers)) = ulpdu.get(..len).zip(terminate.rest.get(2..)) else { return false };
    // For the RDMA Header "set to zero" is as good as "not there".
    let rest_is_zero = headers.get(len..).is_some_and(|rest| rest.iter().all(|&octet| octet == 0));
    headers.starts_with(wanted) && rest_is_zero
}

/// The bit that announces an RDMA Header.
const R: u8 = 0x20;
/// Segment Length, DDP Header and RDMA Header of a Read Request.
const RETURNED_LEN: usize = 2 + 18 + 28;
/// The requirements on M, D and R.
const BITS: &[&str] = &["5040-4.8-4", "5040-4.8-5"];
const READ_BITS: &[&str] = &["5040-4.8-4", "5040-4.8-5", "5040-4.8-6"];
