//! The RDMAP control octet.

use core::fmt;

use weft_ddp::{Header, Queue};

use crate::Error;

/// The kind of an RDMA message (RFC 5040 section 4.1, RFC 7306 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// RDMA Write.
    Write = 0x0,
    /// RDMA Read Request.
    ReadRequest = 0x1,
    /// RDMA Read Response.
    ReadResponse = 0x2,
    /// Send.
    Send = 0x3,
    /// Send with Invalidate.
    SendInvalidate = 0x4,
    /// Send with Solicited Event.
    SendSolicited = 0x5,
    /// Send with Solicited Event and Invalidate.
    SendSolicitedInvalidate = 0x6,
    /// Terminate.
    Terminate = 0x7,
    /// Immediate Data.
    Immediate = 0x8,
    /// Immediate Data with Solicited Event.
    ImmediateSolicited = 0x9,
    /// Atomic Request.
    AtomicRequest = 0xA,
    /// Atomic Response.
    AtomicResponse = 0xB,
}

impl Opcode {
    /// Reads the control octet: version 1 and a known opcode, or the error to report. The reserved bits between
    /// them are not looked at.
    #[inline]
    pub fn parse(control: u8) -> Result<Self, Error> {
        if control & VERSION_MASK != VERSION {
            return Err(Error::InvalidVersion);
        }
        Ok(match control & OPCODE_MASK {
            0x0 => Self::Write,
            0x1 => Self::ReadRequest,
            0x2 => Self::ReadResponse,
            0x3 => Self::Send,
            0x4 => Self::SendInvalidate,
            0x5 => Self::SendSolicited,
            0x6 => Self::SendSolicitedInvalidate,
            0x7 => Self::Terminate,
            0x8 => Self::Immediate,
            0x9 => Self::ImmediateSolicited,
            0xA => Self::AtomicRequest,
            0xB => Self::AtomicResponse,
            _ => return Err(Error::UnexpectedOpcode),
        })
    }

    /// The opcode of a segment, which must stand in the kind of segment and on the queue that belong to it.
    #[inline]
    pub fn of(header: &Header) -> Result<Self, Error> {
        let opcode = Self::parse(header.control())?;
        let fits = match *header {
            Header::Tagged { .. } => opcode.is_tagged(),
            Header::Untagged { queue, .. } => opcode.queue().is_some_and(|own| own as u32 == queue),
        };
        if fits { Ok(opcode) } else { Err(Error::UnexpectedOpcode) }
    }

    /// Whether a segment is the whole of a Send that invalidates nothing; if so, whether it asks for an event. Nothing more is to be
    /// known about such a segment than where its payload goes.
    #[inline]
    pub fn whole_send(header: &Header) -> Option<bool> {
        match *header {
            Header::Untagged { last: true, control, queue: SEND_QUEUE, mo: 0, .. } => {
                match Self::parse(control) {
                    Ok(Self::Send) => Some(false),
                    Ok(Self::SendSolicited) => Some(true),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The control octet to send: version 1 and this opcode.
    pub const fn control(self) -> u8 {
        VERSION | self as u8
    }

    /// True if messages of this kind go to tagged buffers.
    pub const fn is_tagged(self) -> bool {
        matches!(self, Self::Write | Self::ReadResponse)
    }

    /// True for a Send, with whatever it asks for besides.
    pub const fn is_send(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendInvalidate | Self::SendSolicited | Self::SendSolicitedInvalidate
        )
    }

    /// True for the opcodes that RFC 7306 adds to those of RFC 5040.
    pub const fn is_extension(self) -> bool {
        matches!(
            self,
            Self::Immediate | Self::ImmediateSolicited | Self::AtomicRequest | Self::AtomicResponse
        )
    }

    /// A short name in lower case, such as `send-se-inv`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::ReadRequest => "read-request",
            Self::ReadResponse => "read-response",
            Self::Send => "send",
            Self::SendInvalidate => "send-inv",
            Self::SendSolicited => "send-se",
            Self::SendSolicitedInvalidate => "send-se-inv",
            Self::Terminate => "terminate",
            Self::Immediate => "immediate",
            Self::ImmediateSolicited => "immediate-se",
            Self::AtomicRequest => "atomic-request",
            Self::AtomicResponse => "atomic-response",
        }
    }

    /// The queue of an untagged message; None for a tagged one.
    pub const fn queue(self) -> Option<Queue> {
        match self {
            Self::Write | Self::ReadResponse => None,
            Self::ReadRequest | Self::AtomicRequest => Some(Queue::ReadRequest),
            Self::Terminate => Some(Queue::Terminate),
            Self::AtomicResponse => Some(Queue::AtomicResponse),
            Self::Send
            | Self::SendInvalidate
            | Self::SendSolicited
            | Self::SendSolicitedInvalidate
            | Self::Immediate
            | Self::ImmediateSolicited => Some(Queue::Send),
        }
    }
}

/// The [`Opcode::name`].
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

const SEND_QUEUE: u32 = Queue::Send as u32;
const VERSION_MASK: u8 = 0xC0;
const VERSION: u8 = 0x40;
const OPCODE_MASK: u8 = 0x0F;
