//! Faults that the model has to notice.

use std::vec::Vec;

use super::peer::Ack;
use crate::send::Sender;
use crate::send::fin::Fin;
use crate::send::recovery::Phase;
use crate::send::sent::{LOST, QUEUED, Sent};
use crate::{Micros, Token};

/// What is done to a sender after each event, or to each ACK before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    /// No timer is ever served.
    NoTimer,
    /// The retransmission timer stops.
    StoppedTimer,
    /// The retransmission timer expires at once.
    EarlyTimer,
    /// The reordering timer stops.
    NoReordering,
    /// RACK looks at nothing that went once.
    BlindRack,
    /// The persist timer stops.
    NoPersist,
    /// The timeout does not double.
    NoBackoff,
    /// The peer's window is taken for larger than it is.
    WideWindow,
    /// The congestion window doubles.
    Greedy,
    /// A loss does not lower the threshold.
    NoReduction,
    /// The marks of SACK are forgotten.
    ForgottenSack,
    /// The first segment is taken for lost all the time.
    NeedlessLoss,
    /// A tail probe goes with each event.
    ProbeStorm,
    /// The pipe forgets a record.
    LightPipe,
    /// Records that were sent again leave their queue.
    BrokenQueue,
    /// The first record names another frame.
    WrongFrame,
    /// The first record names other octets of its frame.
    WrongOffset,
    /// The FIN is taken for acknowledged when it has gone.
    EarlyFin,
    /// An ACK counts an octet too many.
    AckTooFar,
    /// A SACK block reaches an octet too far.
    SackTooFar,
}

impl Sabotage {
    pub(super) const ALL: [Self; 20] = [
        Self::NoTimer,
        Self::StoppedTimer,
        Self::EarlyTimer,
        Self::NoReordering,
        Self::BlindRack,
        Self::NoPersist,
        Self::NoBackoff,
        Self::WideWindow,
        Self::Greedy,
        Self::NoReduction,
        Self::ForgottenSack,
        Self::NeedlessLoss,
        Self::ProbeStorm,
        Self::LightPipe,
        Self::BrokenQueue,
        Self::WrongFrame,
        Self::WrongOffset,
        Self::EarlyFin,
        Self::AckTooFar,
        Self::SackTooFar,
    ];

    /// Changes an ACK before the sender has it.
    pub(super) fn change(self, ack: &mut Ack) {
        match self {
            Self::WideWindow => ack.window += 700,
            Self::AckTooFar => ack.ack = ack.ack + 1,
            Self::SackTooFar => ack.sack.iter_mut().for_each(|block| block.end = block.end + 1),
            _ => {}
        }
    }

    /// Changes a sender after an event.
    pub(super) fn tamper(self, sender: &mut Sender<Vec<Sent>>, now: Micros) {
        let first = sender.board.first();
        let has_sacked = sender.board.totals().sacked > 0;
        match self {
            Self::StoppedTimer => sender.timers.rto = None,
            Self::EarlyTimer => sender.timers.rto = sender.timers.rto.map(|_| now),
            Self::NoReordering => sender.timers.reorder = None,
            Self::BlindRack => sender.board.judged = sender.nxt(),
            Self::NoPersist => (sender.timers.persist, sender.timers.probe) = (None, None),
            Self::NoBackoff => sender.rtt.restore(),
            Self::Greedy => sender.congestion.set_cwnd(sender.congestion.cwnd().saturating_mul(2)),
            Self::NoReduction if sender.recovery.phase == Phase::Recovery => {
                sender.recovery.phase = Phase::Open;
                sender.congestion = sender.recovery.undo.map_or(sender.congestion, |undo| undo.before);
            }
            Self::ForgottenSack if has_sacked => sender.board.renege(),
            Self::NeedlessLoss => _ = sender.board.lose(first),
            Self::ProbeStorm if sender.in_flight() => (sender.tlp.end, sender.tlp.is_due) = (None, true),
            Self::LightPipe => change(sender, |sent| sent.marks |= LOST),
            Self::BrokenQueue => change(sender, |sent| sent.marks &= !QUEUED),
            Self::WrongFrame => change(sender, |sent| sent.token = Token(sent.token.0 + 1)),
            Self::WrongOffset => change(sender, |sent| sent.offset ^= 1),
            Self::EarlyFin if sender.fin == Fin::Sent => sender.fin = Fin::Acknowledged,
            _ => {}
        }
    }
}

/// Changes the first record that is not acknowledged.
fn change(sender: &mut Sender<Vec<Sent>>, change: impl FnOnce(&mut Sent)) {
    let first = sender.board.first();
    if let Some(sent) = sender.board.ring.get_mut(first) {
        change(sent);
    }
}
