//! What users hold.

pub(crate) mod async_channel;
pub(crate) mod attributes;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod event_channel;
pub(crate) mod event_source;
pub(crate) mod listener;
pub(crate) mod lockstep;
pub(crate) mod mr;
pub(crate) mod mw;
pub(crate) mod pd;
pub(crate) mod qp;
pub(crate) mod resources;
pub(crate) mod shutdown;
pub(crate) mod srq;
pub(crate) mod streaming;
pub(crate) mod wait;
pub(crate) mod watcher;
