//! What is remembered of a request of the send queue that is started and not completed.

use crate::completion::{CompletionOpcode, Status};
use crate::work::Sge;

/// A request of the send queue between start and completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) wr_id: u64,
    pub(super) opcode: CompletionOpcode,
    pub(super) status: Status,
    pub(super) vendor_err: u32,
    pub(super) len: u32,
    pub(super) parts: usize,
    /// Where the original value of an Atomic goes.
    pub(super) sink: Sge,
    pub(super) signaled: bool,
    pub(super) done: bool,
}

impl Pending {
    /// Counts a part that is done, and says whether it was the last one.
    pub(super) const fn is_last_part(&mut self) -> bool {
        self.parts = self.parts.saturating_sub(1);
        self.parts == 0
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            wr_id: 0,
            opcode: CompletionOpcode::Send,
            status: Status::Success,
            vendor_err: 0,
            len: 0,
            parts: 0,
            sink: Sge::default(),
            signaled: false,
            done: false,
        }
    }
}

/// What the request at hand waits for, beside of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Aside {
    /// It does not wait.
    #[default]
    None,
    /// It has taken memory out of use, and other engines may still copy.
    Revoking,
    /// No engine copies any more: the request completes.
    Revoked,
    /// It makes memory durable, and the engine has yet to begin that.
    ToSync,
    /// It makes memory durable.
    Syncing,
}
