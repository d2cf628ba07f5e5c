//! rsocket: stream sockets over queue pairs, as librdmacm has them, and the same on the wire as its are on iWARP.
//!
//! Each end lends the other a buffer, in two halves. Data is written there (RDMA Write), and a Send of 4 octets says how much it
//! was ([`message`]). Which part may be written next stands in a table in the sender's memory, which the receiver writes; how many
//! messages may come is told as well. What both ends need for that goes along with the connect request and its answer
//! ([`hello`]). librdmacm tells both by Writes with immediate data where there are such; on iWARP it sends messages, as here.
//!
//! ```text
//!   message, hello, place      octets; pure
//!   inbound, outbound          what may be read and sent, by numbers; pure
//!   link, requests             one connection: queue pair, memory, completions; and what it posts
//!   socket                     calls and how they wait, on a state; with connect, transfer, mapping, options
//!   poll                       several sockets and other descriptors at a time
//! ```

mod connect;
mod done;
mod hello;
mod inbound;
mod link;
mod mapping;
mod mappings;
mod message;
mod options;
mod outbound;
mod place;
mod poll;
mod requests;
mod socket;
mod state;
mod transfer;

pub(crate) use options::Name;
pub(crate) use poll::{Polled, poll};
pub(crate) use socket::{How, Socket};
pub(crate) use transfer::Flags;
