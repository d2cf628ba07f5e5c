//! The messages of the control plane: how a client, or a replica, asks another replica for a session.
//!
//! Each message is one Send of at most [`MAX_CONTROL`] octets on a queue pair of its own. It is a JSON object with one
//! member. The name of that member says what the message is, as in `{"open":{"epoch":3,…}}`. The side that connects asks,
//! and waits for the answer before it asks again. The other side answers, and may tell once that a session has ended.
//!
//! To add a message, add a variant to [`Request`] or [`Answer`], a line to its `fields` and a line to its `parse`.

use core::net::SocketAddr;
use core::ops::Range;

use serde_json::{Value, json};

use crate::MAX_REPLICAS;
use crate::epoch::Refusal;
use crate::epoch::change::Sealed;
use crate::greeting::Token;

mod change;
mod fields;
mod status;

pub use change::{Copying, Lent, Named, Seal};
use fields::{Fields, hexadecimal};
pub use fields::{MAX_CONTROL, Malformed};
pub use status::{SessionStatus, Status};

/// The version of the control plane.
pub const VERSION: u64 = 2;
/// Octets of the key of a group.
pub const KEY_LEN: usize = 32;

/// What the side asks for that has connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first request of each connection.
    Hello(Hello),
    /// Asks for a session in this replica and in those behind it. A connection has one session at most.
    Open(Open),
    /// Ends the session of this connection.
    Close,
    /// Asks for the state of the replica.
    Status,
    /// Ends the sessions of older epochs (docs/group/epochs.md tells the rules of this request and of those below).
    Seal(Seal),
    /// Has the replica fetch all octets in which it differs from another one, and make its whole memory durable.
    Copy(Copying),
    /// Asks to read the whole memory, and the hashes of its blocks: a replica with a Copy asks the other one.
    Fetch(Named),
    /// Has the replica make its whole memory durable.
    Flush(Named),
    /// Tells that an epoch has begun.
    Finish(Named),
}

/// What a replica answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To Hello.
    Welcome(Welcome),
    /// To Open: the session waits for its connections.
    Opened(Opened),
    /// To Close.
    Closed,
    /// To Status.
    Status(Status),
    /// To Seal.
    Sealed(Sealed),
    /// To Copy, Flush and Finish.
    Done,
    /// To Copy: the other replica does not answer, or not as it should, in words.
    SourceLost(String),
    /// To Fetch.
    Lent(Lent),
    /// To requests of a change of epoch, by the rules of epochs.
    Denied(Refusal),
    /// To anything else that is not done.
    Refused(String),
    /// Not an answer: the session of this connection has ended.
    Ended(End),
}

/// Says who connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version that the side knows.
    pub version: u64,
    /// The group's key, if it has one.
    pub key: Option<[u8; KEY_LEN]>,
}

/// A session that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The epoch of the group.
    pub epoch: u64,
    /// The session.
    pub session: u64,
    /// The replicas of the chain, the head first.
    pub members: Vec<Member>,
    /// Which of them this replica is.
    pub index: usize,
    /// The octets of the replica's memory that the session works on.
    pub range: Range<u64>,
    /// Slots.
    pub window: u32,
}

/// A replica of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it listens.
    pub address: SocketAddr,
    /// The incarnation that it must have; `None` takes any.
    pub incarnation: Option<u64>,
}

/// The answer to Hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Octets of the replica's memory.
    pub size: u64,
    /// Names the contents of the replica's memory: another number after each start.
    pub incarnation: u64,
}

/// What the side needs that has opened a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The STag of the range, for Writes of the predecessor.
    pub data_in: u32,
    /// Connects to IN.
    pub inward: Token,
    /// Connects to OUT of the chain's tail.
    pub outward: Token,
    /// The STag of the range at the tail, for Reads of the client.
    pub data_out: u32,
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The replica of this number is gone, or a connection to it.
    Lost(usize),
    /// A newer epoch has begun.
    Sealed(u64),
}

impl From<SocketAddr> for Member {
    fn from(address: SocketAddr) -> Self {
        Self { address, incarnation: None }
    }
}

impl Request {
    /// Returns the octets of the message.
    pub fn encode(&self) -> Vec<u8> {
        let value = match self {
            Self::Hello(hello) => json!({"hello": {
                "version": hello.version,
                "key": hello.key.as_ref().map(|key| hexadecimal(key)),
            }}),
            Self::Open(open) => json!({"open": open.value()}),
            Self::Close => json!({"close": {}}),
            Self::Status => json!({"status": {}}),
            Self::Seal(seal) => json!({"seal": seal.value()}),
            Self::Copy(copy) => json!({"copy": copy.value()}),
            Self::Fetch(named) => json!({"fetch": named.value()}),
            Self::Flush(named) => json!({"flush": named.value()}),
            Self::Finish(named) => json!({"finish": named.value()}),
        };
        value.to_string().into_bytes()
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong: anything that [`Self::encode`] never makes.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let (name, mut fields) = Fields::read(octets)?;
        let request = match name.as_str() {
            "hello" => {
                Self::Hello(Hello { version: fields.number("version")?, key: fields.octets_or_none("key")? })
            }
            "open" => Self::Open(Open::parse(&mut fields)?),
            "close" => Self::Close,
            "status" => Self::Status,
            "seal" => Self::Seal(Seal::parse(&mut fields)?),
            "copy" => Self::Copy(Copying::parse(&mut fields)?),
            "fetch" => Self::Fetch(Named::parse(&mut fields)?),
            "flush" => Self::Flush(Named::parse(&mut fields)?),
            "finish" => Self::Finish(Named::parse(&mut fields)?),
            _ => return Err(Malformed::new(format_args!("there is no request `{name}`"))),
        };
        fields.end()?;
        Ok(request)
    }
}

impl Answer {
    /// Returns the octets of the message.
    pub fn encode(&self) -> Vec<u8> {
        let value = match self {
            Self::Welcome(Welcome { size, incarnation }) => {
                json!({"welcome": {"size": size, "incarnation": incarnation}})
            }
            Self::Opened(opened) => json!({"opened": {
                "data_in": opened.data_in,
                "inward": hexadecimal(&opened.inward.0),
                "outward": hexadecimal(&opened.outward.0),
                "data_out": opened.data_out,
            }}),
            Self::Closed => json!({"closed": {}}),
            Self::Status(status) => json!({"status": status.value()}),
            Self::Sealed(sealed) => json!({"sealed": change::sealed_value(sealed)}),
            Self::Done => json!({"done": {}}),
            Self::SourceLost(reason) => json!({"source_lost": {"reason": fields::line(reason)}}),
            Self::Lent(lent) => json!({"lent": lent.value()}),
            Self::Denied(refusal) => json!({"denied": change::refusal_value(*refusal)}),
            Self::Refused(reason) => json!({"refused": {"reason": fields::line(reason)}}),
            Self::Ended(End::Lost(replica)) => json!({"ended": {"lost": replica}}),
            Self::Ended(End::Sealed(epoch)) => json!({"ended": {"sealed": epoch}}),
        };
        value.to_string().into_bytes()
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// As [`Request::parse`].
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let (name, mut fields) = Fields::read(octets)?;
        let answer = match name.as_str() {
            "welcome" => Self::Welcome(Welcome {
                size: fields.number("size")?,
                incarnation: fields.number("incarnation")?,
            }),
            "opened" => Self::Opened(Opened {
                data_in: fields.small("data_in")?,
                inward: Token(fields.octets("inward")?),
                outward: Token(fields.octets("outward")?),
                data_out: fields.small("data_out")?,
            }),
            "closed" => Self::Closed,
            "status" => Self::Status(Status::parse(&mut fields)?),
            "sealed" => Self::Sealed(change::parse_sealed(&mut fields)?),
            "done" => Self::Done,
            "source_lost" => Self::SourceLost(fields::line(&fields.text("reason")?)),
            "lent" => Self::Lent(Lent::parse(&mut fields)?),
            "denied" => Self::Denied(change::parse_refusal(&mut fields)?),
            "refused" => Self::Refused(fields::line(&fields.text("reason")?)),
            "ended" if fields.has("lost") => {
                Self::Ended(End::Lost(fields.at_most("lost", MAX_REPLICAS - 1)?))
            }
            "ended" => Self::Ended(End::Sealed(fields.number("sealed")?)),
            _ => return Err(Malformed::new(format_args!("there is no answer `{name}`"))),
        };
        fields.end()?;
        Ok(answer)
    }
}

impl Open {
    fn value(&self) -> Value {
        let members: Vec<Value> = self
            .members
            .iter()
            .map(|member| json!({"address": member.address.to_string(), "incarnation": member.incarnation}))
            .collect();
        json!({
            "epoch": self.epoch,
            "session": self.session,
            "members": members,
            "index": self.index,
            "range": [self.range.start, self.range.end],
            "window": self.window,
        })
    }

    fn parse(fields: &mut Fields) -> Result<Self, Malformed> {
        let mut members = Vec::new();
        for mut member in fields.objects("members", MAX_REPLICAS)? {
            let (address, incarnation) = (member.address("address")?, member.number_or_none("incarnation")?);
            member.end()?;
            members.push(Member { address, incarnation });
        }
        let Some(last) = members.len().checked_sub(1) else {
            return Err(Malformed::new("a chain has at least one member"));
        };
        Ok(Self {
            epoch: fields.number("epoch")?,
            session: fields.number("session")?,
            index: fields.at_most("index", last)?,
            members,
            range: fields.range("range")?,
            window: fields.small("window")?,
        })
    }
}

#[cfg(test)]
mod tests;
