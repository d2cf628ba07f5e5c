//! Posting, in both worlds.

use weft_rnic::{Data, PostError, QpState, RecvWr, SendOpcode, SendWr, Sge};

use super::memory::End;
use super::ops::{DataChoice, Flags, Kind, SendChoice, SgeChoice};
use super::queues::{Octets, Recv, Send};
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
        if pair.recvs.len() as u64 >= ring(pair.capacity.recv_wr) {
            errors.push(PostError::QueueFull);
        }
        let posted = pair.qp.as_ref().expect("a live queue pair").post_recv(&RecvWr { wr_id, sges: &sges });
        if self.check_post(posted, &errors) {
            self.pair_mut(end).recvs.push_back(Recv { wr_id, sges });
        }
    }

    /// Every reason to refuse a request; which of several is told, the model does not know.
    fn send_errors(&self, end: End, wr: &SendWr<'_>) -> Vec<PostError> {
        let pair = self.pair(end);
        let fetches = wr.opcode.fetches();
        let takes_receive = matches!(
            wr.opcode,
            SendOpcode::Send | SendOpcode::SendInvalidate { .. } | SendOpcode::Immediate { .. }
        );
        let (is_inline, elements, len) = match wr.data {
            Data::Sges(sges) => (false, sges.len(), total(sges)),
            Data::Inline(octets) => (true, 0, octets.len() as u64),
        };
        let is_bad_data = match wr.opcode {
            SendOpcode::Immediate { .. } => len > 0,
            SendOpcode::FetchAdd { .. } | SendOpcode::CompareSwap { .. } => elements != 1 || len != 8,
            _ => false,
        };
        let checks = [
            (pair.state == QpState::Idle, PostError::InvalidState),
            (elements > pair.capacity.send_sge, PostError::TooManySges),
            (is_inline && len > pair.capacity.inline as u64, PostError::InlineTooLong),
            (len > u64::from(u32::MAX), PostError::TooLong),
            (is_inline && fetches || wr.solicited && !takes_receive, PostError::BadFlags),
            (is_bad_data, PostError::BadData),
            (pair.sends.len() as u64 >= ring(pair.capacity.send_wr), PostError::QueueFull),
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
            Kind::Read { target: choice } => {
                let (stag, to) = target(choice, len);
                SendOpcode::Read { stag, to }
            }
            Kind::Immediate { data } => SendOpcode::Immediate { data },
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
}

fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

/// Requests that a queue made for so many holds.
fn ring(entries: u32) -> u64 {
    u64::from(entries.max(1)).next_power_of_two()
}

/// So few that a message is always one segment.
const MAX_SGES: usize = 5;
