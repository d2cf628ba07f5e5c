//! Extended Sockets (EXS): asynchronous sockets over RDMA, for messages and for streams.

mod agenda;
mod alarm;
mod buf;
mod clock;
mod endpoint;
mod error;
mod kind;
mod link;
mod listening;
mod objects;
mod options;
mod pending;
mod timers;

pub use buf::Buf;
pub use error::Error;
pub use kind::{Kind, Messages, Stream};
pub use options::Options;
pub use weft_exs_core::{Fault, Mode, Outcome, RejectCode};
