//! What comes out of lanes.

use core::time::Duration;

use weft_rnic::{Completion, CompletionOpcode, Status};
use weft_sockets::far::{Notice, NoticeKind};

use crate::hosts::failure::Failure;
use crate::hosts::host::{Contact, Host, Received};
use crate::hosts::lane::RECEIVE;
use crate::hosts::rnic::Way;
use crate::hosts::why::Why;
use crate::state::State;

impl State {
    /// Takes a completion.
    pub(crate) fn handle_completion(&mut self, way: Way, done: &Completion, now: Duration) {
        let Some(name) = self.host_of(way, done.qp_num) else { return };
        if way == Way::Kernel && self.is_past_greeting(name) {
            // The end of the greeting's connection, or what should not be there.
            return;
        }
        let result = match done.status {
            Status::Success => self.handle_done(name, done, now),
            _ => Err(Failure::Lane),
        };
        match result {
            Ok(()) => {}
            Err(Failure::Lane) => self.lose_lane(name, now),
            Err(Failure::Channel | Failure::Host) => {
                if let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) {
                    host.faults += 1;
                }
                self.refuse_host(name, Why::Rule, now);
            }
        }
    }

    fn handle_done(&mut self, name: u64, done: &Completion, now: Duration) -> Result<(), Failure> {
        let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) else { return Ok(()) };
        if done.wr_id & RECEIVE == 0 {
            host.complete(done.wr_id);
            return Ok(());
        }
        let Contact::Up(lane) = &mut host.contact else {
            // The other daemon sends before this one has heard that the lane is open.
            return Err(Failure::Lane);
        };
        match (done.opcode, done.immediate) {
            (CompletionOpcode::RecvWithImmediate, Some(octets)) => {
                lane.post_receive(done.wr_id)?;
                let notice = Notice::decode(octets).ok_or(Failure::Host)?;
                if notice.kind == NoticeKind::Received {
                    return host.hear(Received::ByLane(notice.value)).map_err(|_| Failure::Host);
                }
                count(host);
                self.handle_notice(name, notice)
            }
            (CompletionOpcode::Recv, _) => {
                let letter = lane.take_letter(done.wr_id, done.byte_len)?;
                count(host);
                self.handle_letter(name, letter, now)
            }
            _ => Err(Failure::Host),
        }
    }

    /// Takes a host out of the table while this thread works on it.
    pub(crate) fn take_host(&mut self, name: u64) -> Option<Host> {
        self.hosts.as_mut()?.hosts.remove(&name)
    }

    pub(crate) fn put_host(&mut self, host: Host) {
        if let Some(hosts) = &mut self.hosts {
            hosts.hosts.insert(host.name, host);
        }
    }
}

/// Counts a message of the session.
fn count(host: &mut Host) {
    if let Some((_, session)) = &mut host.session {
        session.receive();
    }
}
