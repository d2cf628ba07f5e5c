//! The sender of a connection: what may go, what has gone, and what goes again.
//!
//! ```text
//! terms                         what a sender is told and answers
//! acknowledge judge             an acknowledgement: what has arrived, what is lost, how the window changes
//! transmit expire timers        what goes next, and when something is to be done
//! fin usage counters            how far the FIN is, how much of the window was used, what was done
//! scoreboard ring sent          records of what is in flight (RFC 2018, 6675)
//! rack tlp recovery prr         loss and its repair (RFC 8985, 9937, 5682, 3708, 3522)
//! newreno                       the same where the peer has no SACK (RFC 6582, 3042)
//! rtt window pacing             round-trip time (RFC 6298), the peer's window, the spread of segments
//! ```

mod acknowledge;
mod counters;
mod expire;
mod fin;
mod judge;
mod newreno;
mod pacing;
mod prr;
mod rack;
mod recovery;
mod ring;
mod rtt;
mod scoreboard;
mod sent;
mod terms;
#[cfg(test)]
mod tests;
mod timers;
mod tlp;
mod transmit;
mod usage;
mod window;

pub use counters::SendCounters;
pub use sent::Sent;
pub use terms::{Acked, Acknowledgement, Agreed, Control, Frame, Reason, SendConfig, Transmit, Unsent};

use fin::Fin;
use newreno::Duplicates;
use pacing::{Pacing, Rate};
use rack::{Path, Rack};
use recovery::Recovery;
use rtt::Rtt;
use scoreboard::Scoreboard;
use sent::Stamp;
use timers::Timers;
use tlp::Tlp;
use usage::Usage;
use window::Window;

use crate::congestion::Congestion;
use crate::{Micros, Seq};

/// The sender of a connection (RFC 9293 section 3.3.1's send sequence variables and all that follows from them).
///
/// `S` is the storage of the records, lent by the owner: 32 octets for each frame in flight. The owner holds the frames and
/// the queue of segments that were never sent. It asks [`Sender::poll_transmit`] until that answers `None`, and tells what
/// has gone by [`Sender::sent_new`] and [`Sender::sent`].
#[derive(Debug)]
pub struct Sender<S> {
    config: SendConfig,
    board: Scoreboard<S>,
    window: Window,
    rtt: Rtt,
    /// The next sample of SRTT is taken when this number is acknowledged: one a flight (RFC 6298 section 3).
    sample_from: Seq,
    rack: Rack,
    tlp: Tlp,
    recovery: Recovery,
    duplicates: Duplicates,
    congestion: Congestion,
    usage: Usage,
    pacing: Pacing,
    timers: Timers,
    counters: SendCounters,
    unsent: Unsent,
    fin: Fin,
    emss: u16,
    sack: bool,
    ecn: bool,
    /// The next new segment has CWR (RFC 3168 section 6.1.2).
    cwr: bool,
    /// The end of the segment that had CWR last.
    cwr_end: Seq,
    /// When something went last, and its end.
    last: (Stamp, Seq),
    /// When the window was last halved for idling, or something went.
    busy_at: Micros,
}

impl<S: AsRef<[Sent]> + AsMut<[Sent]>> Sender<S> {
    /// Returns the sender of a connection whose SYN has the number `iss`. Nothing goes before [`Sender::established`].
    pub fn new(config: &SendConfig, iss: Seq, records: S) -> Self {
        let first = iss + 1;
        Self {
            config: *config,
            board: Scoreboard::new(records, first),
            window: Window::new(first, 0, first),
            rtt: Rtt::new(config.rto_min, config.peer_ack_delay),
            sample_from: first,
            rack: Rack::new(first),
            tlp: Tlp::default(),
            recovery: Recovery::new(first),
            duplicates: Duplicates::default(),
            congestion: Congestion::new(config.control, 536, first),
            usage: Usage { end: first, most: 0 },
            pacing: Pacing::default(),
            timers: Timers::default(),
            counters: SendCounters::default(),
            unsent: Unsent::default(),
            fin: Fin::Early,
            emss: 536,
            sack: false,
            ecn: false,
            cwr: false,
            cwr_end: first,
            last: (Stamp::default(), first),
            busy_at: Micros(0),
        }
    }

    /// Begins with what the handshake has agreed on. Our SYN is acknowledged.
    pub fn established(&mut self, agreed: &Agreed, now: Micros) {
        let first = self.board.una;
        self.window = Window::new(first, agreed.window, agreed.wl1);
        self.emss = agreed.emss.max(1);
        (self.sack, self.ecn) = (agreed.sack, agreed.ecn);
        self.congestion = Congestion::new(self.config.control, u32::from(self.emss), first);
        if agreed.syn_repeated {
            self.rtt.syn_repeated();
        } else if let Some(rtt) = agreed.rtt {
            self.rtt.sample(rtt, now);
        }
        self.busy_at = now;
        if self.fin == Fin::Early {
            self.fin = Fin::Open;
        }
        self.arm(now, false);
    }

    /// Begins with a window of one segment, as the SYN had to be repeated more than once (RFC 5681 section 3.1, which RFC
    /// 6928 section 2 softens for a single repetition).
    pub(crate) const fn begin_small(&mut self) {
        self.congestion.set_cwnd(self.emss as u32);
    }

    /// Says what waits to be sent for the first time, each time that this changes.
    pub fn offer(&mut self, unsent: Unsent, now: Micros) {
        self.unsent = unsent;
        self.rest(now);
        self.arm(now, false);
    }

    /// Lets a FIN follow what was offered and will be offered of what the owner already has. Does nothing before
    /// [`Sender::established`].
    pub fn close(&mut self, now: Micros) {
        if self.fin == Fin::Open {
            self.fin = Fin::Asked;
        }
        self.arm(now, false);
    }

    /// Takes another EMSS (RFC 9293 section 3.7.1), when the path's MTU has changed. Segments in flight that are longer go
    /// again in pieces, which is no sign of congestion (RFC 8899 section 3).
    pub fn set_emss(&mut self, emss: u16, now: Micros) {
        self.emss = emss.max(1);
        self.congestion.set_smss(u32::from(self.emss));
        for index in self.board.first()..self.board.ring.len() {
            if self.board.ring.get(index).is_some_and(|sent| sent.segment > self.emss) {
                self.board.lose(index);
            }
        }
        self.arm(now, false);
    }

    /// Exchanges the storage of the records and returns the former, or the new one if it has no place for what is in it.
    ///
    /// # Errors
    /// The new storage is too small.
    pub fn swap_records(&mut self, records: S) -> Result<S, S> {
        self.board.ring.swap(records)
    }

    /// Whether no record is free, so that nothing new goes before something is acknowledged or the storage exchanged.
    pub fn is_full(&self) -> bool {
        self.board.is_full()
    }

    /// Returns the frame of the next record that was acknowledged with all of its octets. Asked until it answers `None`.
    pub fn released(&mut self) -> Option<crate::Token> {
        self.board.release()
    }

    /// Returns SND.UNA.
    pub const fn una(&self) -> Seq {
        self.board.una
    }

    /// Returns SND.NXT. Nothing ever goes back, so that it is SND.MAX as well.
    pub const fn nxt(&self) -> Seq {
        self.board.nxt
    }

    /// Returns the number for a segment without payload: SND.NXT, or the end of the peer's window if octets went beyond
    /// that to probe it. A peer that has not taken these finds a higher number unacceptable.
    pub fn acceptable(&self) -> Seq {
        let end = self.board.una + self.window.room(self.board.una);
        self.board.nxt.min(end)
    }

    /// Returns SND.WND.
    pub const fn window(&self) -> u32 {
        self.window.room(self.board.una)
    }

    /// Returns MAX.SND.WND, the largest window that the peer has had (RFC 5961 section 5.2).
    pub const fn max_window(&self) -> u32 {
        self.window.max()
    }

    /// Returns the congestion window in octets.
    pub const fn cwnd(&self) -> u32 {
        self.congestion.cwnd()
    }

    /// Returns the smoothed round-trip time (RFC 6298).
    pub const fn srtt(&self) -> Option<Micros> {
        self.rtt.srtt()
    }

    /// Returns the EMSS in octets.
    pub const fn emss(&self) -> u16 {
        self.emss
    }

    /// Whether anything is sent and not acknowledged.
    pub const fn in_flight(&self) -> bool {
        !self.board.is_empty()
    }

    /// Returns how many timeouts in a row nothing has answered, and how long the first segment is that waits for an answer.
    pub(crate) fn unanswered(&self) -> (u8, u16) {
        let first = self.board.ring.get(self.board.first());
        (self.rtt.backoff(), first.map_or(0, |sent| sent.len.min(sent.segment)))
    }

    /// Whether our FIN is acknowledged.
    pub fn is_closed(&self) -> bool {
        self.fin == Fin::Acknowledged
    }

    /// Returns what this sender has done.
    pub const fn counters(&self) -> &SendCounters {
        &self.counters
    }

    /// Returns the octets in flight (RFC 6675's pipe).
    fn pipe(&self) -> u32 {
        self.board.totals().pipe.saturating_sub(self.duplicates.octets)
    }

    /// Whether so little is in flight that the peer may delay its ACK.
    fn is_short(&self) -> bool {
        self.board.flight() < 2 * u32::from(self.emss)
    }

    /// Returns what RACK's reordering window depends on.
    fn path(&self) -> Path {
        let min_rtt = self.rtt.min().unwrap_or_default();
        Path {
            min_rtt,
            srtt: self.rtt.srtt().unwrap_or(min_rtt),
            segs_sacked: self.board.totals().sacked_segments,
            is_recovering: self.recovery.is_recovering(),
        }
    }

    /// Returns the rate of pacing, if segments are spread.
    fn rate(&self) -> Option<Rate> {
        let is_paced = self.config.pacing && !self.congestion.is_none();
        let (cwnd, in_slow_start) = (self.congestion.cwnd(), self.congestion.in_slow_start());
        self.rtt.srtt().filter(|_| is_paced).map(|srtt| Rate { cwnd, srtt, in_slow_start })
    }
}
