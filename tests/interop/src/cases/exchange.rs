//! Sends, Writes and Reads of many segments in both directions at once. Both ends check all contents.
//!
//! The guest's `peer_exchange.c` does the same. In a round both ends post all requests and then `done`, behind which
//! all Writes have been placed. An end that has checked everything and has posted the next round's receives sends
//! `redy`.

use weft_rnic::{Access, Mr, SendOpcode, Status};

use crate::bench::Bench;
use crate::meeting::{Meeting, Plan, Table, explain};
use crate::pattern::{Kind, Pattern, Side};
use crate::verbs::{Host, Link, MAIL_OCTETS, RECEIVE, is_receive};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let table = Table::lay(bench, |_| {})?;
    exchange(&table, ROUNDS, SIZES[SIZES.len() - 1])?;
    table.host.close()
}

/// Runs `rounds` rounds, with messages of at most `max` octets, over a connection of their own.
fn exchange(table: &Table<'_>, rounds: usize, max: u32) -> Result<(), String> {
    let sizes: Vec<u32> = SIZES.into_iter().filter(|&size| size <= max).collect();
    let total = sizes.iter().map(|&size| size as usize).sum();
    let command = format!("exchange -C {rounds} -S {max}");
    let mut meeting = table.meet(&Plan { command, memory: total, ..Plan::default() })?;
    let mut exchange = Exchange::new(&table.host, sizes)?;
    exchange.post_receives(&meeting.link)?;
    meeting.greet(table.bench.role)?;
    for round in 0..rounds {
        let done = exchange.run_round(&meeting.link, round);
        done.map_err(|error| explain(&format!("round {round}: {error}"), &meeting.job))?;
    }
    Meeting::end(meeting, table.bench.role)
}

/// Makes a short exchange over a fresh connection, which shows that the guest and the device still work.
pub(crate) fn check_health(table: &Table<'_>) -> Result<(), String> {
    exchange(table, 1, 4096).map_err(|error| format!("a fresh connection: {error}"))
}

struct Exchange {
    sizes: Vec<u32>,
    total: usize,
    sends: Mr,
    writes: Mr,
    sink: Mr,
    inbox: Mr,
    /// The number of completions since the beginning.
    completed: usize,
    received: usize,
}

impl Exchange {
    fn new(host: &Host, sizes: Vec<u32>) -> Result<Self, String> {
        let total = sizes.iter().map(|&size| size as usize).sum();
        let memory = || host.register(total, Access::LOCAL_WRITE);
        let (sends, writes, sink, inbox) = (memory()?, memory()?, memory()?, memory()?);
        Ok(Self { sizes, total, sends, writes, sink, inbox, completed: 0, received: 0 })
    }

    fn run_round(&mut self, link: &Link, round: usize) -> Result<(), String> {
        let (requests, receives) = (3 * self.sizes.len() + 2, self.sizes.len() + 2);
        self.prepare(round)?;
        self.post_all(link)?;
        self.wait_for(link, round * requests + requests - 1, round * receives + receives - 1)?;
        self.check(link, round)?;
        clear(&self.inbox)?;
        clear(&link.window)?;
        self.post_receives(link)?;
        link.send_inline(b"redy", true)?;
        self.wait_for(link, (round + 1) * requests, (round + 1) * receives)
    }

    /// Posts a receive of the exact size for each Send, and receives for `done` and `redy`.
    fn post_receives(&self, link: &Link) -> Result<(), String> {
        for (index, place, len) in self.parts() {
            link.post_receive(index as u64, self.inbox.sge(place, len))?;
        }
        link.post_mail(DONE)?;
        link.post_mail(READY)
    }

    fn prepare(&self, round: usize) -> Result<(), String> {
        clear(&self.sink)?;
        for (index, place, len) in self.parts() {
            Pattern::new(Side::Host, Kind::Send, round, index).fill(&self.sends, place, len as usize)?;
            Pattern::new(Side::Host, Kind::Write, round, index).fill(&self.writes, place, len as usize)?;
        }
        Ok(())
    }

    fn post_all(&self, link: &Link) -> Result<(), String> {
        for (index, place, len) in self.parts() {
            let (wr_id, offset) = (index as u64, place as u64);
            link.post(wr_id, SendOpcode::Send, self.sends.sge(place, len))?;
            link.post(wr_id, link.peer_window.write(offset), self.writes.sge(place, len))?;
            link.post(wr_id, link.peer_source.read(offset), self.sink.sge(place, len))?;
        }
        link.send_inline(b"done", true)
    }

    /// Waits until there were this many completions since the beginning.
    fn wait_for(&mut self, link: &Link, completed: usize, received: usize) -> Result<(), String> {
        while self.completed < completed || self.received < received {
            let completion = link.next_completion()?;
            if completion.status != Status::Success {
                return Err(format!("{completion:?}"));
            }
            if !is_receive(&completion) {
                self.completed += 1;
                continue;
            }
            let index = self.received % (self.sizes.len() + 2);
            self.received += 1;
            let (slot, wanted) = match index.checked_sub(self.sizes.len()) {
                Some(signal) => (signal + DONE, SIGNAL_OCTETS),
                None => (index, self.sizes[index]),
            };
            if completion.wr_id != RECEIVE | slot as u64 || completion.byte_len != wanted {
                return Err(format!("receive {slot} of {wanted} octets was due: {completion:?}"));
            }
        }
        Ok(())
    }

    fn check(&self, link: &Link, round: usize) -> Result<(), String> {
        for (index, place, len) in self.parts() {
            let [sent, written] =
                [Kind::Send, Kind::Write].map(|kind| Pattern::new(Side::Guest, kind, round, index));
            sent.check_memory(&self.inbox, place, len as usize, "received")?;
            written.check_memory(&link.window, place, len as usize, "written")?;
        }
        Pattern::new(Side::Guest, Kind::Read, 0, 0).check_memory(&self.sink, 0, self.total, "read")?;
        let mut signal = [0; SIGNAL_OCTETS as usize];
        link.mail.read(DONE * MAIL_OCTETS, &mut signal).map_err(|error| format!("{error:?}"))?;
        if &signal == b"done" { Ok(()) } else { Err("the last message is not `done`".into()) }
    }

    /// Returns index, place and length of each message.
    fn parts(&self) -> impl Iterator<Item = (usize, usize, u32)> {
        self.sizes.iter().enumerate().scan(0, |place, (index, &len)| {
            let here = *place;
            *place += len as usize;
            Some((index, here, len))
        })
    }
}

fn clear(memory: &Mr) -> Result<(), String> {
    memory.write(0, &vec![0; memory.len()]).map_err(|error| format!("{error:?}"))
}

const SIZES: [u32; 10] = [1, 23, 1000, 1448, 4096, 16384, 65535, 65536, 100_000, 131_072];
const ROUNDS: usize = 3;
const SIGNAL_OCTETS: u32 = 4;
/// The slots of mail.
const DONE: usize = 1;
const READY: usize = 2;
