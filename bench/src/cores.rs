//! The cores on which programs and threads are kept.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread to the core with this index among those that the process may use. On a machine with one core,
/// and for an index that no core has, this changes nothing.
pub(crate) fn keep_to(index: usize) -> Result<(), Errno> {
    let all = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect();
    if let Some(&core) = cores.get(index).filter(|_| cores.len() > 1) {
        let mut own = CpuSet::new();
        own.set(core);
        sched_setaffinity(None, &own)?;
    }
    Ok(())
}
