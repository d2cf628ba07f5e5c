//! Events of connection management.

use core::ptr::null_mut;
use std::sync::Arc;

use weft_cm::{Event, EventKind, EventParam};

use super::channel::EventChannel;
use super::id::Id;
use crate::abi;
use crate::process::Process;
use crate::raw::Visible;

/// What `rdma_get_cm_event` answers. The event below is acknowledged when this goes.
#[derive(Debug)]
pub(crate) struct CmEvent {
    visible: Visible<abi::CmEvent>,
    /// Holds the private data that the struct points to.
    _event: Event,
}

impl CmEvent {
    /// The event as the program sees it; none of an id that is destroyed meanwhile. A connect request makes an id on `channel`.
    pub(crate) fn of(
        process: &Process,
        mut event: Event,
        channel: Option<&Arc<EventChannel>>,
    ) -> Option<Arc<Self>> {
        let listener = event.listen_id().map(|number| process.id_numbers.get(number)).transpose().ok()?;
        let id = match (event.take_id(), &listener) {
            (Some(new), Some(listener)) => Id::adopt(process, new, channel, listener),
            _ => process.id_numbers.get(event.id()).ok()?,
        };
        Some(Self::about(process, event, &id, listener.as_deref()))
    }

    /// An event of an id, and for a connect request of who listens.
    pub(crate) fn about(process: &Process, event: Event, id: &Id, listener: Option<&Id>) -> Arc<Self> {
        id.refresh(process);
        let param = event.param();
        let visible = Visible::new(abi::CmEvent {
            id: id.handle(),
            listen_id: listener.map_or(null_mut(), Id::handle),
            event: event.kind() as u32,
            status: event.status(),
            conn: conn_param(param, event.kind()),
            ud_rest: [0; 4],
        });
        let event = Arc::new(Self { visible, _event: event });
        process.cm_events.insert(event.handle().addr(), &event);
        event
    }

    pub(crate) const fn handle(&self) -> *mut abi::CmEvent {
        self.visible.as_ptr()
    }
}

/// What came with an event, as far as C's octets hold it.
fn conn_param(param: &EventParam, kind: EventKind) -> abi::ConnParam {
    let octet = |value: u16| u8::try_from(value).unwrap_or(u8::MAX);
    let data = &param.private_data;
    let is_request = kind == EventKind::ConnectRequest;
    abi::ConnParam {
        private_data: if data.is_empty() { core::ptr::null() } else { data.as_ptr().cast() },
        // C's programs can send no more either, a peer of another kind can.
        private_data_len: u8::try_from(data.len()).unwrap_or(u8::MAX),
        responder_resources: octet(param.responder_resources),
        initiator_depth: octet(param.initiator_depth),
        flow_control: 0,
        retry_count: 0,
        rnr_retry_count: 0,
        srq: 0,
        qp_num: if is_request { 0 } else { param.qp_num },
    }
}
