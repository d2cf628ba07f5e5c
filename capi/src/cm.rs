//! The objects behind librdmacm's functions.

mod channel;
mod event;
mod id;
mod request;

pub(crate) use channel::EventChannel;
pub(crate) use event::CmEvent;
pub(crate) use id::{Id, Template};
pub(crate) use request::{connect_param, socket_address, storage};
