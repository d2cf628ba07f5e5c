//! What the engine has to tell of a queue pair besides completions.

/// One thing to tell, named as `ibv_event_type` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QpNotice {
    /// The stream ended by an error of this side, or by an error that no completion tells.
    Fatal = 0x01,
    /// The peer broke a rule of the protocol: it sent what no stack can accept, or no receive was posted for it.
    RequestError = 0x02,
    /// The peer wanted to reach memory that it may not reach.
    AccessError = 0x04,
    /// The first message of the initiator has come. Before it, the responder may not send (RFC 5044 section 7.1.2).
    CommEstablished = 0x08,
    /// The send queue was asked to close and has nothing to do any more.
    SqDrained = 0x10,
    /// The queue pair takes no request of its shared receive queue any more, and has completed the last one it took.
    LastWqeReached = 0x20,
}

impl QpNotice {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Fatal,
        Self::RequestError,
        Self::AccessError,
        Self::CommEstablished,
        Self::SqDrained,
        Self::LastWqeReached,
    ];
}

/// A set of things to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpNotices(u8);

impl QpNotices {
    /// Returns whether there is nothing to tell.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns what there is to tell. An error comes before its consequences.
    pub fn iter(self) -> impl Iterator<Item = QpNotice> {
        QpNotice::ALL.into_iter().filter(move |&notice| self.0 & notice as u8 != 0)
    }

    pub(crate) const fn insert(&mut self, notice: QpNotice) {
        self.0 |= notice as u8;
    }
}
