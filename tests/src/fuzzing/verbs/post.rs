//! Posting, in both worlds.

use weft_rnic::{
    Access, Bind, Data, FastRegister, MwBind, PostError, QpState, RecvWr, SendOpcode, SendWr, Sge, Stag,
    WindowType,
};

use super::memory::{Backing, End, Memory};
use super::ops::{BindChoice, DataChoice, Flags, Kind, SendChoice, SgeChoice};
use super::queues::{Octets, Recv, Send};
use super::register::iova_of;
use super::world::World;

impl World {
    pub(super) fn post_send(&mut self, end: End, choice: &SendChoice, flags: Flags) {
        let wr_id = self.next_id;
        self.next_id += 1;
        let data = match &choice.data {
            DataChoice::Sges(sges) => Octets::Sges(self.sges(end.0, sges)),
            DataChoice::Word(sge) => {
                let sge = Sge { length: 8, ..self.sges(end.0, &[*sge])[0] };
                Octets::Sges(vec![sge])
            }
            DataChoice::Inline(len) => {
                let octet = wr_id.to_le_bytes()[0];
                Octets::Inline((0..usize::from(*len) % 1100).map(|at| at.to_le_bytes()[0] ^ octet).collect())
            }
        };
        let opcode = self.opcode(end.0, choice.kind, &data);
        let Flags { signaled, fence, solicited, hold: _ } = flags;
        // Most requests that take no data have none.
        let is_bare = opcode.is_local() && !matches!(choice.data, DataChoice::Word(_));
        let (data, solicited) = if is_bare { (Octets::Sges(Vec::new()), false) } else { (data, solicited) };
        let wr_data = match &data {
            Octets::Sges(sges) => Data::Sges(sges),
            Octets::Inline(octets) => Data::Inline(octets),
        };
        let wr = SendWr { wr_id, opcode, data: wr_data, signaled, fence, solicited };
        let errors = self.send_errors(end, &wr);
        let posted = self.pair(end).qp.as_ref().expect("a live queue pair").post_send(&wr);
        if self.check_post(posted, &errors) {
            self.pair_mut(end).sends.push_back(Send { wr_id, opcode, data, signaled, solicited });
        }
    }

    pub(super) fn post_recv(&mut self, end: End, choices: &[SgeChoice]) {
        let wr_id = self.next_id;
        self.next_id += 1;
        let sges = self.sges(end.0, choices);
        let pair = self.pair(end);
        let mut errors = Vec::new();
        if sges.len() > pair.capacity.recv_sge {
            errors.push(PostError::TooManySges);
        }
        if total(&sges) > u64::from(u32::MAX) {
            errors.push(PostError::TooLong);
        }
        if (pair.recvs.len() + pair.done[1].len()) as u64 >= ring(pair.capacity.recv_wr) {
            errors.push(PostError::QueueFull);
        }
        let posted = pair.qp.as_ref().expect("a live queue pair").post_recv(&RecvWr { wr_id, sges: &sges });
        if self.check_post(posted, &errors) {
            self.pair_mut(end).recvs.push_back(Recv { wr_id, sges });
        }
    }

    /// Returns every reason to refuse a request. The model does not know which of several the call returns.
    fn send_errors(&self, end: End, wr: &SendWr<'_>) -> Vec<PostError> {
        let pair = self.pair(end);
        let fetches = wr.opcode.fetches();
        let takes_receive = matches!(
            wr.opcode,
            SendOpcode::Send
                | SendOpcode::SendInvalidate { .. }
                | SendOpcode::Immediate { .. }
                | SendOpcode::WriteImmediate { .. }
        );
        let may_solicit = takes_receive || matches!(wr.opcode, SendOpcode::Nop | SendOpcode::Hold);
        let (is_inline, elements, len) = match wr.data {
            Data::Sges(sges) => (false, sges.len(), total(sges)),
            Data::Inline(octets) => (true, 0, octets.len() as u64),
        };
        let is_bad_data = match wr.opcode {
            SendOpcode::Immediate { .. } => len > 0,
            SendOpcode::LocalInvalidate { .. } | SendOpcode::BindWindow(_) | SendOpcode::FastRegister(_) => {
                elements > 0 || len > 0
            }
            SendOpcode::Wait { count, .. } => elements > 0 || len > 0 || count == 0,
            SendOpcode::FetchAdd { .. } | SendOpcode::CompareSwap { .. } => elements != 1 || len != 8,
            _ => false,
        };
        let checks = [
            (pair.state == QpState::Idle, PostError::InvalidState),
            (elements > pair.capacity.send_sge, PostError::TooManySges),
            (is_inline && len > pair.capacity.inline as u64, PostError::InlineTooLong),
            (len > u64::from(u32::MAX), PostError::TooLong),
            (is_inline && fetches || wr.solicited && !may_solicit, PostError::BadFlags),
            (is_bad_data, PostError::BadData),
            (
                (pair.sends.len() + pair.done[0].len()) as u64 >= ring(pair.capacity.send_wr),
                PostError::QueueFull,
            ),
        ];
        checks.into_iter().filter(|(applies, _)| *applies).map(|(_, error)| error).collect()
    }

    fn check_post(&mut self, posted: Result<(), PostError>, errors: &[PostError]) -> bool {
        match posted {
            Ok(()) => {
                assert_eq!(errors, []);
                true
            }
            Err(error) => {
                assert!(errors.contains(&error), "{error:?} instead of {errors:?}");
                self.note(error);
                false
            }
        }
    }

    fn sges(&self, side: usize, choices: &[SgeChoice]) -> Vec<Sge> {
        let memories = [&self.sides[side].memories, &self.sides[1 - side].memories];
        choices.iter().take(MAX_SGES).map(|&choice| memories[0].sge(choice, memories[1])).collect()
    }

    fn opcode(&self, side: usize, kind: Kind, data: &Octets) -> SendOpcode {
        let len = match data {
            Octets::Sges(sges) => usize::try_from(total(sges)).unwrap_or(0),
            Octets::Inline(octets) => octets.len(),
        };
        let target = |target, len| self.sides[1 - side].memories.target(target, len);
        match kind {
            Kind::Send => SendOpcode::Send,
            Kind::SendInvalidate { target: choice } => {
                SendOpcode::SendInvalidate { stag: target(choice, 0).0 }
            }
            Kind::Write { target: choice } => {
                let (stag, to) = target(choice, len);
                SendOpcode::Write { stag, to }
            }
            Kind::WriteImmediate { target: choice, immediate } => {
                let (stag, to) = target(choice, len);
                SendOpcode::WriteImmediate { stag, to, immediate }
            }
            Kind::Read { target: choice } => {
                let (stag, to) = target(choice, len);
                SendOpcode::Read { stag, to }
            }
            Kind::Immediate { data } => SendOpcode::Immediate { data },
            Kind::Idle { choice: 0..16 } => SendOpcode::Hold,
            Kind::Idle { choice: choice @ 16..32 } => {
                SendOpcode::Wait { cq: u32::MAX, count: u32::from(choice) - 16, strict: choice % 2 == 1 }
            }
            Kind::Idle { .. } => SendOpcode::Nop,
            Kind::LocalInvalidate { region } => {
                SendOpcode::LocalInvalidate { stag: self.sides[side].memories.target(region, 0).0 }
            }
            Kind::Bind(choice) => SendOpcode::BindWindow(self.binding(side, choice)),
            Kind::FastRegister { region, key, offset, length, access, iova } => {
                let memory = self.sides[side].memories.pick(region);
                let own = memory.map(|memory| match &memory.backing {
                    Backing::Fast(fast) => fast.stag(key),
                    Backing::Mr(mr) => mr.rkey(),
                });
                let stag = own.unwrap_or_else(|| Stag(key.into()));
                let size = memory.map_or(0, |memory| memory.content.len());
                let (offset, length) = part(size, offset, length);
                SendOpcode::FastRegister(FastRegister {
                    stag,
                    offset,
                    iova: iova_of(iova),
                    length,
                    access: rights(access),
                })
            }
            Kind::FetchAdd { target: choice, add, mask } => {
                let (stag, to) = target(choice, 8);
                SendOpcode::FetchAdd { stag, to, add, mask }
            }
            Kind::CompareSwap { target: choice, swap, masks, compare } => {
                let (stag, to) = target(choice, 8);
                let swap_mask = if masks[0] { u64::MAX } else { 0xFF00 };
                let compare_mask = if masks[1] { u64::MAX } else { 0 };
                SendOpcode::CompareSwap { stag, to, swap, swap_mask, compare, compare_mask }
            }
        }
    }

    /// Makes the call that binds a window of type 1.
    pub(super) fn bind_mw(&mut self, end: End, choice: BindChoice) {
        let wr_id = self.next_id;
        self.next_id += 1;
        let bind = self.binding(end.0, choice);
        let (memories, pair) = (&self.sides[end.0].memories, self.pair(end));
        let Some(window) = pick(&memories.windows, choice.window) else { return };
        let Some(Memory { backing: Backing::Mr(region), pd, .. }) = memories.pick(choice.region) else {
            return;
        };
        let Bind { addr, length, access, .. } = bind;
        let request = MwBind { wr_id, region, addr, length, access, signaled: true, fence: false };
        let checks = [
            (window.mw.kind() != WindowType::Type1, PostError::WrongWindow),
            (window.pd != *pd, PostError::ForeignObject),
            (access.bits() & !(0x0E | 0x20) != 0, PostError::BadFlags),
            (pair.state == QpState::Idle, PostError::InvalidState),
            (
                (pair.sends.len() + pair.done[0].len()) as u64 >= ring(pair.capacity.send_wr),
                PostError::QueueFull,
            ),
        ];
        let errors: Vec<_> =
            checks.into_iter().filter(|(applies, _)| *applies).map(|(_, error)| error).collect();
        let posted = pair.qp.as_ref().expect("a live queue pair").bind_mw(&window.mw, &request);
        let stag = *posted.as_ref().unwrap_or(&bind.window);
        if self.check_post(posted.map(|_| ()), &errors) {
            let opcode = SendOpcode::BindWindow(Bind { window: stag, ..bind });
            let data = Octets::Sges(Vec::new());
            self.pair_mut(end).sends.push_back(Send {
                wr_id,
                opcode,
                data,
                signaled: true,
                solicited: false,
            });
        }
    }

    fn binding(&self, side: usize, choice: BindChoice) -> Bind {
        let BindChoice { window, key, region, offset, length, access } = choice;
        let memories = &self.sides[side].memories;
        let window =
            pick(&memories.windows, window).map_or_else(|| Stag(key.into()), |window| window.mw.stag(key));
        let memory = memories.pick(region);
        let (offset, length) = part(memory.map_or(0, |memory| memory.len), offset, length);
        let base = memory.map_or(0, |memory| memory.base);
        // Most binds ask for rights that a window can have.
        let access = if access < 0xF0 { rights(access & 0x2E) } else { rights(access) };
        let region = memory.map_or(Stag(0), |memory| memory.stag);
        Bind { window, region, addr: base.wrapping_add(offset), length, access }
    }
}

fn pick<T>(list: &[T], choice: u8) -> Option<&T> {
    list.get(usize::from(choice).checked_rem(list.len())?)
}

fn rights(bits: u8) -> Access {
    Access::from_bits(bits & 0x3F).expect("these are rights")
}

/// Returns a part of memory of this size. One in 32 is too long.
fn part(size: usize, offset: u8, length: u8) -> (u64, u64) {
    let offset = usize::from(offset) % (size + 1);
    let length = if length >= 0xF8 { size + 1 } else { usize::from(length) % (size - offset + 1) };
    (offset as u64, length as u64)
}

fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

/// Returns the requests that a queue with room for `entries` holds.
fn ring(entries: u32) -> u64 {
    u64::from(entries.max(1)).next_power_of_two()
}

/// So few elements make a message one segment.
const MAX_SGES: usize = 5;
