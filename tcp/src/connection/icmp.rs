//! What ICMP says of a connection.

use super::Connection;
use super::black_hole::BlackHole;
use super::effects::{Cause, Effects};
use crate::opening::TIMESTAMPS_LEN;
use crate::{Interval, Micros, Sent, Seq, State};

/// A message of ICMP about a segment that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The packet was longer than the path takes. A TCP segment may have so many octets of options and payload.
    TooBig(u16),
    /// A hard error: protocol or port unreachable (RFC 9293 section 3.9.2.2).
    Hard,
    /// Any other error, which may pass.
    Soft,
}

impl<S: AsRef<[Sent]> + AsMut<[Sent]>, I: AsMut<[Interval]>> Connection<S, I> {
    /// Takes a message of ICMP that quotes a segment with this number.
    ///
    /// It counts only if the segment is in flight (RFC 5927 section 4.1). A hard error ends a connection before it is
    /// established, and is a soft one later (RFC 5927 section 5.2). The EMSS does not fall below that of the least MTU
    /// (RFC 5927 section 7.2).
    pub fn icmp(&mut self, quoted: Seq, what: Unreachable, now: Micros) -> Effects {
        let is_opening = matches!(self.state, State::SynSent | State::SynReceived);
        let is_in_flight = if is_opening {
            self.syn_times > 0 && quoted == self.iss
        } else {
            self.state != State::Closed && quoted.is_within(self.sender.una(), self.sender.nxt())
        };
        match what {
            Unreachable::Hard if is_in_flight && is_opening => self.end(Cause::Unreachable),
            Unreachable::TooBig(mss) if is_in_flight && !is_opening => {
                let least = self.config.default_mss.min(self.agreement.mss);
                let mss = mss.max(least);
                if mss < self.agreement.mss && mss > TIMESTAMPS_LEN {
                    self.black_hole = BlackHole::None;
                    self.set_mss(mss, now);
                }
                Effects::default()
            }
            _ => Effects::default(),
        }
    }

    /// Takes another MSS for the path, with as many octets of options as before.
    pub(super) fn set_mss(&mut self, mss: u16, now: Micros) {
        self.agreement.mss = mss;
        self.sender.set_emss(self.agreement.emss(), now);
    }
}
