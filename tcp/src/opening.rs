//! How a connection begins: what the SYNs agree on, and the passive side before there is a connection.

mod cookie;
mod handshake;
mod isn;
mod listen;

pub use cookie::SynCookies;
pub(crate) use handshake::{Agreement, TIMESTAMPS_LEN, has_ecn, offer};
pub use isn::{Secret, Tuple};
pub use listen::{HalfOpen, Listened, Opening, listen};
pub(crate) use listen::{first_window, syn_timeout};
