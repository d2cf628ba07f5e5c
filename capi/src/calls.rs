//! What calls of C do with the names of this process.

mod endpoint;
pub(crate) mod event;
mod roce;
