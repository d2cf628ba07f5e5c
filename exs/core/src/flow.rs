//! What a socket carries.

use crate::hello::Kind;
use crate::pull::Pull;
use crate::stream::Stream;
use crate::terms::Terms;

/// What a socket carries: messages or a stream. Both have the same calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "a session has one, and it does not move")]
pub(crate) enum Flow {
    Messages(Pull),
    Stream(Stream),
}

impl Flow {
    pub(crate) fn new(terms: &Terms) -> Self {
        match terms.kind {
            Kind::Message => Self::Messages(Pull::new(terms)),
            Kind::Stream => Self::Stream(Stream::new(terms)),
        }
    }
}

/// Calls what both kinds have.
macro_rules! each {
    ($flow:expr, $one:ident => $call:expr) => {
        match $flow {
            $crate::flow::Flow::Messages($one) => $call,
            $crate::flow::Flow::Stream($one) => $call,
        }
    };
}

pub(crate) use each;
