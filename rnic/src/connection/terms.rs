//! What the application wants of a connection that it asks for or accepts.

use std::sync::Arc;

use crate::events::channel::Channel;
use crate::events::connection::Notice;

/// What startup reads of [`crate::ConnParam`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) private_data: &'a [u8],
    pub(crate) ird: Option<u16>,
    pub(crate) ord: Option<u16>,
    pub(crate) peer_to_peer: Option<bool>,
    /// What the application calls the connection in events.
    pub(crate) cookie: u64,
    /// Where its events go; where they go already if not given.
    pub(crate) events: Option<&'a Arc<Channel<Notice>>>,
}
