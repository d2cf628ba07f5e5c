//! The memory and requests of the application of the device under test, and their allowed outcomes.

use weft_rnic::{Access, Completion, CompletionOpcode, Mr, Pd, Qp, Region, Sge, Stag, Status};

use super::reached::{Milestone, Reached};

/// Memory and work of one run.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) areas: Vec<Area>,
    pub(super) reached: Reached,
    posted: Vec<Work>,
    /// For each queue, the peer's whole messages that complete a request of it, and the requests that completed.
    sent: [u32; 2],
    taken: [u32; 2],
    last: [Option<u64>; 2],
    /// A completion queue overran, or a queue pair was destroyed: completions may be missing.
    pub(super) lossy: bool,
}

/// A memory region, and which of its octets may have changed.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) mr: Option<Mr>,
    pub(super) stag: Stag,
    pub(super) to: u64,
    pub(super) access: Access,
    is_foreign: bool,
    is_dead: bool,
    fill: [u8; 8],
    /// True for an octet that a local request or an allowed request of the peer may change.
    may_change: Vec<bool>,
    written: bool,
}

/// One of the two queues of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Send = 0,
    Recv = 1,
}

#[derive(Debug)]
struct Work {
    queue: Queue,
    signaled: bool,
    completed: bool,
    /// The octets of its local memory.
    len: u32,
}

impl Ledger {
    /// Registers an area for each row of [`areas`], one of them in another protection domain. Some are for `qp`
    /// alone.
    pub(super) fn new(pd: &Pd, foreign: &Pd, qp: &Qp) -> Self {
        let areas = (0..areas().len()).map(|index| {
            let pd = if index == FOREIGN { foreign } else { pd };
            Area::new(index, pd, Some(qp))
        });
        Self {
            areas: areas.flatten().collect(),
            reached: Reached::default(),
            posted: Vec::new(),
            sent: [0; 2],
            taken: [0; 2],
            last: [None; 2],
            lossy: false,
        }
    }

    /// Returns the area that an octet of input chooses.
    pub(super) fn area(&self, choice: u8) -> &Area {
        &self.areas[usize::from(choice) % self.areas.len()]
    }

    /// Returns the identifier for the next request.
    pub(super) const fn next_id(&self) -> u64 {
        self.posted.len() as u64
    }

    /// Notes that a request with [`Self::next_id`] and this much local memory was posted.
    pub(super) fn post(&mut self, queue: Queue, signaled: bool, len: u32) {
        self.posted.push(Work { queue, signaled, completed: false, len });
    }

    /// Notes the last segment of a message of the peer that takes a receive, or answers a request of the send queue.
    pub(super) const fn note_message(&mut self, queue: Queue) {
        self.sent[queue as usize] += 1;
    }

    /// Notes that the engine may place received octets into this element from now on.
    pub(super) fn lend(&mut self, sge: Sge) {
        let area = self.areas.iter_mut().find(|area| area.stag == sge.lkey);
        if let Some(area) = area
            && area.access.contains(Access::LOCAL_WRITE)
        {
            area.allow(sge.addr, sge.length as usize);
        }
    }

    /// Notes that the peer has sent a Write, or an Atomic Request, to these octets.
    pub(super) fn allow_peer(&mut self, stag: Stag, to: u64, len: usize, right: Access) {
        let area = self.areas.iter_mut().find(|area| area.stag == stag);
        if let Some(area) = area
            && area.access.contains(right)
        {
            area.written |= area.allow(to, len);
        }
    }

    /// Notes that the peer has sent a message that invalidates this STag. No later message may use it.
    pub(super) fn invalidate(&mut self, stag: Stag) {
        for area in &mut self.areas {
            area.is_dead |= area.stag == stag;
        }
    }

    /// Checks a completion from the queue.
    ///
    /// # Panics
    /// If its request was never posted, is completed already, is out of order, or has more octets than were sent or
    /// fit.
    pub(super) fn complete(&mut self, completion: &Completion) {
        let index = usize::try_from(completion.wr_id).unwrap_or(usize::MAX);
        let work = self
            .posted
            .get_mut(index)
            .unwrap_or_else(|| panic!("a request was never posted: {completion:?}"));
        assert!(!core::mem::replace(&mut work.completed, true), "twice: {completion:?}");
        let queue = work.queue as usize;
        assert!(self.last[queue].is_none_or(|last| last < completion.wr_id), "out of order: {completion:?}");
        self.last[queue] = Some(completion.wr_id);
        if completion.status != Status::Success {
            return;
        }
        assert_eq!(work.queue == Queue::Recv, is_receive(completion.opcode), "{completion:?}");
        assert!(work.queue == Queue::Recv || work.signaled, "an unwanted completion: {completion:?}");
        // The completion of Immediate Data counts octets that a Write placed, and none of the receive.
        let counts = completion.opcode != CompletionOpcode::RecvWithImmediate;
        assert!(!counts || completion.byte_len <= work.len, "more than {} octets: {completion:?}", work.len);
        if !matches!(
            completion.opcode,
            CompletionOpcode::Send
                | CompletionOpcode::Write
                | CompletionOpcode::Immediate
                | CompletionOpcode::BindWindow
                | CompletionOpcode::FastRegister
                | CompletionOpcode::LocalInvalidate
                | CompletionOpcode::Nop
                | CompletionOpcode::Wait
                | CompletionOpcode::Sync
        ) {
            self.taken[queue] += 1;
            assert!(self.taken[queue] <= self.sent[queue], "the peer sent nothing good for {completion:?}");
        }
        self.reached.add(milestone(completion));
    }

    /// Checks that every request that wants a completion has had one. Unsignaled requests may have had none.
    pub(super) fn check_all_completed(&self) {
        for (index, work) in self.posted.iter().enumerate() {
            let silent = work.queue == Queue::Send && !work.signaled;
            assert!(self.lossy || work.completed || silent, "request {index} was never completed: {work:?}");
        }
    }

    /// Returns true if no more requests are wanted, as so many are enough for any run.
    pub(super) const fn is_full(&self) -> bool {
        self.posted.len() >= MAX_REQUESTS
    }

    /// Checks that no other octets have changed than those that may.
    pub(super) fn check_memory(&mut self) {
        for area in &self.areas {
            if area.check() {
                self.reached.add(Milestone::WritePlaced);
            }
        }
    }

    /// Checks an area for the last time and deregisters it.
    pub(super) fn deregister(&mut self, choice: u8) {
        let index = usize::from(choice) % self.areas.len();
        if self.areas[index].check() {
            self.reached.add(Milestone::WritePlaced);
        }
        self.areas[index].mr = None;
        self.areas[index].is_dead = true;
    }

    /// Registers an area anew, with another STag.
    pub(super) fn register(&mut self, choice: u8, pd: &Pd, qp: Option<&Qp>) {
        let index = usize::from(choice) % self.areas.len();
        if self.areas[index].mr.is_none()
            && index != FOREIGN
            && let Some(area) = Area::new(index, pd, qp)
        {
            self.areas[index] = area;
        }
    }

    /// Returns true if these octets are of an area that only the application may read.
    pub(super) fn is_secret(&self, octets: &[u8]) -> bool {
        self.areas
            .iter()
            .filter(|area| area.is_foreign || !area.access.contains(Access::REMOTE_READ))
            .any(|area| octets.windows(8).any(|window| window == area.fill))
    }
}

impl Area {
    /// Returns `None` if the area is for a queue pair that is gone.
    fn new(index: usize, pd: &Pd, qp: Option<&Qp>) -> Option<Self> {
        let (access, to) = areas()[index];
        let mr = match to {
            Some(to) => pd.register_at(Region::owned(AREA_LEN).expect("memory"), access, to),
            None => pd.register_for(qp?, AREA_LEN, access),
        };
        let mr = mr.expect("an STag");
        let number = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let fill = (number ^ (number >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9).to_be_bytes();
        mr.write(0, &fill.repeat(AREA_LEN / 8)).expect("the whole region");
        Some(Self {
            stag: mr.rkey(),
            to: mr.addr(),
            mr: Some(mr),
            access,
            is_foreign: index == FOREIGN,
            is_dead: false,
            fill,
            may_change: vec![false; AREA_LEN],
            written: false,
        })
    }

    /// Returns a piece of the area, not necessarily inside it.
    pub(super) const fn sge(&self, offset: u16, length: u16) -> Sge {
        Sge { addr: self.to.wrapping_add(offset as u64), length: length as u32, lkey: self.stag }
    }

    fn allow(&mut self, to: u64, len: usize) -> bool {
        let range = to
            .checked_sub(self.to)
            .and_then(|start| usize::try_from(start).ok())
            .and_then(|start| Some(start..start.checked_add(len)?));
        let usable = !self.is_foreign && !self.is_dead;
        let octets = range.filter(|_| usable).and_then(|range| self.may_change.get_mut(range));
        octets.map(|octets| octets.fill(true)).is_some()
    }

    /// Checks the area. Returns true if the peer has changed any octet.
    fn check(&self) -> bool {
        let Some(mr) = &self.mr else { return false };
        let mut octets = vec![0; AREA_LEN];
        mr.read(0, &mut octets).expect("the whole region");
        let mut changed = false;
        for (at, (octet, may_change)) in octets.iter().zip(&self.may_change).enumerate() {
            if *octet != self.fill[at % 8] {
                assert!(may_change, "octet {at} of the area at {:#x} was changed without a right", self.to);
                changed = true;
            }
        }
        changed && self.written
    }
}

const fn is_receive(opcode: CompletionOpcode) -> bool {
    matches!(opcode, CompletionOpcode::Recv | CompletionOpcode::RecvWithImmediate)
}

fn milestone(completion: &Completion) -> Milestone {
    match completion.opcode {
        CompletionOpcode::Send => Milestone::SendCompleted,
        CompletionOpcode::Write => Milestone::WriteCompleted,
        CompletionOpcode::Read => Milestone::ReadCompleted,
        CompletionOpcode::Immediate => Milestone::ImmediateCompleted,
        CompletionOpcode::FetchAdd | CompletionOpcode::CompareSwap => Milestone::AtomicCompleted,
        CompletionOpcode::BindWindow
        | CompletionOpcode::FastRegister
        | CompletionOpcode::LocalInvalidate
        | CompletionOpcode::Nop
        | CompletionOpcode::Wait
        | CompletionOpcode::Sync => Milestone::CarriedOut,
        CompletionOpcode::RecvWithImmediate => {
            Milestone::ImmediateDelivered { solicited: completion.solicited }
        }
        CompletionOpcode::Recv => Milestone::SendDelivered {
            solicited: completion.solicited,
            invalidate: completion.invalidated.is_some(),
        },
    }
}

/// Returns rights and first tagged offset of each area. The areas are for receives and sinks, for all uses, for
/// writing only, for reading only, for the application alone, and for another protection domain. Those without an
/// offset are for one queue pair, whose peer can invalidate them. The offsets of the third area end where offsets
/// wrap.
fn areas() -> [(Access, Option<u64>); 8] {
    let write_only = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    [
        (Access::LOCAL_WRITE, Some(0x1_0000)),
        (Access::ALL, Some(0x2_0000)),
        (write_only, Some(u64::MAX - AREA_LEN as u64)),
        (Access::REMOTE_READ, Some(0)),
        (Access::LOCAL_READ, Some(0x3_0000)),
        (Access::ALL, Some(0x4_0000)),
        (Access::ALL, None),
        (Access::REMOTE_READ, None),
    ]
}

const FOREIGN: usize = 5;
/// The octets of an area, more than one segment takes.
pub(super) const AREA_LEN: usize = 2048;
const MAX_REQUESTS: usize = 400;
