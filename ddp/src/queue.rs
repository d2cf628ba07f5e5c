//! The untagged queues that RDMAP uses.

/// Queue numbers for untagged messages (RFC 5040 section 3.1, RFC 7306 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Queue {
    /// Send messages of all kinds and Immediate Data; the buffers are the posted receives.
    Send = 0,
    /// Read Requests and Atomic Requests; the buffers are the responder's IRD.
    ReadRequest = 1,
    /// The one Terminate of a stream.
    Terminate = 2,
    /// Atomic Responses.
    AtomicResponse = 3,
}

/// The largest number of queues.
pub(crate) const QUEUES: usize = 4;
