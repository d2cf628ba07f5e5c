//! The data of managers, channels, ids and events, which refer to each other. Their methods stand in the files named
//! after them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use weft_rnic::{BoundPort, ConnectFailure, Device, DisconnectReason, EventQueue, Listener, Qp, RequestId};

use crate::kind::EventKind;
use crate::param::EventParam;
use crate::state::State;

/// What the handles of a [`crate::Cm`], its ids and its event channels share.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    pub(crate) devices: Mutex<Vec<Device>>,
    pub(crate) ids: Mutex<HashMap<u64, Weak<Shared>>>,
    pub(crate) last: AtomicU64,
    /// How often a refused connection is begun again, and after how long.
    pub(crate) repeats: Mutex<(u32, Duration)>,
}

/// An id's hold on a port of a device, and its listener there.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) device: Device,
    pub(crate) port: BoundPort,
    pub(crate) listener: Option<Listener>,
    /// The name of the listener in notices.
    pub(crate) cookie: u64,
}

/// What the handles of an event channel share.
#[derive(Debug)]
pub(crate) struct ChannelInner {
    pub(crate) queue: EventQueue,
    pub(crate) manager: Arc<Manager>,
    /// Held while an event is taken and its id goes to the next state, so that ids see their events in order.
    pub(crate) order: Mutex<()>,
}

/// A communication identifier, like a socket. Any thread may use it; dropping it destroys it, see [`Id::destroy`].
#[derive(Debug)]
pub struct Id {
    pub(crate) shared: Arc<Shared>,
}

/// What the handle and the events of an id share.
pub(crate) struct Shared {
    pub(crate) number: u64,
    pub(crate) context: AtomicU64,
    pub(crate) manager: Arc<Manager>,
    pub(crate) core: Mutex<Core>,
    /// Events that were taken and are not acknowledged.
    pub(crate) unacknowledged: Mutex<usize>,
    pub(crate) acknowledged: Condvar,
}

/// What changes in an id.
pub(crate) struct Core {
    pub(crate) state: State,
    pub(crate) channel: Arc<ChannelInner>,
    pub(crate) is_synchronous: bool,
    pub(crate) is_destroyed: bool,
    /// The ports that it has bound, one for each device, and the listeners there.
    pub(crate) ends: Vec<End>,
    pub(crate) device: Option<Device>,
    pub(crate) local: Option<SocketAddr>,
    /// On a device of all addresses: where a connection to the peer begins.
    pub(crate) source: Option<IpAddr>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) qp: Option<Arc<Qp>>,
    /// The connect request that it was made for, until it is answered.
    pub(crate) request: Option<RequestId>,
    /// The parameters of its connection attempt, as long as it may be repeated.
    pub(crate) attempt: Option<Attempt>,
    /// The event that the last synchronous call has ended with.
    pub(crate) last: Option<Event>,
}

/// What [`Id::connect`] was called with, and how often it may be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) private_data: Bytes,
    pub(crate) responder_resources: Option<u16>,
    pub(crate) initiator_depth: Option<u16>,
    pub(crate) peer_to_peer: Option<bool>,
    /// The own address as it was before the first attempt chose one.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) repeats: u32,
}

/// An event; dropping it acknowledges it.
#[derive(Debug)]
pub struct Event {
    pub(crate) kind: EventKind,
    pub(crate) status: Option<Errno>,
    pub(crate) param: EventParam,
    pub(crate) cause: Cause,
    pub(crate) id: u64,
    pub(crate) context: u64,
    pub(crate) listener: Option<u64>,
    pub(crate) child: Option<Id>,
    pub(crate) acknowledgement: Option<Acknowledgement>,
}

/// What the device has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cause {
    #[default]
    None,
    Failure(ConnectFailure),
    End(DisconnectReason),
}

/// Counts an event as acknowledged when it is dropped.
#[derive(Debug)]
pub(crate) struct Acknowledgement(pub(crate) Arc<Shared>);
