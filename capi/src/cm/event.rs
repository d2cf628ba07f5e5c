//! Events of connection management.

use std::sync::Arc;

use weft_cm::{Event, EventKind, EventParam};

use crate::abi;
use crate::raw::Visible;

/// The object behind `rdma_get_cm_event`. Dropping it acknowledges the event below.
#[derive(Debug)]
pub(crate) struct CmEvent {
    visible: Visible<abi::CmEvent>,
    /// Holds the private data that the struct points to.
    _event: Event,
}

impl CmEvent {
    /// `id` is the id of the event; `listener` is the listening id of a connect request, else null.
    pub(crate) fn new(event: Event, id: *mut abi::CmId, listener: *mut abi::CmId) -> Arc<Self> {
        let param = event.param();
        let visible = Visible::new(abi::CmEvent {
            id,
            listen_id: listener,
            event: event.kind() as u32,
            status: event.status(),
            conn: conn_param(param, event.kind()),
            ud_rest: [0; 4],
        });
        Arc::new(Self { visible, _event: event })
    }

    pub(crate) const fn handle(&self) -> *mut abi::CmEvent {
        self.visible.as_ptr()
    }
}

/// Translates the parameters of an event, if C's fields have room for them.
fn conn_param(param: &EventParam, kind: EventKind) -> abi::ConnParam {
    let octet = |value: u16| u8::try_from(value).unwrap_or(u8::MAX);
    let data = &param.private_data;
    let is_request = kind == EventKind::ConnectRequest;
    abi::ConnParam {
        private_data: if data.is_empty() { core::ptr::null() } else { data.as_ptr().cast() },
        // C's programs cannot send more either. Another kind of peer can.
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
