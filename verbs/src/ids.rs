//! Names of protection domains and streams.

use core::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};

/// A protection domain: objects of different domains do not work together (RFC 5040 section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdId(pub u64);

/// Names the DDP Stream of one queue pair (RFC 5041 section 8.2). The number of a queue pair is used again; this name
/// is not, so that memory bound to a stream never belongs to another one. It is not zero, so that `None` is compared as
/// a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(NonZero<u64>);

impl StreamId {
    /// Makes a name that nothing in this process has had before.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NonZero::<u64>::MIN.saturating_add(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}
