//! The RDMAP control octet.

use core::fmt;

use weft_ddp::{Header, Queue};

use crate::Error;

/// Declares the opcodes: number, name, the form of the message, and the RFC that defines the opcode.
macro_rules! opcodes {
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$meaning:meta])* $opcode:ident = $number:literal, $text:literal, $form:expr, $rfc:literal;)*
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

            /// Returns the form of the message.
            #[inline]
            $vis const fn form(self) -> Form {
                match self {
                    $(Self::$opcode => $form,)*
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
        Write = 0x0, "write", Form::Write, 5040;
        /// RDMA Read Request.
        ReadRequest = 0x1, "read-request", Form::ReadRequest, 5040;
        /// RDMA Read Response.
        ReadResponse = 0x2, "read-response", Form::ReadResponse, 5040;
        /// Send.
        Send = 0x3, "send", Form::Send { solicited: false, invalidates: false }, 5040;
        /// Send with Invalidate.
        SendInvalidate = 0x4, "send-inv", Form::Send { solicited: false, invalidates: true }, 5040;
        /// Send with Solicited Event.
        SendSolicited = 0x5, "send-se", Form::Send { solicited: true, invalidates: false }, 5040;
        /// Send with Solicited Event and Invalidate.
        SendSolicitedInvalidate = 0x6, "send-se-inv", Form::Send { solicited: true, invalidates: true }, 5040;
        /// Terminate.
        Terminate = 0x7, "terminate", Form::Terminate, 5040;
        /// Immediate Data.
        Immediate = 0x8, "immediate", Form::Immediate { solicited: false }, 7306;
        /// Immediate Data with Solicited Event.
        ImmediateSolicited = 0x9, "immediate-se", Form::Immediate { solicited: true }, 7306;
        /// Atomic Request.
        AtomicRequest = 0xA, "atomic-request", Form::AtomicRequest, 7306;
        /// Atomic Response.
        AtomicResponse = 0xB, "atomic-response", Form::AtomicResponse, 7306;
    }
}

/// The layout of a message, and the way it goes. Opcodes of one form are taken and sent in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Octets for a tagged buffer.
    Write,
    /// The header of a Read Request.
    ReadRequest,
    /// The octets that a Read Request asked for.
    ReadResponse,
    /// Octets for a posted receive.
    Send {
        /// The sender asks for an event.
        solicited: bool,
        /// The header has a buffer to invalidate.
        invalidates: bool,
    },
    /// The header of a Terminate.
    Terminate,
    /// 8 octets for the completion of a posted receive.
    Immediate {
        /// The sender asks for an event.
        solicited: bool,
    },
    /// The header of an Atomic Request.
    AtomicRequest,
    /// The header of an Atomic Response.
    AtomicResponse,
}

impl Form {
    /// Returns the queue of an untagged message, or `None` for a tagged one.
    #[inline]
    pub const fn queue(self) -> Option<Queue> {
        match self {
            Self::Write | Self::ReadResponse => None,
            Self::Send { .. } | Self::Immediate { .. } => Some(Queue::Send),
            Self::ReadRequest | Self::AtomicRequest => Some(Queue::ReadRequest),
            Self::Terminate => Some(Queue::Terminate),
            Self::AtomicResponse => Some(Queue::AtomicResponse),
        }
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

    /// Returns the queue of an untagged message, or `None` for a tagged one.
    #[inline]
    pub const fn queue(self) -> Option<Queue> {
        self.form().queue()
    }

    /// Returns true if messages of this kind go to tagged buffers.
    #[inline]
    pub const fn is_tagged(self) -> bool {
        self.queue().is_none()
    }

    /// Returns true for a Send of any kind.
    pub const fn is_send(self) -> bool {
        matches!(self.form(), Form::Send { .. })
    }

    /// Returns true if the sender asks for an event.
    pub const fn is_solicited(self) -> bool {
        matches!(self.form(), Form::Send { solicited: true, .. } | Form::Immediate { solicited: true })
    }

    /// Returns true for a message that the peer answers. Until then it takes one place of the peer's IRD.
    pub const fn is_request(self) -> bool {
        matches!(self.form(), Form::ReadRequest | Form::AtomicRequest)
    }

    /// Returns true for the answer to a request.
    pub const fn is_response(self) -> bool {
        matches!(self.form(), Form::ReadResponse | Form::AtomicResponse)
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
