//! Names of protection domains and streams.

use core::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};

/// A protection domain: objects of different domains do not work together (RFC 5040 section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdId(pub u64);

/// Names the DDP Stream of one queue pair (RFC 5041 section 8.2). A number comes back with another queue pair; this does
/// not, so that memory bound to a stream is never another one's. Not zero, so that none is a number too, and is compared as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(NonZero<u64>);

impl StreamId {
    /// A name that nothing in this process has had before.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NonZero::<u64>::MIN.saturating_add(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}
