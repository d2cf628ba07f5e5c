//! What the engine tells the application: channels, events of connections, asynchronous events.

pub(crate) mod asynchronous;
pub(crate) mod channel;
pub(crate) mod connection;
