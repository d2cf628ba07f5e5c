//! The harness of the tests that span several crates.
//!
//! [`Pair`] is two devices on a memory wire and one virtual clock. [`Side`] is one of them with its objects.
//! [`RawPeer`] is a scripted peer of one device, which speaks octets and shares no code with the layers above TCP.
//! [`simulate`] draws whole worlds from seeds, and checks all their events.

pub mod catalogue;
pub mod command_line;
pub mod epochs;
pub mod exs;
pub mod fuzzing;
pub mod groups;
mod loopback;
mod pair;
mod peer;
mod relay;
pub mod simulate;
pub mod sockets;

pub use pair::{HOST, PORT, Pair, PairConfig, Side};
pub use peer::{PATIENCE, RawHost, RawPeer};
pub use weft_conform::octets::hex;
