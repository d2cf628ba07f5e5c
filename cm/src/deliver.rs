//! From a notice of a device to an event of an id.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use weft_rnic::{CmEvent, ConnectFailure, ConnectRequest, DisconnectReason, News, Notice};

use crate::bind::STATUS_SHIFT;
use crate::core::{Acknowledgement, Cause, Core, Event, Manager, Shared};
use crate::kind::EventKind;
use crate::param::EventParam;
use crate::state::{Op, State};

/// What an event says, before its id is known.
struct Told {
    kind: EventKind,
    status: Option<Errno>,
    param: EventParam,
    cause: Cause,
}

impl Manager {
    /// Returns the event that a notice makes, and the next state of its id; none for an id that is destroyed.
    pub(crate) fn deliver(self: &Arc<Self>, notice: Notice) -> Option<Event> {
        let shared = self.find(notice.id)?;
        if let News::Event(CmEvent::ConnectRequest(request)) = notice.news {
            return self.deliver_request(&shared, notice.id, request);
        }
        if let News::Event(CmEvent::ConnectError { reason: ConnectFailure::Refused, .. }) = &notice.news
            && shared.begin_again()
        {
            return None;
        }
        let told = match notice.news {
            News::Event(event) => tell(event)?,
            News::Posted(code) => tell_posted(code)?,
        };
        let mut core = shared.lock();
        // An end is reported once, even if both the device and the id have posted it.
        if core.is_destroyed || told.kind == EventKind::Disconnected && core.state == State::Over {
            return None;
        }
        if let Some(next) = core.state.after(op_of(told.kind)) {
            core.state = next;
        }
        drop(core);
        Some(shared.event(told))
    }

    /// Makes an id for a connect request. If the listener is destroyed meanwhile, the request has no id, and ends when
    /// the device's time limit for an answer has passed.
    fn deliver_request(
        self: &Arc<Self>,
        listener: &Arc<Shared>,
        cookie: u64,
        request: ConnectRequest,
    ) -> Option<Event> {
        let core = listener.lock();
        let device = core.ends.iter().find(|end| end.cookie == cookie).map(|end| end.device.clone())?;
        let most = device.max_reads();
        let param = EventParam {
            private_data: request.private_data,
            responder_resources: request.ord.unwrap_or(most),
            initiator_depth: request.ird.unwrap_or(most),
            qp_num: 0,
        };
        let child = Core {
            state: State::Requested,
            device: Some(device),
            local: Some(request.local),
            peer: Some(request.peer),
            request: Some(request.id),
            ..Core::new(Arc::clone(&core.channel), core.is_synchronous)
        };
        drop(core);
        let child = self.enter(child, listener.context.load(Ordering::Relaxed));
        let told = Told { kind: EventKind::ConnectRequest, status: None, param, cause: Cause::None };
        let event = listener.event(told);
        Some(Event { id: child.number(), listener: Some(listener.number), child: Some(child), ..event })
    }
}

impl Shared {
    /// Returns an event of this id, which has to be acknowledged.
    fn event(self: &Arc<Self>, told: Told) -> Event {
        *crate::manager::lock(&self.unacknowledged) += 1;
        Event {
            kind: told.kind,
            status: told.status,
            param: told.param,
            cause: told.cause,
            id: self.number,
            context: self.context.load(Ordering::Relaxed),
            listener: None,
            child: None,
            acknowledgement: Some(Acknowledgement(Arc::clone(self))),
        }
    }
}

fn tell(event: CmEvent) -> Option<Told> {
    let told = |kind, status, param, cause| Some(Told { kind, status, param, cause });
    match event {
        CmEvent::Established { qp_num, private_data, ird, ord, .. } => {
            let param = EventParam { private_data, responder_resources: ird, initiator_depth: ord, qp_num };
            told(EventKind::Established, None, param, Cause::None)
        }
        CmEvent::Rejected { qp_num, private_data, peer_depths } => {
            // The peer would agree to this: it holds as many as its IRD, and wants as many as its ORD.
            let (initiator_depth, responder_resources) = peer_depths.unwrap_or_default();
            let param = EventParam { private_data, responder_resources, initiator_depth, qp_num };
            told(EventKind::Rejected, Some(Errno::CONNREFUSED), param, Cause::None)
        }
        CmEvent::ConnectError { qp_num, reason } => {
            let (kind, status) = failure(&reason);
            let param = EventParam { qp_num, ..EventParam::default() };
            told(kind, Some(status), param, Cause::Failure(reason))
        }
        CmEvent::Disconnected { qp_num, reason } => {
            let status = match reason {
                DisconnectReason::Local | DisconnectReason::Peer => None,
                _ => Some(Errno::CONNRESET),
            };
            let param = EventParam { qp_num, ..EventParam::default() };
            told(EventKind::Disconnected, status, param, Cause::End(reason))
        }
        // Requests are dealt with elsewhere, and no id has a connection in streaming mode.
        CmEvent::ConnectRequest(_)
        | CmEvent::StreamRequest(_)
        | CmEvent::StreamReady { .. }
        | CmEvent::StreamFailed { .. } => None,
    }
}

/// Returns the event and the status by which the kernel's connection manager reports a failure of an iWARP device.
const fn failure(reason: &ConnectFailure) -> (EventKind, Errno) {
    match reason {
        ConnectFailure::Refused => (EventKind::Rejected, Errno::CONNREFUSED),
        ConnectFailure::Closed => (EventKind::Rejected, Errno::CONNRESET),
        ConnectFailure::Unreachable | ConnectFailure::TimedOut => (EventKind::Unreachable, Errno::TIMEDOUT),
        ConnectFailure::Protocol(_) => (EventKind::ConnectError, Errno::PROTO),
    }
}

fn tell_posted(code: u32) -> Option<Told> {
    let kind = EventKind::of_posted(code & ((1 << STATUS_SHIFT) - 1))?;
    let errno = i32::try_from(code >> STATUS_SHIFT).ok().filter(|&errno| errno > 0);
    let status = errno.map(Errno::from_raw_os_error);
    Some(Told { kind, status, param: EventParam::default(), cause: Cause::None })
}

const fn op_of(kind: EventKind) -> Op {
    match kind {
        EventKind::AddrResolved | EventKind::RouteResolved => Op::Resolved,
        EventKind::AddrError | EventKind::RouteError => Op::Unresolved,
        EventKind::Established => Op::Established,
        EventKind::Disconnected => Op::Disconnected,
        EventKind::DeviceRemoval => Op::Removal,
        EventKind::ConnectRequest
        | EventKind::ConnectResponse
        | EventKind::ConnectError
        | EventKind::Unreachable
        | EventKind::Rejected
        | EventKind::TimewaitExit => Op::Failed,
    }
}
