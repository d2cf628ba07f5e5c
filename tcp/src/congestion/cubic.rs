//! CUBIC (RFC 9438) in integers: windows in 1/1024 of a segment, times in milliseconds.

use super::event::{Cause, Growth};
use crate::Micros;

/// One segment.
const ONE: u64 = 1024;
/// C (RFC 9438 section 5.1) is 0.4 segments a second cubed. In 1/1024 segments a millisecond cubed it is 4 / 9,765,625.
const C: (u64, u64) = (4, 9_765_625);
/// beta_cubic (RFC 9438 section 4.6), in percent.
const BETA_CUBIC: u64 = 70;
/// The factor for ECN (RFC 8511 section 3), in percent.
const BETA_ECN: u64 = 85;
/// alpha_cubic (RFC 9438 section 4.3), 3 (1 - beta) / (1 + beta), in 1/65,536.
const ALPHA_CUBIC: u64 = 34_695;
/// Further from the plateau than 2^20 ms, 17 minutes, the curve goes on straight: the cube would not fit.
const FURTHEST: u64 = 1 << 20;

/// The variables of RFC 9438 section 4.1.2.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cubic {
    /// W_max.
    w_max: u64,
    /// cwnd_prior.
    cwnd_prior: u64,
    /// The stage of congestion avoidance that goes on.
    epoch: Option<Epoch>,
    /// Whether a timeout began the stage that comes: its W_max is the window at its beginning (RFC 9438 section 4.8).
    after_timeout: bool,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// t_epoch, moved on by the time that the application was idle (RFC 9438 section 5.8).
    start: Micros,
    /// The last ACK that counted.
    last: Micros,
    /// K, in milliseconds.
    k: u64,
    /// W_est in octets x 65,536.
    w_est: u64,
    /// Octets x window that did not make a whole octet.
    rest: u64,
}

impl Cubic {
    /// Returns by how many octets the window grows in congestion avoidance (RFC 9438 sections 4.2 to 4.5).
    pub(super) fn grow(&mut self, cwnd: u32, smss: u32, ack: &Growth) -> u32 {
        let (octets, segment, acked) = (u64::from(cwnd).max(1), u64::from(smss).max(1), u64::from(ack.acked));
        let window = octets * ONE / segment;
        let (w_max, cwnd_prior) = (self.begin(window), self.cwnd_prior);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: ack.now,
            last: ack.now,
            k: k(w_max, window),
            w_est: octets << 16,
            rest: 0,
        });
        epoch.last = ack.now;
        // Section 4.3. The factor becomes 1 when the estimate has reached the window of before the loss.
        let alpha = if epoch.w_est >= (cwnd_prior * segment / ONE) << 16 { 1 << 16 } else { ALPHA_CUBIC };
        epoch.w_est = epoch.w_est.saturating_add(alpha * acked.min(octets) * segment / octets);
        let t = ack.now.since(epoch.start);
        let w_est = (epoch.w_est >> 16) * ONE / segment;
        if w_cubic(w_max, epoch.k, t) < w_est {
            // The window may lie behind both curves. It follows no faster than in slow start.
            let behind = (epoch.w_est >> 16).saturating_sub(octets);
            return u32::try_from(behind.min(acked)).unwrap_or(u32::MAX);
        }
        // Sections 4.4 and 4.5, with the target within 1 and 1.5 windows as section 4.2 says.
        let target = w_cubic(w_max, epoch.k, t + ack.srtt).clamp(window, window + window / 2);
        let growth = (target - window) * segment / ONE * acked + epoch.rest;
        epoch.rest = growth % octets;
        u32::try_from(growth / octets).unwrap_or(u32::MAX)
    }

    /// Fixes W_max at the beginning of a stage (RFC 9438 sections 4.8 and 4.10).
    fn begin(&mut self, window: u64) -> u64 {
        if self.epoch.is_none() && (self.after_timeout || self.w_max == 0) {
            (self.w_max, self.after_timeout) = (window, false);
        }
        self.w_max
    }

    /// Begins a stage after slow start has ended by delay: its plateau is the window as it is (RFC 9438 section 4.10).
    pub(super) fn begin_without_loss(&mut self, cwnd: u32, smss: u32, now: Micros) {
        let window = u64::from(cwnd) * ONE / u64::from(smss).max(1);
        (self.w_max, self.cwnd_prior, self.after_timeout) = (window, window, false);
        self.epoch = Some(Epoch { start: now, last: now, k: 0, w_est: u64::from(cwnd) << 16, rest: 0 });
    }

    /// Returns the threshold after a congestion event (RFC 9438 sections 4.6 and 4.7).
    pub(super) fn reduce(&mut self, cause: Cause, flight: u32, cwnd: u32, smss: u32) -> u32 {
        let window = u64::from(cwnd) * ONE / u64::from(smss).max(1);
        // Section 4.7, fast convergence: who loses below the former plateau leaves more to others.
        self.w_max = if window < self.w_max { window * (100 + BETA_CUBIC) / 200 } else { window };
        (self.cwnd_prior, self.epoch, self.after_timeout) = (window, None, false);
        let beta = if cause == Cause::Ecn { BETA_ECN } else { BETA_CUBIC };
        u32::try_from(u64::from(flight) * beta / 100).unwrap_or(u32::MAX)
    }

    /// Ends the stage by a timeout (RFC 9438 section 4.8).
    pub(super) const fn timeout(&mut self) {
        (self.epoch, self.after_timeout) = (None, true);
    }

    /// Ends the stage, since the window is another one.
    pub(super) const fn restart(&mut self) {
        self.epoch = None;
    }

    /// Takes time in which the window was not the limit out of the curve (RFC 9438 section 5.8).
    pub(super) fn pause(&mut self, now: Micros) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start + now.since(epoch.last);
            epoch.last = now;
        }
    }
}

/// K (RFC 9438 equation 2): the time in which the curve rises from `window` to `w_max`, in milliseconds.
fn k(w_max: u64, window: u64) -> u64 {
    cube_root(w_max.saturating_sub(window).min(1 << 40) * (C.1 / C.0 + 1))
}

/// W_cubic(t) (RFC 9438 equation 1).
fn w_cubic(w_max: u64, k: u64, t: Micros) -> u64 {
    let t = t.0 / 1000;
    let d = t.abs_diff(k).min(FURTHEST);
    let rise = d * d * d * C.0 / C.1;
    if t < k { w_max.saturating_sub(rise) } else { w_max + rise }
}

/// Returns the cube root, rounded down.
fn cube_root(of: u64) -> u64 {
    let mut root = 0;
    for bit in (0..22).rev() {
        let try_it: u64 = root | 1 << bit;
        if try_it.pow(2).checked_mul(try_it).is_some_and(|cube| cube <= of) {
            root = try_it;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::{Cubic, cube_root};
    use crate::congestion::event::{Cause, Growth};
    use crate::{Micros, Seq};

    #[test]
    fn cube_roots_are_rounded_down() {
        for (of, root) in
            [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1 << 60, 1 << 20), (u64::MAX, 2_642_245)]
        {
            assert_eq!(cube_root(of), root);
        }
    }

    fn ack(acked: u32, rtt_ms: u64, now: Micros) -> Growth {
        let (srtt, zero) = (Micros::from_millis(rtt_ms), Seq(0));
        Growth { acked, rtt: None, srtt, una: zero, nxt: zero, is_limited: true, is_paced: false, now }
    }

    /// RFC 9438 sections 4.2 to 4.7 in f64, one ACK for two segments.
    struct Model {
        cwnd: f64,
        w_max: f64,
        prior: f64,
        w_est: f64,
        k: f64,
        start: f64,
    }

    impl Model {
        fn loss(&mut self, now: f64) {
            self.w_max = if self.cwnd < self.w_max { self.cwnd * 1.7 / 2.0 } else { self.cwnd };
            (self.prior, self.cwnd) = (self.cwnd, self.cwnd * 0.7);
            (self.w_est, self.start) = (self.cwnd, now);
            self.k = ((self.w_max - self.cwnd) / 0.4).cbrt();
        }

        fn w_cubic(&self, t: f64) -> f64 {
            0.4 * (t - self.k).powi(3) + self.w_max
        }

        fn ack(&mut self, segments: f64, now: f64, rtt: f64) {
            let alpha = if self.w_est >= self.prior { 1.0 } else { 3.0 * 0.3 / 1.7 };
            self.w_est += alpha * segments / self.cwnd;
            let t = now - self.start;
            if self.w_cubic(t) < self.w_est {
                self.cwnd = self.cwnd.max(self.w_est);
            } else {
                let target = self.w_cubic(t + rtt).clamp(self.cwnd, 1.5 * self.cwnd);
                self.cwnd += (target - self.cwnd) / self.cwnd * segments;
            }
        }
    }

    /// Several epochs at several round-trip times: the window stays within 2 % or a segment of the formulae.
    // Covers 9438-4.3-1, 9438-4.4-1, 9438-4.5-1.
    #[test]
    fn the_window_follows_the_formulae() {
        for (rtt_ms, segments, smss) in
            [(1_u32, 40_u32, 1448_u32), (10, 100, 1448), (100, 400, 1448), (40, 30, 536)]
        {
            let mut cubic = Cubic::default();
            let mut cwnd = segments * smss;
            let mut model =
                Model { cwnd: f64::from(segments), w_max: 0.0, prior: 0.0, w_est: 0.0, k: 0.0, start: 0.0 };
            let mut now = Micros::from_secs(1);
            for epoch in 0..6 {
                cwnd = cubic.reduce(Cause::Loss, cwnd, cwnd, smss);
                model.loss(now.0 as f64 / 1e6);
                let until = now + Micros::from_millis(u64::from(rtt_ms) * (30 + 100 * (epoch % 3)));
                while now < until {
                    let acks = cwnd / smss / 2 + 1;
                    for _ in 0..acks {
                        cwnd += cubic.grow(cwnd, smss, &ack(2 * smss, u64::from(rtt_ms), now));
                        model.ack(2.0, now.0 as f64 / 1e6, f64::from(rtt_ms) / 1e3);
                        now = now + Micros((u64::from(rtt_ms) * 1000 / u64::from(acks)).max(1));
                    }
                    let ours = f64::from(cwnd) / f64::from(smss);
                    let off = (ours - model.cwnd).abs();
                    assert!(
                        off <= 1.0 + 0.02 * model.cwnd,
                        "rtt {rtt_ms}, epoch {epoch}: {ours} for {}",
                        model.cwnd
                    );
                }
            }
        }
    }

    // Covers 9438-4.7-1.
    #[test]
    fn losses_below_the_plateau_lower_it_further() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.reduce(Cause::Loss, 100_000, 100_000, 1000), 70_000);
        assert_eq!(cubic.w_max, 100 * 1024);
        assert_eq!(cubic.reduce(Cause::Loss, 70_000, 70_000, 1000), 49_000);
        assert_eq!(cubic.w_max, 70 * 1024 * 170 / 200);
        assert_eq!(cubic.reduce(Cause::Ecn, 80_000, 80_000, 1000), 68_000);
    }

    // Covers 9438-4.2-1.
    #[test]
    fn idle_time_is_off_the_curve() {
        let grown = |pause: u64| {
            let mut cubic = Cubic::default();
            let mut cwnd = cubic.reduce(Cause::Loss, 100_000, 100_000, 1000);
            for ms in 0..3000 {
                let now = Micros::from_millis(ms + if ms >= 1000 { pause } else { 0 });
                if ms == 1000 {
                    cubic.pause(now);
                }
                cwnd += cubic.grow(cwnd, 1000, &ack(1000, 10, now));
            }
            cwnd
        };
        assert_eq!(grown(0), grown(50_000));
    }
}
