//! Asynchronous events of objects, besides completions and connections, as `ibv_async_event` names them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_netif::Held;
use weft_verbs::QpNotice;

use crate::events::channel::{clear, semaphore, signal};
use crate::ids::{CqId, SrqId};

/// An event of an object of a device, or of the device itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsyncEvent {
    /// A completion queue has lost a completion; its queue pairs are brought down (`IBV_EVENT_CQ_ERR`).
    CqError {
        /// The completion queue.
        cq: CqId,
    },
    /// The stream of a queue pair ended by an error of this side, by the loss of TCP, or by a Terminate that names no
    /// request of this side (`IBV_EVENT_QP_FATAL`).
    QpFatal {
        /// The queue pair.
        qp_num: u32,
    },
    /// The peer broke a rule of MPA, DDP or RDMAP, or sent a message without a posted receive (`IBV_EVENT_QP_REQ_ERR`).
    QpRequestError {
        /// The queue pair.
        qp_num: u32,
    },
    /// The peer wanted to reach memory that it may not reach (`IBV_EVENT_QP_ACCESS_ERR`).
    QpAccessError {
        /// The queue pair.
        qp_num: u32,
    },
    /// The first message of the initiator has come to a responder, which may send from now on (`IBV_EVENT_COMM_EST`;
    /// RFC 5044 section 7.1.2). It may come before the application has seen [`crate::CmEvent::Established`].
    CommEstablished {
        /// The queue pair.
        qp_num: u32,
    },
    /// A queue pair that was asked to close has nothing left in its send queue (`IBV_EVENT_SQ_DRAINED`).
    SqDrained {
        /// The queue pair.
        qp_num: u32,
    },
    /// A queue pair takes no further request of its shared receive queue, and the last one that it took has completed
    /// (`IBV_EVENT_QP_LAST_WQE_REACHED`).
    LastWqeReached {
        /// The queue pair.
        qp_num: u32,
    },
    /// The driver thread has ended by a fault of its own: nothing moves any more but by [`crate::Device::poll`] and
    /// [`crate::Device::progress`] (`IBV_EVENT_DEVICE_FATAL`).
    DeviceFatal,
    /// The wire has a carrier: a station is at the other end. Only some wires tell (`IBV_EVENT_PORT_ACTIVE`).
    PortActive,
    /// The wire has lost its carrier (`IBV_EVENT_PORT_ERR`).
    PortError,
    /// Fewer requests are left in a shared receive queue than its limit says, which is 0 again
    /// (`IBV_EVENT_SRQ_LIMIT_REACHED`).
    SrqLimitReached {
        /// The shared receive queue.
        srq: SrqId,
    },
    /// An entry of a shared receive queue makes no sense (`IBV_EVENT_SRQ_ERR`).
    SrqError {
        /// The shared receive queue.
        srq: SrqId,
    },
}

/// The events that wait, behind a descriptor that is readable exactly while there are any.
#[derive(Debug)]
pub(crate) struct AsyncQueue {
    waiting: Mutex<Waiting>,
    fd: Held,
}

/// Events in their order, and the place of each.
#[derive(Debug, Default)]
struct Waiting {
    events: BTreeMap<u64, AsyncEvent>,
    places: HashMap<AsyncEvent, u64>,
    last: u64,
}

impl AsyncQueue {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { waiting: Mutex::default(), fd: semaphore()? }))
    }

    /// Queues an event, unless it waits already.
    pub(crate) fn push(&self, event: AsyncEvent) {
        let mut waiting = self.lock();
        if waiting.places.contains_key(&event) {
            return;
        }
        waiting.last += 1;
        let place = waiting.last;
        waiting.events.insert(place, event);
        waiting.places.insert(event, place);
        signal(self.fd.as_fd());
    }

    pub(crate) fn push_notice(&self, qp_num: u32, notice: QpNotice) {
        self.push(of_notice(qp_num, notice));
    }

    /// Queues the event of a carrier that has come or gone, and withdraws the opposite one, which is out of date.
    pub(crate) fn push_carrier(&self, is_up: bool) {
        let (event, opposite) = match is_up {
            true => (AsyncEvent::PortActive, AsyncEvent::PortError),
            false => (AsyncEvent::PortError, AsyncEvent::PortActive),
        };
        self.withdraw([opposite]);
        self.push(event);
    }

    /// Withdraws the events of a queue pair that is destroyed.
    pub(crate) fn withdraw_qp(&self, qp_num: u32) {
        self.withdraw(QpNotice::ALL.into_iter().map(|notice| of_notice(qp_num, notice)));
    }

    /// Withdraws the events of a completion queue that is destroyed.
    pub(crate) fn withdraw_cq(&self, cq: CqId) {
        self.withdraw([AsyncEvent::CqError { cq }]);
    }

    /// Withdraws the events of a shared receive queue that is destroyed.
    pub(crate) fn withdraw_srq(&self, srq: SrqId) {
        self.withdraw([AsyncEvent::SrqLimitReached { srq }, AsyncEvent::SrqError { srq }]);
    }

    /// Takes the oldest event.
    pub(crate) fn pop(&self) -> Option<AsyncEvent> {
        let mut waiting = self.lock();
        let (_, event) = waiting.events.pop_first()?;
        waiting.places.remove(&event);
        clear(self.fd.as_fd());
        Some(event)
    }

    fn withdraw(&self, events: impl IntoIterator<Item = AsyncEvent>) {
        let mut waiting = self.lock();
        if waiting.events.is_empty() {
            return;
        }
        for event in events {
            if let Some(place) = waiting.places.remove(&event) {
                waiting.events.remove(&place);
                clear(self.fd.as_fd());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for AsyncQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const fn of_notice(qp_num: u32, notice: QpNotice) -> AsyncEvent {
    match notice {
        QpNotice::Fatal => AsyncEvent::QpFatal { qp_num },
        QpNotice::RequestError => AsyncEvent::QpRequestError { qp_num },
        QpNotice::AccessError => AsyncEvent::QpAccessError { qp_num },
        QpNotice::CommEstablished => AsyncEvent::CommEstablished { qp_num },
        QpNotice::SqDrained => AsyncEvent::SqDrained { qp_num },
        QpNotice::LastWqeReached => AsyncEvent::LastWqeReached { qp_num },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn readable(queue: &AsyncQueue) -> bool {
        let mut fds = [PollFd::new(&queue.fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn readable_exactly_while_events_wait() {
        let queue = AsyncQueue::new().unwrap();
        let (first, second) = (AsyncEvent::QpFatal { qp_num: 2 }, AsyncEvent::QpFatal { qp_num: 3 });
        assert!(!readable(&queue));
        queue.push(second);
        queue.push(first);
        queue.push(second);
        assert_eq!((readable(&queue), queue.pop()), (true, Some(second)));
        queue.push(second);
        assert_eq!((readable(&queue), queue.pop()), (true, Some(first)));
        assert_eq!((readable(&queue), queue.pop()), (true, Some(second)), "it came anew");
        assert_eq!((readable(&queue), queue.pop()), (false, None));
    }

    #[test]
    fn the_last_word_about_the_carrier_counts() {
        let queue = AsyncQueue::new().unwrap();
        for is_up in [true, false, false, true] {
            queue.push_carrier(is_up);
        }
        assert_eq!([queue.pop(), queue.pop()], [Some(AsyncEvent::PortActive), None]);
    }

    #[test]
    fn what_is_destroyed_leaves_nothing_behind() {
        let queue = AsyncQueue::new().unwrap();
        for qp_num in [2, 3] {
            QpNotice::ALL.into_iter().for_each(|notice| queue.push_notice(qp_num, notice));
        }
        queue.push(AsyncEvent::CqError { cq: CqId(2) });
        queue.push(AsyncEvent::SrqLimitReached { srq: SrqId(2) });
        queue.push(AsyncEvent::SrqError { srq: SrqId(2) });
        queue.withdraw_qp(2);
        queue.withdraw_qp(2);
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(left.len(), QpNotice::ALL.len() + 3);
        assert!(!readable(&queue));
        queue.push(left[6]);
        queue.push(left[7]);
        queue.withdraw_srq(SrqId(2));
        assert!(readable(&queue));
        queue.withdraw_cq(CqId(2));
        assert!(!readable(&queue));
    }
}
