//! What a replica tells of itself.

use core::net::SocketAddr;
use core::ops::Range;

use serde_json::{Value, json};

use super::fields::{Fields, Malformed};
use crate::MAX_REPLICAS;

/// The state of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// As of [`Welcome`](super::Welcome).
    pub size: u64,
    /// As of [`Welcome`](super::Welcome).
    pub incarnation: u64,
    /// The epoch with which it was sealed last.
    pub sealed: u64,
    /// The highest epoch that has begun with it, as far as it knows.
    pub served: u64,
    /// All octets that were flushed are there after a restart.
    pub is_stored: bool,
    /// How much of a copy or of a flush of the whole memory it has done for the side that asks, in parts of how much; `None`
    /// while it does nothing of the kind.
    pub progress: Option<[u64; 2]>,
    /// How many sessions it holds at most.
    pub limit: u64,
    /// How many sessions it holds.
    pub open: u64,
    /// The first ones of them, as many as a message has room for.
    pub sessions: Vec<SessionStatus>,
}

/// A session at a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// The epoch of the group.
    pub epoch: u64,
    /// The session.
    pub session: u64,
    /// The client, or the replica before this one.
    pub peer: SocketAddr,
    /// The number of this replica in the chain.
    pub index: usize,
    /// Replicas of the chain.
    pub replicas: usize,
    /// The octets that it works on.
    pub range: Range<u64>,
    /// Slots.
    pub window: u32,
    /// Whether its connections are there.
    pub is_ready: bool,
}

impl Status {
    /// The largest sessions take less than 240 octets each, and what stands around them less than 256.
    const SHOWN: usize = 16;

    pub(super) fn value(&self) -> Value {
        let sessions: Vec<Value> = self.sessions.iter().take(Self::SHOWN).map(SessionStatus::value).collect();
        json!({
            "size": self.size,
            "incarnation": self.incarnation,
            "sealed": self.sealed,
            "served": self.served,
            "stored": self.is_stored,
            "progress": self.progress,
            "limit": self.limit,
            "open": self.open,
            "sessions": sessions,
        })
    }

    pub(super) fn parse(fields: &mut Fields) -> Result<Self, Malformed> {
        let mut sessions = Vec::new();
        for mut session in fields.objects("sessions", Self::SHOWN)? {
            sessions.push(SessionStatus::parse(&mut session)?);
            session.end()?;
        }
        Ok(Self {
            size: fields.number("size")?,
            incarnation: fields.number("incarnation")?,
            sealed: fields.number("sealed")?,
            served: fields.number("served")?,
            is_stored: fields.truth("stored")?,
            progress: fields.pair_or_none("progress")?,
            limit: fields.number("limit")?,
            open: fields.number("open")?,
            sessions,
        })
    }
}

impl SessionStatus {
    fn value(&self) -> Value {
        json!({
            "epoch": self.epoch,
            "session": self.session,
            "peer": self.peer.to_string(),
            "index": self.index,
            "of": self.replicas,
            "range": [self.range.start, self.range.end],
            "window": self.window,
            "ready": self.is_ready,
        })
    }

    fn parse(fields: &mut Fields) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: fields.number("epoch")?,
            session: fields.number("session")?,
            peer: fields.address("peer")?,
            index: fields.at_most("index", MAX_REPLICAS - 1)?,
            replicas: fields.at_most("of", MAX_REPLICAS)?,
            range: fields.range("range")?,
            window: fields.small("window")?,
            is_ready: fields.truth("ready")?,
        })
    }
}
