//! SYNC: a request waits until its memory is durable.

use std::sync::Arc;

use weft_rdmap::Token;

use super::QueuePair;
use super::pending::Aside;
use crate::access::Access;
use crate::completion::Status;
use crate::memory::MemoryTable;
use crate::refusal::LocalFault;
use crate::syncing::SyncJob;
use crate::work::SendOpcode;

/// Elements that are left to a later SYNC.
const MOST_LEFT: usize = 256;

impl QueuePair {
    /// Begins the SYNC at hand. Completes it at once, and returns `true`, if it is left to a later one, or if no memory
    /// with a copy in a file is to be written.
    pub(super) fn begin_sync(&mut self, memory: &MemoryTable) -> Result<bool, LocalFault> {
        let is_left = matches!(self.work.opcode, SendOpcode::SyncLater);
        let job = self.sync.take().unwrap_or_default();
        let ranges = self.work.sges.iter().filter(|sge| sge.length > 0);
        let begun = job.begin(ranges.map(|sge| {
            memory
                .check(self.claim(sge.lkey, Access::LOCAL_READ), sge.addr, sge.length as usize)
                .map(|span| (span.region(), span.offset(), sge.length as usize))
        }));
        self.sync = Some(job);
        match begun {
            Err(_violation) => Err(self.fault(Status::LocalProtection)),
            Ok(count) if count > if is_left { MOST_LEFT } else { 0 } => {
                self.aside = Aside::ToSync;
                Ok(false)
            }
            Ok(_) => {
                self.finish(Token(self.started));
                Ok(true)
            }
        }
    }

    /// Completes the SYNC at hand if it is done; `false` says that it is not.
    pub(super) fn end_sync(&mut self) -> Result<bool, LocalFault> {
        match self.sync.as_ref().and_then(|job| job.outcome()) {
            None => Ok(false),
            Some(is_good) => {
                self.aside = Aside::None;
                if !is_good {
                    return Err(self.fault(Status::General));
                }
                self.finish(Token(self.started));
                Ok(true)
            }
        }
    }

    /// Returns what the SYNC at hand is about, once for each. The engine has it carried out by
    /// [`Syncer::carry_out`](crate::Syncer::carry_out), and then gives the queue pair a turn. If the queue pair is
    /// gone by then, nothing of it is needed.
    pub fn take_sync(&mut self) -> Option<Arc<SyncJob>> {
        if self.aside != Aside::ToSync {
            return None;
        }
        self.aside = Aside::Syncing;
        self.sync.clone()
    }
}
