//! Many transfers one way. As many are under way as the queues take.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use weft_rnic::{Access, Completion, CompletionOpcode, Data, Mr, RecvWr, SendOpcode, SendWr, Sge};

use super::Ends;
use crate::case::{Effort, Sample, Side, Trouble};
use crate::octets::{compare, pattern, round_len};
use crate::watch::Watch;

/// The transfers of a stream, and how they are posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The operation.
    pub(crate) op: Op,
    /// Octets of each transfer. A FetchAdd has 8.
    pub(crate) size: usize,
    /// The most requests under way on each queue pair, a multiple of `batch`.
    pub(crate) depth: usize,
    /// Requests for each doorbell.
    pub(crate) batch: usize,
    /// The most doorbells between two looks at the completion queues.
    pub(crate) doorbells: usize,
    /// One of so many requests makes a completion.
    pub(crate) signal_every: usize,
    /// Transfers of a round; 0 for the usual number.
    pub(crate) round: usize,
}

/// The operations that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// Send to posted receives.
    Send,
    /// RDMA Write.
    Write,
    /// RDMA Read.
    Read,
    /// RDMA Write with Immediate.
    WriteImmediate,
    /// Fetch-and-add of 64 bits.
    FetchAdd,
}

impl Work {
    /// Returns transfers that are posted one by one, each with a completion.
    pub(crate) const fn new(op: Op, size: usize) -> Self {
        Self { op, size, depth: 16, batch: 1, doorbells: 1, signal_every: 1, round: 0 }
    }
}

/// A stream of transfers from the near end to the far one, or for Reads and Atomics the other way.
pub(crate) struct Stream {
    ends: Ends,
    work: Work,
    source: Mr,
    sink: Mr,
    lanes: Vec<Lane>,
    /// The contents of the source, or the next value that a FetchAdd has to find.
    sent: Vec<u8>,
    came: Vec<u8>,
    zeros: Vec<u8>,
    /// Transfers of a round, each to a place of its own.
    places: usize,
    /// Transfers posted so far, in all rounds.
    posted: usize,
    /// The longest time between two arrivals, if that is measured.
    stalls: Option<Stalls>,
}

/// The time between arrivals at the far end.
#[derive(Debug)]
struct Stalls {
    last: Instant,
    longest: Duration,
}

/// One queue pair of each end.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    posted: usize,
    completed: usize,
    /// Receives posted at the far end.
    receives: usize,
    /// Receives that a message has taken.
    received: usize,
}

impl Stream {
    pub(crate) fn new(ends: Ends, work: Work) -> Result<Self, Trouble> {
        let fetches = work.op.fetches();
        let lanes = ends.near.qps.len();
        // Each batch is whole, and each queue pair has at least one.
        let round = if work.round == 0 { round_len(work.size) } else { work.round };
        let step = work.batch * if round >= work.batch * lanes { lanes } else { 1 };
        let places = (round / step).max(1) * step;
        let octets = places * work.size;
        let [source, sink] = if fetches { [&ends.far, &ends.near] } else { [&ends.near, &ends.far] };
        let source = source.pd.register(octets.max(8), Access::ALL).map_err(Trouble::failed)?;
        let sink = sink.pd.register(octets.max(8), Access::ALL).map_err(Trouble::failed)?;
        let sent = if work.op == Op::FetchAdd { vec![0; octets] } else { pattern(octets) };
        source.write(0, &sent).map_err(|_| Trouble::failed("the source is too small"))?;
        let came = vec![0; octets];
        let stream = Self {
            lanes: vec![Lane::default(); lanes],
            zeros: vec![0; octets],
            ends,
            work,
            source,
            sink,
            sent,
            came,
            places,
            posted: 0,
            stalls: None,
        };
        stream.prepare()
    }

    /// As [`Self::new`], with the longest time between two arrivals as the value of each turn. Only for operations that
    /// complete receives.
    pub(crate) fn with_stalls(self) -> Self {
        Self { stalls: Some(Stalls { last: now(), longest: Duration::ZERO }), ..self }
    }

    /// Returns both ends, for their counters.
    pub(crate) const fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Fills the receive queues.
    fn prepare(mut self) -> Result<Self, Trouble> {
        let receives = match self.work.op {
            Op::Send | Op::WriteImmediate => self.ends.far.depth as usize,
            Op::Write => 1,
            Op::Read | Op::FetchAdd => 0,
        };
        for lane in 0..self.lanes.len() {
            self.post_receives(lane, receives)?;
        }
        Ok(self)
    }

    /// Does one round: all transfers are posted and have arrived.
    fn round(&mut self) -> Result<(), Trouble> {
        let end = self.posted + self.places;
        let (mut received, mut completed, mut signalled) = (0, 0, 0);
        // The far end does not notice a Write: a Send behind it says that the Write has come.
        let lanes = self.lanes.len().min(self.places / self.work.batch);
        let wanted_fins = if self.work.op == Op::Write { lanes } else { 0 };
        let mut fins = 0;
        let mut out = [Completion::EMPTY; 64];
        loop {
            for _ in 0..self.work.doorbells {
                match self.post_batch(end)? {
                    Some(asked) => signalled += asked,
                    None => break,
                }
            }
            if self.posted == end && fins < wanted_fins {
                fins = self.post_fins(fins, wanted_fins)?;
            }
            for completion in self.ends.near.poll(&mut out)? {
                completed += 1;
                let lane = &mut self.lanes[lane_of(completion)];
                lane.completed = number_of(completion) + 1;
            }
            let taken = self.ends.far.poll(&mut out)?.len();
            if let Some(stalls) = self.stalls.as_mut().filter(|_| taken > 0) {
                stalls.note();
            }
            for run in out[..taken].chunk_by(|one, next| lane_of(one) == lane_of(next)) {
                let lane = lane_of(&run[0]);
                run.iter().try_for_each(|completion| self.check_receive(completion))?;
                self.lanes[lane].received += run.len();
                self.post_receives(lane, run.len())?;
                received += run.len();
            }
            let wanted = match self.work.op {
                Op::Send | Op::WriteImmediate => self.places,
                Op::Write => wanted_fins,
                Op::Read | Op::FetchAdd => 0,
            };
            if self.posted == end && completed == signalled && received == wanted {
                return Ok(());
            }
        }
    }

    /// Posts the next requests with one doorbell, if the next queue pair has room for them. Returns how many of them
    /// make a completion.
    fn post_batch(&mut self, end: usize) -> Result<Option<usize>, Trouble> {
        let Work { batch, depth, signal_every, .. } = self.work;
        let index = (self.posted / batch) % self.lanes.len();
        let lane = self.lanes[index];
        if self.posted >= end || lane.posted + batch - lane.completed > depth {
            return Ok(None);
        }
        // A message that finds no receive would end the connection.
        let takes_receives = matches!(self.work.op, Op::Send | Op::WriteImmediate);
        if takes_receives && lane.posted + batch - lane.received > self.ends.far.depth as usize {
            return Ok(None);
        }
        // The last completion of each queue pair says that all its requests are done.
        let is_last = self.posted + batch * self.lanes.len() >= end;
        // A round holds whole batches, so that none goes round the end.
        let place = self.posted % self.places * self.work.size;
        let sges: Vec<Sge> = (0..batch).map(|step| self.local(place + step * self.work.size)).collect();
        let mut until_signal = signal_every - lane.posted % signal_every;
        let mut signalled = 0;
        let wrs = (0..batch).zip(&sges).map(|(step, sge)| {
            until_signal = if until_signal == 0 { signal_every } else { until_signal } - 1;
            let signaled = until_signal == 0 || is_last && step + 1 == batch;
            signalled += usize::from(signaled);
            let (wr_id, data) = (identify(index, lane.posted + step), Data::Sges(core::slice::from_ref(sge)));
            SendWr { wr_id, data, signaled, ..SendWr::new(self.opcode(place + step * self.work.size)) }
        });
        let wrs: Vec<SendWr<'_>> = wrs.collect();
        let qp = &self.ends.near.qps[index];
        if let [wr] = &wrs[..] {
            qp.post_send(wr).map_err(Trouble::failed)?;
        } else {
            qp.post_sends(&wrs).map_err(|(_, error)| Trouble::failed(error))?;
        }
        self.lanes[index].posted += batch;
        self.posted += batch;
        Ok(Some(signalled))
    }

    fn opcode(&self, place: usize) -> SendOpcode {
        let remote = if self.work.op.fetches() { &self.source } else { &self.sink };
        let (stag, to) = (remote.rkey(), remote.addr() + place as u64);
        match self.work.op {
            Op::Send => SendOpcode::Send,
            Op::Write => SendOpcode::Write { stag, to },
            Op::Read => SendOpcode::Read { stag, to },
            Op::WriteImmediate => SendOpcode::WriteImmediate { stag, to, immediate: IMMEDIATE },
            Op::FetchAdd => SendOpcode::FetchAdd { stag, to: remote.addr(), add: 1, mask: 0 },
        }
    }

    fn local(&self, place: usize) -> Sge {
        let local = if self.work.op.fetches() { &self.sink } else { &self.source };
        local.sge(place, u32::try_from(self.work.size).unwrap_or(u32::MAX))
    }

    /// Posts the next empty Sends, one on each queue pair that was used. Returns how many were posted so far. Posts
    /// only some at a time, since a full wire drops frames.
    fn post_fins(&self, from: usize, wanted: usize) -> Result<usize, Trouble> {
        let end = wanted.min(from + FINS_AT_ONCE);
        for index in from..end {
            let lane = (self.posted / self.work.batch - 1 - index) % self.lanes.len();
            let fin = SendWr { data: Data::Inline(&[]), ..SendWr::new(SendOpcode::Send) };
            self.ends.near.qps[lane].post_send(&fin).map_err(Trouble::failed)?;
        }
        Ok(end)
    }

    /// Posts the next receives of a queue pair of the far end, with one call.
    fn post_receives(&mut self, index: usize, count: usize) -> Result<(), Trouble> {
        let first = self.lanes[index].receives;
        let sge = |number| {
            let place = self.transfer(index, number) % self.places * self.work.size;
            self.sink.sge(place, u32::try_from(self.work.size).unwrap_or(u32::MAX))
        };
        let sges: Vec<Sge> = (first..first + count).map(sge).collect();
        let wrs = (first..).zip(&sges).map(|(number, sge)| {
            let sges = if self.work.op == Op::Send { core::slice::from_ref(sge) } else { &[] };
            RecvWr { wr_id: identify(index, number), sges }
        });
        let wrs: Vec<RecvWr<'_>> = wrs.collect();
        let qp = &self.ends.far.qps[index];
        if let [wr] = &wrs[..] {
            qp.post_recv(wr).map_err(Trouble::failed)?;
        } else {
            qp.post_recvs(&wrs).map_err(|(_, error)| Trouble::failed(error))?;
        }
        self.lanes[index].receives += count;
        Ok(())
    }

    /// Returns which of all transfers is number `number` of a queue pair.
    fn transfer(&self, index: usize, number: usize) -> usize {
        let Work { batch, .. } = self.work;
        match self.lanes.len() {
            1 => number,
            lanes => (number / batch * lanes + index) * batch + number % batch,
        }
    }

    /// Checks that a completion is that of the expected message.
    fn check_receive(&self, completion: &Completion) -> Result<(), Trouble> {
        let (opcode, octets) = (completion.opcode, completion.byte_len as usize);
        let is_right = match self.work.op {
            Op::Send => opcode == CompletionOpcode::Recv && octets == self.work.size,
            Op::WriteImmediate => {
                let immediate =
                    completion.immediate.map(|octets| [octets[0], octets[1], octets[2], octets[3]]);
                opcode == CompletionOpcode::RecvWithImmediate && immediate == Some(IMMEDIATE)
            }
            _ => opcode == CompletionOpcode::Recv && octets == 0,
        };
        if is_right { Ok(()) } else { Err(Trouble::failed(format!("{opcode:?} of {octets} octets"))) }
    }

    /// Overwrites the sink, so that a missing transfer never looks like a finished one.
    fn wipe(&self) -> Result<(), Trouble> {
        self.sink.write(0, &self.zeros).map_err(|_| Trouble::failed("the sink is too small"))
    }

    /// Compares every octet that has come.
    fn check(&mut self) -> Result<(), Trouble> {
        let outside = |_| Trouble::failed("the sink is too small");
        self.sink.read(0, &mut self.came).map_err(outside)?;
        if self.work.op != Op::FetchAdd {
            return compare(&self.came, &self.sent);
        }
        // The word counts on through all rounds. Queue pairs share it in any order.
        let count = self.posted - self.places;
        let mut found: Vec<u64> = self.came.chunks_exact(8).map(word).collect();
        found.sort_unstable();
        let expected = count as u64 + 1..=self.posted as u64;
        if found.into_iter().map(|word| word + 1).eq(expected) {
            Ok(())
        } else {
            Err(Trouble::failed("a FetchAdd has fetched something else than what was there"))
        }
    }
}

impl Side for Stream {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        if let Some(stalls) = &mut self.stalls {
            stalls.longest = Duration::ZERO;
        }
        while watch.goes_on() {
            self.wipe()?;
            if let Some(stalls) = &mut self.stalls {
                stalls.last = now();
            }
            watch.time(|| self.round())?;
            self.check()?;
            let places = self.places as u64;
            watch.count(places, places * self.work.size as u64, places);
        }
        let figure = self.stalls.as_ref().map_or(0.0, |stalls| stalls.longest.as_secs_f64() * 1e3);
        Ok(Sample { figure, ..watch.finish() })
    }
}

impl Stalls {
    fn note(&mut self) {
        let now = now();
        self.longest = self.longest.max(now - self.last);
        self.last = now;
    }
}

impl Op {
    /// Returns true if the data comes from the far end.
    pub(crate) const fn fetches(self) -> bool {
        matches!(self, Self::Read | Self::FetchAdd)
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
fn now() -> Instant {
    Instant::now()
}

fn word(octets: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(octets);
    u64::from_ne_bytes(word)
}

/// Returns the `wr_id` of request number `number` of a queue pair.
const fn identify(lane: usize, number: usize) -> u64 {
    ((lane as u64) << 40) | number as u64
}

fn lane_of(completion: &Completion) -> usize {
    usize::try_from(completion.wr_id >> 40).unwrap_or(usize::MAX)
}

fn number_of(completion: &Completion) -> usize {
    usize::try_from(completion.wr_id & ((1 << 40) - 1)).unwrap_or(usize::MAX)
}

/// The most requests for one doorbell.
pub(crate) const MAX_BATCH: usize = 128;
const FINS_AT_ONCE: usize = 16;
const IMMEDIATE: [u8; 4] = *b"weft";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Setting;

    const ONCE: Effort = Effort { turn: Duration::ZERO, pairs: 1, is_tiny: true };

    fn stream(op: Op, qps: usize, round: usize) -> Stream {
        let ends = Ends::on_pair(&Setting { tcp_buffer: 16 << 10, ..Setting::new(1500) }, qps, 32).unwrap();
        Stream::new(ends, Work { round, ..Work::new(op, 8) }).unwrap()
    }

    #[test]
    fn every_operation_is_done_and_checked_on_several_queue_pairs() {
        for op in [Op::Send, Op::Write, Op::Read, Op::WriteImmediate, Op::FetchAdd] {
            let mut stream = stream(op, 3, 60);
            for _ in 0..3 {
                let sample = stream.turn(&ONCE).unwrap();
                assert_eq!((sample.transfers, sample.checked, sample.octets), (60, 60, 480), "{op:?}");
            }
        }
    }

    #[test]
    fn a_wrong_octet_is_found() {
        for op in [Op::Send, Op::Write, Op::Read, Op::WriteImmediate] {
            let mut stream = stream(op, 1, 16);
            stream.source.write(77, &[!stream.sent[77]]).unwrap();
            let trouble = stream.turn(&ONCE).unwrap_err().to_string();
            assert!(trouble.contains("octet 77"), "{op:?}: {trouble}");
        }
        let mut stream = stream(Op::FetchAdd, 1, 16);
        stream.source.write(0, &7_u64.to_ne_bytes()).unwrap();
        assert!(stream.turn(&ONCE).is_err());
    }
}
