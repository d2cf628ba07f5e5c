//! What the options of two SYNs agree on.

use crate::receive::Window;
use crate::{Config, Flags, Options, Segment};

/// What both ends of a connection have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// SendMSS: what the peer takes, and the path (RFC 9293 section 3.7.1).
    pub(crate) mss: u16,
    /// The shift of the peer's windows and that of ours (RFC 7323 section 2).
    pub(crate) shifts: Option<Shifts>,
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    pub(crate) ecn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shifts {
    /// Snd.Wind.Shift.
    pub(crate) send: u8,
    /// Rcv.Wind.Shift.
    pub(crate) receive: u8,
}

impl Agreement {
    /// Returns what holds between a side with these settings, which has asked for ECN or not, and a peer that has sent
    /// this SYN or SYN/ACK.
    pub(crate) fn new(config: &Config, peer: &Segment, ecn: bool) -> Self {
        let Options { mss, window_scale, sack_permitted, timestamps, .. } = peer.options;
        let receive = Window::shift_for(config.receive.window_max);
        Self {
            mss: mss.unwrap_or(config.default_mss).max(Config::MIN_MSS).min(config.mss),
            shifts: window_scale.filter(|_| config.window_scaling).map(|send| Shifts { send, receive }),
            timestamps: config.timestamps && timestamps.is_some(),
            sack: config.sack && sack_permitted,
            ecn,
        }
    }

    /// Returns the octets of payload in a full segment: Eff.snd.MSS (RFC 9293 section 3.7.1, RFC 6691 section 3).
    pub(crate) const fn emss(&self) -> u16 {
        if self.timestamps { self.mss - TIMESTAMPS_LEN } else { self.mss }
    }

    /// Returns the peer's window in octets. The field of a SYN is not scaled (RFC 7323 section 2.2).
    pub(crate) fn window(&self, segment: &Segment) -> u32 {
        let shift =
            if segment.flags.has(Flags::SYN) { 0 } else { self.shifts.map_or(0, |shifts| shifts.send) };
        u32::from(segment.window) << shift
    }

    /// Returns the options of a SYN/ACK, without the timestamps: those that the peer has sent, too.
    pub(crate) fn options(&self, config: &Config) -> Options {
        Options {
            mss: Some(config.mss),
            window_scale: self.shifts.map(|shifts| shifts.receive),
            sack_permitted: self.sack,
            ..Options::default()
        }
    }
}

/// Returns the options of a SYN without ACK, without the timestamps (RFC 9293 section 3.7.1, MUST-14).
pub(crate) fn offer(config: &Config) -> Options {
    Options {
        mss: Some(config.mss),
        window_scale: config.window_scaling.then(|| Window::shift_for(config.receive.window_max)),
        sack_permitted: config.sack,
        ..Options::default()
    }
}

/// Whether a SYN asks for ECN, or a SYN/ACK grants it (RFC 3168 section 6.1.1).
pub(crate) fn has_ecn(segment: &Segment) -> bool {
    let (ece, cwr) = (segment.flags.has(Flags::ECE), segment.flags.has(Flags::CWR));
    if segment.ack.is_some() { ece && !cwr } else { ece && cwr }
}

/// Octets of the option Timestamps with its filling (RFC 7323 appendix A).
pub(crate) const TIMESTAMPS_LEN: u16 = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Seq, Timestamps};

    fn syn(options: Options) -> Segment {
        Segment { flags: Flags::SYN, window: 1000, options, ..Segment::new(Seq(0), None) }
    }

    #[test]
    fn what_both_want_holds() {
        let config = Config::new(1500, false);
        let all = Options {
            mss: Some(1400),
            window_scale: Some(3),
            timestamps: Some(Timestamps { value: 1, echo: 0 }),
            ..offer(&config)
        };
        let agreed = Agreement::new(&config, &syn(all), false);
        assert_eq!(agreed.emss(), 1388);
        assert_eq!(agreed.shifts, Some(Shifts { send: 3, receive: 7 }));
        assert!(agreed.sack && agreed.timestamps);
        assert_eq!(
            (agreed.window(&syn(all)), agreed.window(&Segment { flags: Flags::NONE, ..syn(all) })),
            (1000, 8000)
        );
        let shy = Config { timestamps: false, window_scaling: false, sack: false, ..config };
        let agreed = Agreement::new(&shy, &syn(all), false);
        let none = Agreement { mss: 1400, shifts: None, timestamps: false, sack: false, ecn: false };
        assert_eq!((agreed, offer(&shy)), (none, Options { mss: Some(1460), ..Options::default() }));
    }

    /// RFC 9293 section 3.7.1, MUST-15: a peer without the option takes 536 octets, with IPv6 1220.
    // Covers 9293-MUST-15.
    #[test]
    fn the_mss_is_bounded_from_both_sides() {
        let mss = |config: &Config, mss| {
            Agreement::new(config, &syn(Options { mss, ..Options::default() }), false).emss()
        };
        let (v4, v6) = (Config::new(1500, false), Config::new(1500, true));
        assert_eq!((mss(&v4, None), mss(&v6, None)), (536, 1220));
        assert_eq!((mss(&v4, Some(9000)), mss(&v6, Some(9000))), (1460, 1440));
        assert_eq!(mss(&v4, Some(1)), 48);
    }

    /// RFC 3168 section 6.1.1: an ECN-setup SYN/ACK has ECE alone; other flags come from hosts that mirror bits.
    #[test]
    fn ecn_needs_other_flags_in_the_answer() {
        let mut segment =
            Segment { flags: Flags::SYN | Flags::ECE | Flags::CWR, ..Segment::new(Seq(0), None) };
        assert!(has_ecn(&segment));
        segment.ack = Some(Seq(0));
        assert!(!has_ecn(&segment));
        segment.flags = Flags::SYN | Flags::ECE;
        assert!(has_ecn(&segment));
        segment.ack = None;
        assert!(!has_ecn(&segment));
    }
}
