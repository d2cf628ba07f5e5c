//! What holds of a sender at every step.

use std::vec::Vec;

use crate::send::Sender;
use crate::send::rack::Path;
use crate::send::sent::{LOST, QUEUED, SACKED, Sent, Stamp};
use crate::{Micros, Reason, Seq, Transmit};

/// Checks the state of a sender against a recount of its records.
pub(super) fn check(sender: &Sender<Vec<Sent>>) -> Result<(), &'static str> {
    let board = &sender.board;
    let records: Vec<Sent> =
        (board.first()..board.ring.len()).map(|index| *board.ring.get(index).unwrap()).collect();
    let sum = |is: &dyn Fn(&Sent) -> bool| {
        records.iter().filter(|sent| is(sent)).map(|s| u32::from(s.len)).sum::<u32>()
    };
    let totals = board.totals();
    let mut at = board.una;
    for sent in &records {
        if sent.seq != at || sent.len == 0 {
            return Err("records do not lie side by side");
        }
        at = sent.end();
        if sent.is(SACKED) && sent.is(LOST) {
            return Err("SACKed octets are lost");
        }
        if sent.is(QUEUED) != (sent.is_in_flight() && sent.is_repeated()) {
            return Err("the queue is not what was sent again and is in flight");
        }
        if sent.is(LOST)
            && sent.seq.is_before(sender.board.first_lost().map_or(at, |i| board.ring.get(i).unwrap().seq))
        {
            return Err("a lost record lies before the first");
        }
    }
    if at != board.nxt {
        return Err("the records do not end at SND.NXT");
    }
    if totals.pipe != sum(&Sent::is_in_flight) || totals.sacked != sum(&|s| s.is(SACKED)) {
        return Err("the pipe is not a recount");
    }
    if totals.lost != sum(&|s| s.is(LOST)) {
        return Err("what is lost is not a recount");
    }
    let first_lost = board.find(board.lost_from).and_then(|index| board.ring.get(index));
    if totals.lost > 0 && !first_lost.is_some_and(|sent| sent.is(LOST)) {
        return Err("the search for what is lost begins too early");
    }
    if totals.repeated != sum(&|s| s.is(QUEUED)) {
        return Err("what was sent again is not a recount");
    }
    let segments: u32 = records.iter().filter(|s| s.is(SACKED)).map(Sent::segments).sum();
    if totals.sacked_segments != segments {
        return Err("the segments that are SACKed are not a recount");
    }
    if sender.timers.rto.is_some() == records.is_empty() {
        return Err("the timer does not run exactly while something is in flight");
    }
    if records.is_empty() && sender.window.room(board.nxt) < sender.first_unsent() {
        let waits = sender.timers.persist.is_some() || sender.timers.probe.is_some();
        if !waits {
            return Err("a closed window is not probed");
        }
    }
    let is_candidate = |sent: &Sent| sender.rack.lost_at(sent, Micros(0)).is_some();
    if sender.sack && sender.timers.reorder.is_none() && records.iter().any(is_candidate) {
        return Err("nobody waits for what may be lost");
    }
    queue(sender, records.iter().filter(|s| s.is(QUEUED)).count())
}

/// Checks after an ACK that all is lost that has to be (RFC 8985 section 6.2 step 5), by a walk over all records.
pub(super) fn check_rack(sender: &Sender<Vec<Sent>>, now: Micros) -> Result<(), &'static str> {
    if !sender.sack {
        return Ok(());
    }
    // Recovery and SACKs only make the reordering window smaller.
    let reo_wnd = sender.rack.reo_wnd(Path { is_recovering: false, segs_sacked: 0, ..sender.path() });
    let board = &sender.board;
    let records = (board.first()..board.ring.len()).filter_map(|index| board.ring.get(index));
    let mut times = records.filter_map(|sent| sender.rack.lost_at(sent, reo_wnd));
    if times.any(|at| at <= now) { Err("what is lost by time is not found") } else { Ok(()) }
}

/// Checks the queue of what was sent again: whole, and linked both ways.
fn queue(sender: &Sender<Vec<Sent>>, count: usize) -> Result<(), &'static str> {
    let board = &sender.board;
    let mut next = board.oldest_repeated();
    let mut last = Stamp::default();
    let (mut seen, mut before): (usize, Option<Seq>) = (0, None);
    while let Some(sent) = next.and_then(|index| board.ring.get(index)) {
        seen += 1;
        if seen > count || !sent.is(QUEUED) || sent.prev != before.unwrap_or(sent.seq) {
            return Err("the queue is broken");
        }
        if sent.sent_at < last {
            return Err("the queue is not in order of time");
        }
        last = sent.sent_at;
        before = Some(sent.seq);
        next = if sent.next == sent.seq { None } else { board.find(sent.next) };
    }
    if seen == count { Ok(()) } else { Err("the queue is not whole") }
}

/// Checks what a sender wants to send. `len` is what goes of it.
pub(super) fn check_transmit(
    sender: &Sender<Vec<Sent>>,
    transmit: &Transmit,
    len: u32,
) -> Result<(), &'static str> {
    let (seq, reason) = match *transmit {
        Transmit::New { seq, reason, .. }
        | Transmit::Again { seq, reason, .. }
        | Transmit::Fin { seq, reason } => (seq, reason),
    };
    if len == 0 || len > u32::from(u16::MAX) {
        return Err("nothing or too much goes");
    }
    if len > sender.window.room(seq) && reason != Reason::WindowProbe {
        let is_tail =
            reason == Reason::TailProbe && matches!(transmit, Transmit::Again { .. } | Transmit::Fin { .. });
        if !is_tail {
            return Err("it lies beyond the peer's window");
        }
    }
    let is_new = seq == sender.nxt();
    let pipe = sender.pipe();
    let is_bound = matches!(reason, Reason::Window | Reason::Loss);
    let is_fin = matches!(transmit, Transmit::Fin { .. });
    if is_bound && !is_fin && pipe > 0 && pipe + len > sender.cwnd() && !sender.recovery.is_forced {
        return Err("it lies beyond the congestion window");
    }
    if !is_new {
        let Some(sent) = sender.board.find(seq).and_then(|index| sender.board.ring.get(index)) else {
            return Err("it was never sent");
        };
        if sent.is(SACKED) {
            return Err("the peer has it");
        }
        if reason == Reason::Loss && !sent.is(LOST) {
            return Err("it is not lost");
        }
        if sent.end().is_before(seq + len) {
            return Err("it goes on in another frame");
        }
    }
    Ok(())
}
