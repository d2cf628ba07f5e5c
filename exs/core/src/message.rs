//! The messages of a connection. Each is a Send of 32 octets, and behind them the octets of immediate data, if it has
//! some.
//!
//! | octets | field, big-endian |
//! |---|---|
//! | 0 | type |
//! | 1 | flags |
//! | 2-3 | limit: how many Sends this side has taken so far, and WINDOW more, modulo 2^16 |
//! | 4-7 | id |
//! | 8-11 | len |
//! | 12-15 | stag |
//! | 16-23 | a |
//! | 24-31 | b |
//!
//! | type | id | len | stag | a | b | flags |
//! |---|---|---|---|---|---|---|
//! | 0x01 CREDIT | | | | | | |
//! | 0x10 MSG | number of the message | octets | STag of the source | its address | | 0x01 INLINE: the octets follow, no source |
//! | 0x11 ACK | number of the message | octets placed, if EXACT | | | 1: not taken, if EXACT | 0x01 EXACT |
//! | 0x20 DATA | epoch, or 0 with RING | octets | | position of the first | | 0x01 INLINE, 0x02 RING, 0x04 LAST (not with RING), 0x08 HOLD (with RING) |
//! | 0x21 ADVERT | epoch | octets | STag of the sink | its address | position, if FIRST | 0x01 FIRST, 0x02 WAITALL |
//! | 0x22 FREE | | | | ring octets read since the start | | |
//! | 0x23 REVOKE | epoch | | | | | |
//! | 0x30 SHUTDOWN | | | | position, or number of messages sent | | |
//! | 0x31 ABORT | code of the fault | | | | | |
//!
//! What a type does not use is zero. A message with anything else there is malformed.

use weft_ddp::Stag;

use crate::fault::Fault;

/// A message, without its immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Up to this number of Sends, modulo 2^16, the receiver of this message may send.
    pub limit: u16,
    /// What the message says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Tells the limit, and nothing else.
    Credit,
    /// A message of the user.
    Msg(Msg),
    /// Messages of the user are done.
    Ack(Ack),
    /// Octets of the stream.
    Data(Data),
    /// A receive into which the peer may write.
    Advert(Advert),
    /// A part of the ring is free.
    Free {
        /// Octets of the ring that have been read since the start of the connection.
        read: u64,
    },
    /// Takes back all adverts of an epoch.
    Revoke {
        /// The epoch. Not 0.
        epoch: u32,
    },
    /// This side sends nothing more.
    Shutdown {
        /// Octets of the stream, or number of messages, that it has sent.
        end: u64,
    },
    /// The connection ends.
    Abort(Fault),
}

/// A message of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Msg {
    /// The number of the message: 0, 1 and so on, modulo 2^32.
    pub id: u32,
    /// Octets. 0 only with immediate data.
    pub len: u32,
    /// Where the octets are.
    pub source: Source,
}

/// Where the octets of a message of the user are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// They follow the message: immediate data.
    Inline,
    /// In memory of the sender, for a Read.
    Memory {
        /// The STag of the memory.
        stag: Stag,
        /// The tagged offset of the first octet.
        to: u64,
    },
}

/// Messages of the user are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ack {
    /// The number of the last one. All before it were placed in full.
    pub id: u32,
    /// How much of the last one was placed.
    pub extent: Extent,
}

/// How much of a message of the user was placed in the receiver's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// All of it.
    Full,
    /// So many octets of it. The rest is gone.
    Placed(u32),
    /// Nothing, since the receiver reads no more.
    NotTaken,
}

/// Octets of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Data {
    /// The position of the first octet in the stream.
    pub position: u64,
    /// Octets.
    pub len: u32,
    /// The octets follow the message: immediate data. Else they have been written before.
    pub is_inline: bool,
    /// Where the octets belong.
    pub target: Target,
}

/// Where octets of the stream belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Into the first receive that is advertised.
    Advert {
        /// The epoch of the advert. Not 0.
        epoch: u32,
        /// The advert is used up.
        is_last: bool,
    },
    /// Into the ring.
    Ring {
        /// The sender waits until all of the ring has been read, or an advert comes.
        holds: bool,
    },
}

/// A receive into which the peer may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Advert {
    /// The epoch of the advert. Not 0.
    pub epoch: u32,
    /// Octets. Not 0.
    pub len: u32,
    /// The STag of the memory.
    pub stag: Stag,
    /// The tagged offset of the first octet there.
    pub to: u64,
    /// The position of the receiver in the stream, if the advert is the first of its epoch.
    pub first: Option<u64>,
    /// The receive waits until it is full.
    pub waits_for_all: bool,
}

impl Message {
    /// Reads a message, and returns it with the immediate data behind it.
    ///
    /// # Errors
    /// [`Fault::Malformed`]: the octets are not what [`Self::encode`] makes, and as much immediate data as that says.
    pub fn parse(octets: &[u8]) -> Result<(Self, &[u8]), Fault> {
        let (header, payload) = octets.split_first_chunk().ok_or(Fault::Malformed)?;
        let message = Self::parse_header(header)?;
        let is_exact = message.payload_len() as usize == payload.len();
        if is_exact { Ok((message, payload)) } else { Err(Fault::Malformed) }
    }

    /// Reads a message without its immediate data.
    ///
    /// # Errors
    /// [`Fault::Malformed`]: the octets are not what [`Self::encode`] makes.
    pub fn parse_header(header: &[u8; HEADER_LEN]) -> Result<Self, Fault> {
        let fields = Fields::read(header).ok_or(Fault::Malformed)?;
        let body = Body::from_fields(&fields).ok_or(Fault::Malformed)?;
        let message = Self { limit: fields.limit, body };
        if message.encode() == *header { Ok(message) } else { Err(Fault::Malformed) }
    }

    /// Returns the octets to be sent in front of the immediate data.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        Fields { limit: self.limit, ..self.body.fields() }.write()
    }

    /// Returns how many octets of immediate data follow the message.
    #[must_use]
    pub const fn payload_len(&self) -> u32 {
        match self.body {
            Body::Msg(Msg { len, source: Source::Inline, .. })
            | Body::Data(Data { len, is_inline: true, .. }) => len,
            _ => 0,
        }
    }
}

impl Msg {
    /// Returns the id of the message that so many are in front of.
    pub(crate) const fn id_of(number: u64) -> u32 {
        let [.., a, b, c, d] = number.to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

impl Body {
    /// Returns what these fields say. Fields that the type does not use are left to the caller.
    fn from_fields(fields: &Fields) -> Option<Self> {
        let Fields { kind, flags, id, len, stag, a, b, .. } = *fields;
        let has = |flag: u8| flags & flag != 0;
        let body = match kind {
            CREDIT => Self::Credit,
            MSG if has(INLINE) => Self::Msg(Msg { id, len, source: Source::Inline }),
            MSG if len > 0 => Self::Msg(Msg { id, len, source: Source::Memory { stag: Stag(stag), to: a } }),
            ACK => {
                let extent = match b {
                    _ if !has(EXACT) => Extent::Full,
                    PLACED => Extent::Placed(len),
                    NOT_TAKEN => Extent::NotTaken,
                    _ => return None,
                };
                Self::Ack(Ack { id, extent })
            }
            DATA => {
                let target = match id {
                    _ if has(RING) => Target::Ring { holds: has(HOLD) },
                    0 => return None,
                    epoch => Target::Advert { epoch, is_last: has(LAST) },
                };
                Self::Data(Data { position: a, len, is_inline: has(INLINE), target })
            }
            ADVERT if id > 0 && len > 0 => Self::Advert(Advert {
                epoch: id,
                len,
                stag: Stag(stag),
                to: a,
                first: has(FIRST).then_some(b),
                waits_for_all: has(WAIT_ALL),
            }),
            FREE => Self::Free { read: a },
            REVOKE if id > 0 => Self::Revoke { epoch: id },
            SHUTDOWN => Self::Shutdown { end: a },
            ABORT => Self::Abort(Fault::from_code(id)?),
            _ => return None,
        };
        Some(body)
    }

    fn fields(&self) -> Fields {
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        match *self {
            Self::Credit => Fields { kind: CREDIT, ..Fields::default() },
            Self::Msg(Msg { id, len, source: Source::Inline }) => {
                Fields { kind: MSG, flags: INLINE, id, len, ..Fields::default() }
            }
            Self::Msg(Msg { id, len, source: Source::Memory { stag, to } }) => {
                Fields { kind: MSG, id, len, stag: stag.0, a: to, ..Fields::default() }
            }
            Self::Ack(Ack { id, extent }) => {
                let (flags, len, b) = match extent {
                    Extent::Full => (0, 0, 0),
                    Extent::Placed(len) => (EXACT, len, PLACED),
                    Extent::NotTaken => (EXACT, 0, NOT_TAKEN),
                };
                Fields { kind: ACK, flags, id, len, b, ..Fields::default() }
            }
            Self::Data(Data { position, len, is_inline, target }) => {
                let (flags, id) = match target {
                    Target::Advert { epoch, is_last } => (flag(LAST, is_last), epoch),
                    Target::Ring { holds } => (RING | flag(HOLD, holds), 0),
                };
                let flags = flags | flag(INLINE, is_inline);
                Fields { kind: DATA, flags, id, len, a: position, ..Fields::default() }
            }
            Self::Advert(Advert { epoch, len, stag, to, first, waits_for_all }) => Fields {
                kind: ADVERT,
                flags: flag(FIRST, first.is_some()) | flag(WAIT_ALL, waits_for_all),
                id: epoch,
                len,
                stag: stag.0,
                a: to,
                b: first.unwrap_or(0),
                ..Fields::default()
            },
            Self::Free { read } => Fields { kind: FREE, a: read, ..Fields::default() },
            Self::Revoke { epoch } => Fields { kind: REVOKE, id: epoch, ..Fields::default() },
            Self::Shutdown { end } => Fields { kind: SHUTDOWN, a: end, ..Fields::default() },
            Self::Abort(fault) => Fields { kind: ABORT, id: fault.code(), ..Fields::default() },
        }
    }
}

/// The fields of the first table.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    kind: u8,
    flags: u8,
    limit: u16,
    id: u32,
    len: u32,
    stag: u32,
    a: u64,
    b: u64,
}

impl Fields {
    fn read(header: &[u8; HEADER_LEN]) -> Option<Self> {
        let &[start, middle, a, b] = header.as_chunks::<8>().0 else { return None };
        let [kind, flags, limit @ .., i0, i1, i2, i3] = start;
        let [l0, l1, l2, l3, stag @ ..] = middle;
        Some(Self {
            kind,
            flags,
            limit: u16::from_be_bytes(limit),
            id: u32::from_be_bytes([i0, i1, i2, i3]),
            len: u32::from_be_bytes([l0, l1, l2, l3]),
            stag: u32::from_be_bytes(stag),
            a: u64::from_be_bytes(a),
            b: u64::from_be_bytes(b),
        })
    }

    fn write(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        let (l, i, n, s) = (
            self.limit.to_be_bytes(),
            self.id.to_be_bytes(),
            self.len.to_be_bytes(),
            self.stag.to_be_bytes(),
        );
        let start = [self.kind, self.flags, l[0], l[1], i[0], i[1], i[2], i[3]];
        let middle = [n[0], n[1], n[2], n[3], s[0], s[1], s[2], s[3]];
        let words = [start, middle, self.a.to_be_bytes(), self.b.to_be_bytes()];
        header.copy_from_slice(words.as_flattened());
        header
    }
}

/// Octets of a message without immediate data.
pub const HEADER_LEN: usize = 32;

// Types.
const CREDIT: u8 = 0x01;
const MSG: u8 = 0x10;
const ACK: u8 = 0x11;
const DATA: u8 = 0x20;
const ADVERT: u8 = 0x21;
const FREE: u8 = 0x22;
const REVOKE: u8 = 0x23;
const SHUTDOWN: u8 = 0x30;
const ABORT: u8 = 0x31;

/// A flag of MSG and DATA.
const INLINE: u8 = 0x01;
/// A flag of ACK.
const EXACT: u8 = 0x01;
// Flags of DATA.
const RING: u8 = 0x02;
const LAST: u8 = 0x04;
const HOLD: u8 = 0x08;
// Flags of ADVERT.
const FIRST: u8 = 0x01;
const WAIT_ALL: u8 = 0x02;
// What b of an exact ACK says.
const PLACED: u64 = 0;
const NOT_TAKEN: u64 = 1;

#[cfg(test)]
mod tests;
