//! The RDMAP control octet.

use core::fmt;

use weft_ddp::{Header, Queue};

use crate::Error;

/// Declares the opcodes: number, name, the queue of an untagged message, and the RFC that defines the opcode.
macro_rules! opcodes {
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$meaning:meta])* $opcode:ident = $number:literal, $text:literal, $queue:expr, $rfc:literal;)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        $vis enum $name {
            $($(#[$meaning])* $opcode = $number,)*
        }

        impl $name {
            /// All opcodes, in the order of their numbers.
            $vis const ALL: &'static [Self] = &[$(Self::$opcode),*];

            /// Returns a short name in lower case, such as `send-se-inv`.
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$opcode => $text,)*
                }
            }

            /// Returns the queue of an untagged message, or `None` for a tagged one.
            #[inline]
            $vis const fn queue(self) -> Option<Queue> {
                match self {
                    $(Self::$opcode => $queue,)*
                }
            }

            const fn rfc(self) -> u16 {
                match self {
                    $(Self::$opcode => $rfc,)*
                }
            }

            #[inline]
            const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$opcode),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    /// The kind of an RDMA message (RFC 5040 section 4.1, RFC 7306 section 3).
    pub enum Opcode {
        /// RDMA Write.
        Write = 0x0, "write", None, 5040;
        /// RDMA Read Request.
        ReadRequest = 0x1, "read-request", Some(Queue::ReadRequest), 5040;
        /// RDMA Read Response.
        ReadResponse = 0x2, "read-response", None, 5040;
        /// Send.
        Send = 0x3, "send", Some(Queue::Send), 5040;
        /// Send with Invalidate.
        SendInvalidate = 0x4, "send-inv", Some(Queue::Send), 5040;
        /// Send with Solicited Event.
        SendSolicited = 0x5, "send-se", Some(Queue::Send), 5040;
        /// Send with Solicited Event and Invalidate.
        SendSolicitedInvalidate = 0x6, "send-se-inv", Some(Queue::Send), 5040;
        /// Terminate.
        Terminate = 0x7, "terminate", Some(Queue::Terminate), 5040;
        /// Immediate Data.
        Immediate = 0x8, "immediate", Some(Queue::Send), 7306;
        /// Immediate Data with Solicited Event.
        ImmediateSolicited = 0x9, "immediate-se", Some(Queue::Send), 7306;
        /// Atomic Request.
        AtomicRequest = 0xA, "atomic-request", Some(Queue::ReadRequest), 7306;
        /// Atomic Response.
        AtomicResponse = 0xB, "atomic-response", Some(Queue::AtomicResponse), 7306;
    }
}

impl Opcode {
    /// Reads the control octet. Returns the opcode for version 1 and a known opcode, else the error to report.
    /// Ignores the reserved bits between them.
    #[inline]
    pub fn parse(control: u8) -> Result<Self, Error> {
        if control & VERSION_MASK != VERSION {
            return Err(Error::InvalidVersion);
        }
        Self::from_number(control & OPCODE_MASK).ok_or(Error::UnexpectedOpcode)
    }

    /// Returns the opcode of a segment. The segment must be of the opcode's kind and on its queue.
    #[inline]
    pub fn of(header: &Header) -> Result<Self, Error> {
        let opcode = Self::parse(header.control())?;
        let fits = match *header {
            Header::Tagged { .. } => opcode.is_tagged(),
            Header::Untagged { queue, .. } => opcode.queue().is_some_and(|own| own as u32 == queue),
        };
        if fits { Ok(opcode) } else { Err(Error::UnexpectedOpcode) }
    }

    /// Returns `None` unless the segment is the whole of a Send without Invalidate. Else returns whether the Send
    /// asks for an event. The only other fact about such a segment is the place of its payload.
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

    /// Returns the control octet to send: version 1 and this opcode.
    pub const fn control(self) -> u8 {
        VERSION | self as u8
    }

    /// Returns true if messages of this kind go to tagged buffers.
    #[inline]
    pub const fn is_tagged(self) -> bool {
        self.queue().is_none()
    }

    /// Returns true for a Send of any kind.
    pub const fn is_send(self) -> bool {
        match self {
            Self::Send | Self::SendInvalidate | Self::SendSolicited | Self::SendSolicitedInvalidate => true,
            Self::Write
            | Self::ReadRequest
            | Self::ReadResponse
            | Self::Terminate
            | Self::Immediate
            | Self::ImmediateSolicited
            | Self::AtomicRequest
            | Self::AtomicResponse => false,
        }
    }

    /// Returns true for a message that the peer answers. Until then it takes one place of the peer's IRD.
    pub const fn is_request(self) -> bool {
        matches!(self.queue(), Some(Queue::ReadRequest))
    }

    /// Returns true for the answer to a request.
    pub const fn is_response(self) -> bool {
        match self {
            Self::ReadResponse | Self::AtomicResponse => true,
            Self::Write
            | Self::ReadRequest
            | Self::Send
            | Self::SendInvalidate
            | Self::SendSolicited
            | Self::SendSolicitedInvalidate
            | Self::Terminate
            | Self::Immediate
            | Self::ImmediateSolicited
            | Self::AtomicRequest => false,
        }
    }

    /// Returns true for the opcodes that RFC 7306 adds to those of RFC 5040.
    pub const fn is_extension(self) -> bool {
        self.rfc() == 7306
    }
}

/// Writes the [`Opcode::name`].
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

const SEND_QUEUE: u32 = Queue::Send as u32;
const VERSION_MASK: u8 = 0xC0;
const VERSION: u8 = 0x40;
const OPCODE_MASK: u8 = 0x0F;
