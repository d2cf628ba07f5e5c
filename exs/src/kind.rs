//! What a socket carries, as a type.

use weft_exs_core::Kind as Carried;

/// What a socket carries: [`Messages`] or a [`Stream`].
pub trait Kind: sealed::Sealed {}

/// Messages: SOCK_SEQPACKET.
#[derive(Clone, Copy, Debug)]
pub enum Messages {}

/// A stream of octets: SOCK_STREAM.
#[derive(Clone, Copy, Debug)]
pub enum Stream {}

impl Kind for Messages {}
impl Kind for Stream {}

pub(crate) mod sealed {
    use super::Carried;

    /// What a type stands for. No other types are kinds.
    #[expect(unnameable_types, reason = "nobody is to name it")]
    pub trait Sealed: 'static {
        /// What the socket carries.
        const CARRIED: Carried;
    }

    impl Sealed for super::Messages {
        const CARRIED: Carried = Carried::Message;
    }

    impl Sealed for super::Stream {
        const CARRIED: Carried = Carried::Stream;
    }
}
