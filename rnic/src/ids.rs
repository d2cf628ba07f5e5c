//! Names of objects, and numbers of queue pairs.

/// Names a completion queue in the events of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CqId(pub(crate) u64);

/// Names a shared receive queue in asynchronous events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SrqId(pub(crate) u64);

/// Names an unanswered [`crate::ConnectRequest`]: the serial of the connection, and which request of it this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) u64, pub(crate) u32);

/// Names a connection that is or was in streaming mode; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamingId(pub(crate) u64);

impl CqId {
    /// The number by which a request names the queue. The registry gives out no more names than there are numbers.
    pub(crate) fn number(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

/// The number of the queue pair in `slot` of engine `engine`, if it can have one: a device with `engines` engines gives
/// each number to one queue pair only.
pub(crate) fn qp_number(slot: usize, engine: usize, engines: usize) -> Option<u32> {
    u32::try_from(slot * engines + engine).ok()?.checked_add(FIRST_QP_NUMBER)
}

/// The slot, in its engine, of the queue pair with this number.
pub(crate) const fn qp_slot(number: u32, engines: usize) -> usize {
    let place = number.saturating_sub(FIRST_QP_NUMBER) as usize;
    if engines > 1 { place / engines } else { place }
}

/// Queue pairs 0 and 1 mean something else to programs that know InfiniBand.
const FIRST_QP_NUMBER: u32 = 2;
