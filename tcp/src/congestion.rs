//! Congestion control: how many octets may be in flight.

mod cubic;
mod event;
mod hystart;
#[cfg(test)]
mod tests;

pub(crate) use event::{Cause, Growth};

use cubic::Cubic;
use hystart::HyStart;

use crate::{Control, Seq};

/// The least number of segments that a reduction leaves (RFC 5681 equation 4, RFC 9438 section 4.6).
const LEAST_SEGMENTS: u32 = 2;

/// Window and threshold with what computes them. A copy is what undo puts back (RFC 9438 section 4.9).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Congestion {
    cwnd: u32,
    ssthresh: u32,
    smss: u32,
    algorithm: Algorithm,
}

#[derive(Clone, Copy, Debug)]
enum Algorithm {
    Cubic { cubic: Cubic, hystart: HyStart },
    None,
}

impl Congestion {
    /// Begins with the initial window (RFC 6928): IW = min(10 MSS, max(2 MSS, 14,600)).
    pub(crate) fn new(control: Control, smss: u32, first: Seq) -> Self {
        let (cwnd, algorithm) = match control {
            Control::Cubic => {
                let algorithm = Algorithm::Cubic { cubic: Cubic::default(), hystart: HyStart::new(first) };
                (initial_window(smss), algorithm)
            }
            Control::None(octets) => (octets, Algorithm::None),
        };
        Self { cwnd, ssthresh: u32::MAX, smss, algorithm }
    }

    pub(crate) const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    pub(crate) const fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    pub(crate) const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether the window is constant.
    pub(crate) const fn is_none(&self) -> bool {
        matches!(self.algorithm, Algorithm::None)
    }

    /// Sets the window while Proportional Rate Reduction has it.
    pub(crate) const fn set_cwnd(&mut self, cwnd: u32) {
        if !self.is_none() {
            self.cwnd = cwnd;
        }
    }

    /// Takes another segment size (RFC 8899). The window in octets stays.
    pub(crate) fn set_smss(&mut self, smss: u32) {
        self.smss = smss;
        self.cwnd = self.cwnd.max(smss);
    }

    /// Grows the window: slow start below the threshold, else congestion avoidance.
    pub(crate) fn grow(&mut self, ack: &Growth) {
        let Algorithm::Cubic { cubic, hystart } = &mut self.algorithm else { return };
        if self.cwnd < self.ssthresh {
            let step = hystart.acknowledge(ack, self.smss);
            if ack.is_limited {
                self.cwnd = self.cwnd.saturating_add(step).min(self.ssthresh.max(self.cwnd));
            }
            if hystart.has_ended() {
                self.ssthresh = self.cwnd;
                cubic.begin_without_loss(self.cwnd, self.smss, ack.now);
            }
        } else if ack.is_limited {
            self.cwnd = self.cwnd.saturating_add(cubic.grow(self.cwnd, self.smss, ack));
        } else {
            cubic.pause(ack.now);
        }
    }

    /// Sets the threshold after loss or a mark (RFC 9438 section 4.6). The caller brings the window down to it.
    ///
    /// `flight` is FlightSize before anything was declared lost.
    pub(crate) fn reduce(&mut self, cause: Cause, flight: u32) {
        let Algorithm::Cubic { cubic, hystart } = &mut self.algorithm else { return };
        let least = LEAST_SEGMENTS * self.smss;
        self.ssthresh = cubic.reduce(cause, flight.min(self.cwnd), self.cwnd, self.smss).max(least);
        hystart.stop();
    }

    /// Sets threshold and window after a retransmission timeout (RFC 9438 section 4.8, RFC 5681 equation 4).
    ///
    /// `is_first` is false if the segment went by timeout before: the threshold stays then (RFC 5681 section 3.1).
    pub(crate) fn timeout(&mut self, flight: u32, is_first: bool) {
        if is_first {
            self.reduce(Cause::Loss, flight);
        }
        let Algorithm::Cubic { cubic, .. } = &mut self.algorithm else { return };
        cubic.timeout();
        self.cwnd = self.smss;
    }

    /// Halves the window for each `periods` of idling, since what is known of the path grows old (RFC 7661 section 4.4.2).
    ///
    /// The window stays at the initial one at least, the threshold at three quarters of the old window.
    pub(crate) fn idle(&mut self, periods: u32) {
        let Algorithm::Cubic { cubic, .. } = &mut self.algorithm else { return };
        let least = initial_window(self.smss).min(self.cwnd);
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        self.cwnd = self.cwnd.checked_shr(periods).unwrap_or(0).max(least);
        cubic.restart();
    }
}

/// RFC 6928 section 2.
fn initial_window(smss: u32) -> u32 {
    (10 * smss).min((2 * smss).max(14_600))
}
