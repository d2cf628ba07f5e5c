//! Extended Sockets for C: what stands behind `exs.h`. The sockets themselves are those of the crate `weft-exs`.
//!
//! ```text
//!   event      what has ended, for the program
//!   queue      events, and how a thread waits for them
//!   memory     registered memory of the program
//!   settings   the options of a socket by their numbers
//!   peer       a connected socket, or one that listens, of either type
//!   socket     a socket of the program: its phases, and what it starts
//!   ahead      what the calls of POSIX have sent and received ahead
//!   sync, poll these calls
//!   wait       how a thread waits: until it has what it wants, its time is over, or a signal comes
//!   tables     all of these by their names
//! ```

mod ahead;
mod event;
mod memory;
mod peer;
mod poll;
mod queue;
mod settings;
mod socket;
mod sync;
mod tables;
mod wait;

pub(crate) use event::{Detail, Event, Kind, Lent, Moved, Places};
pub(crate) use memory::Memory;
pub(crate) use peer::Peer;
pub(crate) use poll::{Polled, poll};
pub(crate) use queue::{Attribute, Queue};
pub(crate) use settings::Setting;
pub(crate) use socket::{Socket, Start, Type};
pub(crate) use sync::Receiving;
pub(crate) use tables::{SHORT, Tables};
