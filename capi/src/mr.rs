//! Memory regions.

use core::ffi::c_void;
use core::mem::offset_of;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use weft_rnic::{Access, Region, Reregistration};

use crate::abi;
use crate::errno::errno;
use crate::pd::Pd;
use crate::raw::Visible;

/// The object behind `ibv_reg_mr`.
#[derive(Debug)]
pub(crate) struct Mr {
    visible: Visible<abi::Mr>,
    state: Mutex<Registered>,
}

#[derive(Debug)]
struct Registered {
    /// None after deregistration.
    mr: Option<weft_rnic::Mr>,
    pd: Arc<Pd>,
}

/// The changes of a region, as in [`Reregistration`].
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) pd: Option<Arc<Pd>>,
    pub(crate) access: Option<Access>,
    pub(crate) region: Option<Region>,
    pub(crate) addr: *mut c_void,
}

impl Mr {
    /// # Errors
    /// `ENOMEM` if there is no STag left, `EINVAL` for rights that contradict each other and offsets that wrap.
    pub(crate) fn register(
        pd: &Arc<Pd>,
        region: Region,
        access: Access,
        iova: u64,
    ) -> Result<Arc<Self>, Errno> {
        let (addr, length) = (region.address(), region.len());
        let mr = pd.pd.register_at(region, access, iova).map_err(|error| errno(error.errno()))?;
        let visible = Visible::new(abi::Mr {
            context: pd.context.handle(),
            pd: pd.handle(),
            addr: core::ptr::without_provenance_mut(usize::try_from(addr).map_err(|_| Errno::INVAL)?),
            length,
            handle: mr.lkey().0 >> 8,
            lkey: mr.lkey().0,
            rkey: mr.rkey().0,
        });
        let state = Mutex::new(Registered { mr: Some(mr), pd: Arc::clone(pd) });
        Ok(Arc::new(Self { visible, state }))
    }

    /// # Errors
    /// Those of [`Self::register`]. Nothing has changed then.
    pub(crate) fn reregister(&self, change: Change) -> Result<(), Errno> {
        let mut state = self.lock();
        let Registered { mr, pd: own } = &mut *state;
        let mr = mr.as_mut().ok_or(Errno::INVAL)?;
        let length = change.region.as_ref().map(|region| region.len() as u64);
        let region = change.region.map(|region| {
            let iova = region.address();
            (region, iova)
        });
        let pd = change.pd.as_ref().map(|pd| &pd.pd);
        mr.reregister(Reregistration { pd, access: change.access, region })
            .map_err(|error| errno(error.errno()))?;
        if let Some(length) = length {
            self.visible.set(offset_of!(abi::Mr, addr), change.addr);
            self.visible.set(offset_of!(abi::Mr, length), length);
        }
        if let Some(pd) = change.pd {
            self.visible.set(offset_of!(abi::Mr, pd), pd.handle());
            *own = pd;
        }
        Ok(())
    }

    /// # Errors
    /// `EINVAL` if it is deregistered already, `EBUSY` while memory windows are bound to it.
    pub(crate) fn deregister(&self) -> Result<(), Errno> {
        let mut state = self.lock();
        let region = state.mr.take().ok_or(Errno::INVAL)?;
        if let Err((region, error)) = region.deregister() {
            state.mr = Some(region);
            return Err(errno(error.errno()));
        }
        Ok(())
    }

    /// Calls `act` with the region of the engine.
    ///
    /// # Errors
    /// `EINVAL` if it is deregistered.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&weft_rnic::Mr) -> R) -> Result<R, Errno> {
        self.lock().mr.as_ref().map(act).ok_or(Errno::INVAL)
    }

    pub(crate) const fn handle(&self) -> *mut abi::Mr {
        self.visible.as_ptr()
    }

    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Translates C's flags to rights.
///
/// # Errors
/// `EOPNOTSUPP` for paging on demand, `EINVAL` for unknown flags.
pub(crate) fn access(flags: u32) -> Result<Access, Errno> {
    let flags = flags & !abi::ACCESS_OPTIONAL_RANGE;
    if flags & !abi::ACCESS_KNOWN != 0 {
        return Err(Errno::INVAL);
    }
    if flags & abi::ACCESS_ON_DEMAND != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    // This flag says how memory is mapped. Copies do not depend on it.
    let rights = flags & !abi::ACCESS_HUGETLB;
    u8::try_from(rights).ok().and_then(Access::from_bits).ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_a_device_may_ignore_are_ignored() {
        assert_eq!(access(7 | 1 << 20 | abi::ACCESS_HUGETLB), Ok(Access::from_bits(7).unwrap()));
        assert_eq!(access(abi::ACCESS_ON_DEMAND), Err(Errno::OPNOTSUPP));
        assert_eq!(access(1 << 8), Err(Errno::INVAL));
        assert_eq!(access(1 << 30), Err(Errno::INVAL));
    }
}
