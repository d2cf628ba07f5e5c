//! Asynchronous events for the program.

use core::mem::offset_of;
use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::AsyncEvent;

use crate::abi;
use crate::context::Context;
use crate::process::Process;

/// The contexts that get an event.
#[derive(Debug)]
enum Owner {
    Context(Arc<Context>),
    /// All contexts, for an event of the device.
    All,
}

/// An event for C. It counts as delivered until it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    /// The address of the object, or the number of the port.
    pub(crate) element: usize,
    pub(crate) kind: u32,
}

impl Process {
    /// Blocks until the next asynchronous event of a context.
    ///
    /// # Errors
    /// `EINVAL` for an unknown context, `EAGAIN` if the program does not want to wait, `EINTR` after a signal.
    pub(crate) fn next_async_event(&self, context: usize) -> Result<Delivered, Errno> {
        let context = self.contexts.get(context)?;
        loop {
            if let Some(event) = self.take_async_event(&context) {
                return Ok(event);
            }
            context.wait()?;
        }
    }

    fn take_async_event(&self, context: &Context) -> Option<Delivered> {
        loop {
            if let Some(event) = context.take_handed() {
                // An event of an object that was destroyed meanwhile is dropped.
                if let Some(delivered) = Delivered::of(self, event) {
                    return Some(delivered);
                }
                continue;
            }
            let event = context.take_of_device()?;
            match Owner::of(self, event) {
                Some(Owner::Context(owner)) => owner.hand(event),
                Some(Owner::All) => self.contexts.all().iter().for_each(|context| context.hand(event)),
                None => {}
            }
        }
    }
}

impl Owner {
    /// Returns None if the object is destroyed.
    fn of(process: &Process, event: AsyncEvent) -> Option<Self> {
        let context = match event {
            AsyncEvent::CqError { cq } => Arc::clone(process.cq_ids.get(cq).ok()?.context()),
            AsyncEvent::SrqLimitReached { srq } | AsyncEvent::SrqError { srq } => {
                Arc::clone(process.srq_ids.get(srq).ok()?.context())
            }
            AsyncEvent::QpFatal { qp_num }
            | AsyncEvent::QpRequestError { qp_num }
            | AsyncEvent::QpAccessError { qp_num }
            | AsyncEvent::CommEstablished { qp_num }
            | AsyncEvent::SqDrained { qp_num }
            | AsyncEvent::LastWqeReached { qp_num } => {
                Arc::clone(process.qp_numbers.get(qp_num).ok()?.context())
            }
            AsyncEvent::DeviceFatal | AsyncEvent::PortActive | AsyncEvent::PortError => {
                return Some(Self::All);
            }
        };
        Some(Self::Context(context))
    }
}

impl Delivered {
    /// Counts the event as delivered. Returns None if the object is destroyed.
    fn of(process: &Process, event: AsyncEvent) -> Option<Self> {
        let qp = |qp_num, kind| {
            let qp = process.qp_numbers.get(qp_num).ok()?;
            qp.events.deliver();
            Some(Self { element: qp.handle().addr(), kind })
        };
        let srq = |id, kind| {
            let srq = process.srq_ids.get(id).ok()?;
            srq.events.deliver();
            Some(Self { element: srq.handle().addr(), kind })
        };
        match event {
            AsyncEvent::CqError { cq } => {
                let cq = process.cq_ids.get(cq).ok()?;
                cq.events.deliver();
                Some(Self { element: cq.handle().addr(), kind: abi::EVENT_CQ_ERR })
            }
            AsyncEvent::QpFatal { qp_num } => qp(qp_num, abi::EVENT_QP_FATAL),
            AsyncEvent::QpRequestError { qp_num } => qp(qp_num, abi::EVENT_QP_REQ_ERR),
            AsyncEvent::QpAccessError { qp_num } => qp(qp_num, abi::EVENT_QP_ACCESS_ERR),
            AsyncEvent::CommEstablished { qp_num } => qp(qp_num, abi::EVENT_COMM_EST),
            AsyncEvent::SqDrained { qp_num } => qp(qp_num, abi::EVENT_SQ_DRAINED),
            AsyncEvent::LastWqeReached { qp_num } => qp(qp_num, abi::EVENT_QP_LAST_WQE_REACHED),
            AsyncEvent::SrqLimitReached { srq: id } => srq(id, abi::EVENT_SRQ_LIMIT_REACHED),
            AsyncEvent::SrqError { srq: id } => srq(id, abi::EVENT_SRQ_ERR),
            AsyncEvent::DeviceFatal => Some(Self { element: 0, kind: abi::EVENT_DEVICE_FATAL }),
            AsyncEvent::PortActive => Some(Self { element: PORT, kind: abi::EVENT_PORT_ACTIVE }),
            AsyncEvent::PortError => Some(Self { element: PORT, kind: abi::EVENT_PORT_ERR }),
        }
    }

    /// Acknowledges an event with these fields. Does nothing if they name no object.
    pub(crate) fn acknowledge(self, process: &Process) {
        match self.kind {
            abi::EVENT_CQ_ERR => {
                if let Ok(cq) = process.cqs.get(self.element) {
                    cq.events.acknowledge(1);
                }
            }
            abi::EVENT_SRQ_ERR | abi::EVENT_SRQ_LIMIT_REACHED => {
                if let Ok(srq) = process.srqs.get(self.element) {
                    srq.events.acknowledge(1);
                }
            }
            abi::EVENT_QP_FATAL..=abi::EVENT_SQ_DRAINED | abi::EVENT_QP_LAST_WQE_REACHED => {
                if let Ok(qp) = process.qps.get(self.element) {
                    qp.events.acknowledge(1);
                }
            }
            _ => {}
        }
    }
}

const PORT: usize = 1;
/// The union of `struct ibv_async_event` is at its start. A port's number lies in the first octets of a pointer.
const _: () = assert!(offset_of!(abi::AsyncEvent, element) == 0 && cfg!(target_endian = "little"));
