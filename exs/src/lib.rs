//! Extended Sockets (EXS): asynchronous sockets over RDMA, for messages and for streams.
//!
//! * A [`Context`] is a device with all sockets on it. [`Context::connect`] and [`Context::listen`] make sockets,
//!   [`Context::buffer`] and [`Context::memory`] memory for transfers, and [`Context::queue`] a queue of events.
//! * A [`Socket`] is for [`Messages`] or a [`Stream`]; a [`Listener`] accepts them. [`Options`] say how.
//! * Each call that may take long returns an [`Op`]: a future, or a value to wait for, or the source of an event of a
//!   [`Queue`]. A [`Buf`] goes in and comes back; a [`Memory`] is shared by several operations.
//! * `ByteStream` makes of a stream what tokio and futures-io expect. It is there with the feature `tokio` or
//!   `futures-io`, and so in documentation that is made with `--all-features`.
//!
//! The modules of this crate:
//!
//! ```text
//! context    one device, its sockets, and a thread
//! listener   sockets that peers open
//! socket     a connected socket: its calls
//! queue      events, for callers without futures
//! op         an operation under way: a future, or a value to wait for
//! service    serves the sockets of a context, and connects them
//! listening  a listener, as its context has it
//! endpoint   a socket, as its context has it: a link behind a lock
//! link       the session of a socket, and what carries it: the device, or TCP alone
//! objects    the queue pair, slots and ring of a socket
//! pending    the outcome of an operation, or whom to tell
//! agenda     when sockets have something to do: clock, timers, alarm
//! buf        registered memory that is the program's alone outside of operations
//! memory     registered memory that operations share, and the octets of an operation
//! in_place   octets of a message where they came
//! raw        memory of the caller's
//! stat       what `weft stat` shows of a context
//! file       files as octets of a stream
//! byte_stream  a stream as runtimes have them
//! window     the peer's way to the octets of an operation
//! options, kind, ready, waiting, error, errno
//! ```
//! The rules of the protocol are those of the crate `weft-exs-core`, which has no device. Octets move from the user's
//! memory to the user's memory: a message by the receiver's Read, or as immediate data if it is short.
//!
//! ```
//! use weft_exs::{Context, Messages, Options};
//! use weft_rnic::{Config, Ground};
//!
//! let local = [127, 0, 0, 1].into();
//! let (client, server) = (
//!     Context::open(Ground::Host, Config::host(local, 1))?,
//!     Context::open(Ground::Host, Config::host(local, 2))?,
//! );
//! let options = Options::default();
//! let listener = server.listen::<Messages>(std::net::SocketAddr::new(local, 0), &options)?;
//! let (accepting, connecting) = (listener.accept(), client.connect::<Messages>(listener.local_addr(), &options));
//! let (theirs, ours) = (accepting.wait()?, connecting.wait()?);
//!
//! let mut greeting = client.buffer(5)?;
//! greeting.copy_from_slice(b"hello");
//! let (receiving, sending) = (theirs.recv(server.buffer(64)?, ..), ours.send(greeting, ..));
//! let (received, buf) = receiving.wait();
//! assert_eq!(&buf[..received?.octets as usize], b"hello");
//! sending.wait().0?;
//! # Ok::<(), weft_exs::Error>(())
//! ```

mod agenda;
mod alarm;
mod buf;
#[cfg(any(feature = "tokio", feature = "futures-io"))]
mod byte_stream;
mod clock;
mod context;
mod endpoint;
mod errno;
mod error;
mod file;
mod in_place;
mod kind;
mod link;
mod listener;
mod listening;
mod memory;
mod objects;
mod op;
mod options;
mod pending;
mod queue;
mod raw;
mod ready;
mod service;
mod socket;
mod stat;
mod timers;
mod waiting;
mod window;

pub use buf::Buf;
#[cfg(any(feature = "tokio", feature = "futures-io"))]
pub use byte_stream::ByteStream;
pub use context::Context;
pub use error::Error;
pub use file::SendFile;
pub use in_place::{InPlace, Received};
pub use kind::{Kind, Messages, Stream};
pub use listener::Listener;
pub use memory::{Memory, Octets};
pub use op::{Canceler, Op};
pub use options::{Options, Plain};
pub use queue::{Place, Queue};
pub use ready::Ready;
pub use socket::Socket;
pub use stat::{Watcher, stat_section};
pub use waiting::Waiting;
pub use weft_exs_core::{ByWay, Fault, Mode, Outcome, RejectCode, Stats};

/// The examples of the page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/exs.md")]
struct Page;
