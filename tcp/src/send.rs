//! The sender: records of what is in flight, loss, timers, and what may go next.

mod terms;

pub use terms::{Acked, Acknowledgement, Agreed, Control, Frame, Reason, SendConfig, Transmit, Unsent};
