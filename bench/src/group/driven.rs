//! A replica whose program does the work of each operation: the reference.
//!
//! It has the same connections, messages and memory as a replica whose device does it, and does the same in the same
//! order.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use weft_group::{Shape, message_len};
use weft_rnic::{
    Access, CompChannel, Completion, Cq, CqInit, Data, Device, Mr, Pd, Qp, QpCapacity, QpInit, RecvWr,
    Region, SendOpcode, SendWr, Stag, Status,
};

use super::terms::Mode;
use crate::process::{Outcome, say};

/// A session at a driven replica.
pub(super) struct Driven {
    shape: Shape,
    memory: Arc<Region>,
    /// The file of the memory, which the program writes by itself.
    file: Option<File>,
    pub(super) inward: Qp,
    pub(super) outward: Qp,
    inbox: Cq,
    channel: CompChannel,
    pub(super) data_in: Mr,
    data_own: Mr,
    /// A message for each slot.
    messages: Mr,
    /// Where the next replica has its range.
    next: Option<Stag>,
    octets: Vec<u8>,
    _sent: Cq,
    _pd: Pd,
}

/// What the first block of a message asks for.
struct Block<'a>(&'a [u8]);

impl Driven {
    pub(super) fn new(
        device: &Device,
        memory: &Arc<Region>,
        shape: Shape,
        file: Option<&Path>,
    ) -> Outcome<Self> {
        let open = |path| File::options().write(true).open(path).map_err(say("the file of a replica"));
        let pd = device.alloc_pd();
        let part = || Region::part(memory, shape.range.clone()).ok_or("a range").map_err(say("registering"));
        let data_in = pd.register_at(part()?, Access::LOCAL_WRITE | Access::REMOTE_WRITE, 0);
        let data_own = pd.register_at(part()?, Access::LOCAL_READ, 0);
        let len = message_len(shape.index, shape.replicas) * shape.window as usize;
        let messages =
            pd.register(len, Access::LOCAL_WRITE | Access::LOCAL_READ).map_err(say("registering"))?;
        let channel = device.create_comp_channel().map_err(say("making a channel"))?;
        let make = |init: &CqInit<'_>| device.create_cq_with(init).map_err(say("making a completion queue"));
        let inbox = make(&CqInit { channel: Some(&channel), ..CqInit::new(shape.window) })?;
        let sent = make(&CqInit { ignore_overrun: true, ..CqInit::new(shape.window) })?;
        let capacity =
            |send_wr, recv_wr| QpCapacity { send_wr, recv_wr, send_sge: 1, recv_sge: 1, inline: 0 };
        let create = |capacity| {
            device
                .create_qp(&pd, &QpInit { capacity, ..QpInit::new(&sent, &inbox) })
                .map_err(say("making a queue pair"))
        };
        let (inward, outward) = (create(capacity(1, shape.window))?, create(capacity(2 * shape.window, 1))?);
        Ok(Self {
            memory: Arc::clone(memory),
            file: file.map(open).transpose()?,
            inward,
            outward,
            inbox,
            channel,
            data_in: data_in.map_err(say("registering"))?,
            data_own: data_own.map_err(say("registering"))?,
            messages,
            next: None,
            octets: Vec::new(),
            shape,
            _sent: sent,
            _pd: pd,
        })
    }

    /// Posts a receive for each slot.
    pub(super) fn begin(&mut self, next: Option<Stag>) -> Outcome<()> {
        self.next = next;
        (0..u64::from(self.shape.window)).try_for_each(|slot| self.post(slot))
    }

    /// Serves until a connection ends.
    pub(super) fn serve(mut self, mode: Mode, is_busy: bool, is_on: &AtomicBool) -> Outcome<()> {
        let mut out = [Completion::EMPTY; 16];
        let mut busy = is_busy.then(Busy::new);
        loop {
            let taken = self.inbox.poll(&mut out);
            if !is_on.load(Ordering::Relaxed) && taken == 0 {
                // A program that spins must not cost the other sides their cores.
                std::thread::sleep(REST);
                continue;
            }
            if let Some(busy) = &mut busy {
                busy.compute_if_due();
            }
            for completion in &out[..taken] {
                if completion.status != Status::Success {
                    return Ok(());
                }
                self.carry_out(completion.wr_id)?;
            }
            if taken > 0 || mode == Mode::Spin {
                continue;
            }
            self.inbox.request_notification(false);
            // One may have come before.
            let taken = self.inbox.poll(&mut out[..1]);
            if taken == 0 {
                self.sleep(mode);
            } else if out[0].status == Status::Success {
                self.carry_out(out[0].wr_id)?;
            }
        }
    }

    fn sleep(&self, mode: Mode) {
        if mode == Mode::Sleep {
            self.channel.wait(None);
            return;
        }
        let descriptor = self.channel.as_fd();
        // A signal ends the wait as an event does: the program looks again.
        let _woken = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None);
        while self.channel.next().is_some() {}
    }

    /// Does what a message asks for, hands the rest on, and posts the receive again.
    fn carry_out(&mut self, slot: u64) -> Outcome<()> {
        let len = message_len(self.shape.index, self.shape.replicas);
        let at = self.place(slot);
        let mut octets = std::mem::take(&mut self.octets);
        octets.resize(len, 0);
        self.messages.read(at, &mut octets).map_err(say("reading a message"))?;
        let block = Block(&octets);
        if let Some(stag) = self.next.filter(|_| block.has(3, WRITE)) {
            let sges = [self.data_own.sge(block.place(80), block.length(76))];
            let opcode = SendOpcode::Write { stag, to: block.word(88) };
            self.outward
                .post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(opcode) })
                .map_err(say("a Write"))?;
        }
        if block.has(0, READ) {
            self.copy(block.place(8), block.place(16), block.length(4) as usize)?;
        }
        if block.has(1, COMPARE_SWAP) {
            let (swap, compare) = (block.word(32), block.word(48));
            let change = |word| if word == compare { swap } else { word };
            let found = self.memory.update(self.shape.range.start + block.place(24), change);
            let cell = len - 8 * (self.shape.replicas - self.shape.index);
            let found = found.ok_or("out of bounds").map_err(say("a swap"))?;
            self.messages.write(at + cell, &found.to_le_bytes()).map_err(say("writing a message"))?;
        }
        if block.has(2, SYNC) {
            self.sync(block.place(64), block.length(72) as usize)?;
        }
        let rest = u32::try_from(len - BLOCK).unwrap_or(u32::MAX);
        let sges = [self.messages.sge(at + BLOCK, rest)];
        let send = SendWr { data: Data::Sges(&sges), ..SendWr::new(SendOpcode::Send) };
        self.outward.post_send(&send).map_err(say("a Send"))?;
        self.octets = octets;
        self.post(slot)
    }

    fn copy(&self, from: usize, to: usize, len: usize) -> Outcome<()> {
        let mut octets = vec![0; len];
        let start = self.shape.range.start;
        let is_copied =
            self.memory.copy_out(start + from, &mut octets) && self.memory.copy_in(start + to, &octets);
        is_copied.then_some(()).ok_or("out of bounds").map_err(say("a copy"))
    }

    fn sync(&self, at: usize, len: usize) -> Outcome<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut octets = vec![0; len];
        let at = self.shape.range.start + at;
        let is_read = self.memory.copy_out(at, &mut octets);
        is_read.then_some(()).ok_or("out of bounds").map_err(say("a flush"))?;
        file.write_all_at(&octets, at as u64).and_then(|()| file.sync_data()).map_err(say("a flush"))
    }

    fn post(&self, slot: u64) -> Outcome<()> {
        let len = u32::try_from(message_len(self.shape.index, self.shape.replicas)).unwrap_or(u32::MAX);
        let sges = [self.messages.sge(self.place(slot), len)];
        self.inward.post_recv(&RecvWr { wr_id: slot, sges: &sges }).map_err(say("a receive"))
    }

    fn place(&self, slot: u64) -> usize {
        usize::try_from(slot).unwrap_or(0) * message_len(self.shape.index, self.shape.replicas)
    }
}

impl Block<'_> {
    fn has(&self, at: usize, opcode: u8) -> bool {
        self.0[at] == opcode
    }

    fn word(&self, at: usize) -> u64 {
        self.0[at..].first_chunk().map_or(0, |octets| u64::from_le_bytes(*octets))
    }

    fn length(&self, at: usize) -> u32 {
        self.0[at..].first_chunk().map_or(0, |octets| u32::from_le_bytes(*octets))
    }

    fn place(&self, at: usize) -> usize {
        usize::try_from(self.word(at)).unwrap_or(usize::MAX)
    }
}

/// A program that computes for 1 ms of each 2 ms.
pub(super) struct Busy {
    until: Instant,
}

impl Busy {
    #[expect(clippy::disallowed_methods, reason = "a load of so much time")]
    pub(super) fn new() -> Self {
        Self { until: Instant::now() }
    }

    /// Computes, if the time has come.
    #[expect(clippy::disallowed_methods, reason = "a load of so much time")]
    pub(super) fn compute_if_due(&mut self) {
        let start = Instant::now();
        if start < self.until {
            return;
        }
        while start.elapsed() < HALF {
            core::hint::spin_loop();
        }
        self.until = start + 2 * HALF;
    }

    /// Computes as long as the process lives.
    pub(super) fn compute(&mut self, is_on: &AtomicBool) -> ! {
        loop {
            if is_on.load(Ordering::Relaxed) {
                self.compute_if_due();
            }
            std::thread::sleep(HALF);
        }
    }
}

/// Octets of a block, and opcodes in it, as the message of an operation has them.
const BLOCK: usize = 96;
const READ: u8 = 0x04;
const COMPARE_SWAP: u8 = 0x07;
const WRITE: u8 = 0x03;
const SYNC: u8 = 0x0C;
const HALF: Duration = Duration::from_millis(1);
/// How long a program sleeps that has no turn.
const REST: Duration = Duration::from_millis(2);
