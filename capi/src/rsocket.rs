//! rsocket: stream sockets over queue pairs. On the wire they are librdmacm's on iWARP.
//!
//! Each end lends the other end a buffer, in two halves. An RDMA Write places data there, and a Send of 4 octets says
//! how much ([`message`]). A table in the sender's memory, which the receiver writes, says which part may be written
//! next. Credits bound the messages under way. The connect request and its answer carry the values that both ends
//! need for that ([`hello`]). librdmacm uses Writes with immediate data if a device has them. On iWARP it sends
//! messages, as here.
//!
//! ```text
//!   message, hello, place, done   octets and ids of requests; pure
//!   inbound, outbound             octets that may be read and sent, by numbers; pure
//!   link, requests, mappings      one connection: queue pair, memory, completions, requests
//!   state, socket                 calls and how they wait, on a state; with connect, transfer, mapping, options
//!   poll                          several sockets and other descriptors at a time
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
