//! Segments that a target must not take, and how it may refuse them.

use crate::finding::Stop;
use crate::ping::Advertisement;
use crate::probe::shown;
use crate::stream::{Fpdu, Missing, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

/// A fault of a segment, and the right answers to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault<'a> {
    /// The description of the fault, for the reader of the evidence.
    pub(crate) what: &'a str,
    /// The requirements on any receiver that checks the segment. A target that refuses the segment keeps them.
    pub(crate) guards: &'a [&'static str],
    /// The RFCs' layer, type and code as four digits. Empty if the RFCs have no code.
    pub(crate) codes: &'a [&'a str],
    /// Other codes that show that the target saw the fault.
    pub(crate) near: &'a [&'a str],
}

/// How the target refused.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// By a Terminate.
    Said(Terminate),
    /// By ending the connection.
    Ended,
    /// Not at all, which was judged.
    None,
}

impl Fault<'_> {
    /// Returns true if the Terminate shows that the target saw the fault. Some stacks exchange layer and type, which
    /// another check reports.
    fn is_seen_by(&self, terminate: &Terminate) -> bool {
        if self.codes.is_empty() {
            return true;
        }
        let [layer, code] = terminate.code();
        let either = [number_of([layer, code]), number_of([layer.rotate_left(4), code])];
        self.codes.iter().chain(self.near).any(|code| either.iter().any(|either| either == code))
    }

    /// Returns the requirements on the code itself.
    fn coded(&self) -> &'static [&'static str] {
        if self.codes.iter().all(|code| code.starts_with('1')) { DDP_CODES } else { RDMAP_CODES }
    }
}

impl Trial<'_> {
    /// Opens a connection and sends `ulpdus`, the last of which has the fault; judges its guards and the code.
    pub(crate) fn expect_refusal_of(
        &mut self,
        fault: &Fault<'_>,
        ulpdus: &[Vec<u8>],
    ) -> Result<Refusal, Stop> {
        let mut stream = self.open()?;
        for ulpdu in ulpdus {
            stream.send_ulpdu(ulpdu);
        }
        Ok(self.expect_refusal_on(fault, &mut stream))
    }

    /// Does the same for a segment that has been sent already.
    pub(crate) fn expect_refusal_on(&mut self, fault: &Fault<'_>, stream: &mut Stream) -> Refusal {
        let answer = stream.read_fpdu();
        self.judge_refusal(fault, stream, answer)
    }

    /// Does the same for an answer that has come already.
    pub(crate) fn judge_refusal(
        &mut self,
        fault: &Fault<'_>,
        stream: &Stream,
        answer: Result<Fpdu, Missing>,
    ) -> Refusal {
        let wanted = if fault.codes.is_empty() { "of any kind".to_owned() } else { fault.codes.join(" or ") };
        let expected = format!("a Terminate {wanted} or the end of the connection: {}", fault.what);
        let fpdu = match answer {
            Ok(fpdu) => fpdu,
            Err(missing) => {
                self.note(missing);
                let is_end = missing != Missing::Silence;
                self.judge(fault.guards, stream, is_end, (expected, missing));
                return if is_end { Refusal::Ended } else { Refusal::None };
            }
        };
        let Some(terminate) = Terminate::parse(&fpdu.ulpdu) else {
            self.judge(fault.guards, stream, false, (expected, shown(&fpdu)));
            return Refusal::None;
        };
        self.judge(fault.guards, stream, fault.is_seen_by(&terminate), (&expected, &terminate));
        if !fault.codes.is_empty() {
            let is_right = fault.codes.contains(&number_of(terminate.code()).as_str());
            self.judge(fault.coded(), stream, is_right, (&expected, &terminate));
        }
        Refusal::Said(terminate)
    }
}

fn number_of([layer, code]: [u8; 2]) -> String {
    format!("{layer:02X}{code:02X}")
}

/// Returns the payload of a Send with a fault. It is an advertisement, so that an rping server that takes it goes on.
pub(crate) fn bait() -> Vec<u8> {
    Advertisement { to: 0x1000, stag: 0x5744, size: 64 }.emit()
}

/// Returns the answer as text.
pub(crate) fn found(answer: &Result<Fpdu, Missing>) -> String {
    answer.as_ref().map_or_else(Missing::to_string, shown)
}

/// The requirements that give DDP's errors DDP's numbers.
pub(crate) const DDP_CODES: &[&str] = &["5041-7.2-1", "5040-4.8-3"];
/// The requirement for RDMAP's errors (RFC 5040, figure 9).
pub(crate) const RDMAP_CODES: &[&str] = &["5040-4.8-3"];
