//! Strict mode: a bad address of a call is told as the kernel tells it, and is no fault of the program.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::calls;

/// Begins strict mode, for this process and those that it forks.
pub(crate) fn begin() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// True in strict mode.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// True if a hook may read so many values at an address of the program's. Out of strict mode the program guarantees that.
#[inline]
pub(crate) fn is_readable<T>(start: *const T, count: usize) -> bool {
    !is_on() || is_mapped(start.addr(), count.saturating_mul(size_of::<T>()))
}

#[cold]
fn is_mapped(start: usize, len: usize) -> bool {
    let Some(end) = start.checked_add(len) else { return false };
    let pages = (start..end).step_by(PAGE);
    pages.chain((len > 0).then(|| end - 1)).all(calls::can_read)
}

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Octets of a page, or fewer.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_tried_page_by_page() {
        let values = [0_u64; 2000];
        assert!(is_mapped(values.as_ptr().addr(), size_of_val(&values)));
        assert!(is_mapped(8, 0) && !is_mapped(8, 1) && !is_mapped(usize::MAX, 2));
        let area = crate::real::reserve(2 * PAGE / 8).expect("memory");
        crate::real::unshare(&area[PAGE / 8..]);
        let start = area.as_ptr().addr();
        assert!(is_mapped(start, PAGE) && !is_mapped(start, PAGE + 1) && !is_mapped(start + PAGE - 1, 2));
    }
}
