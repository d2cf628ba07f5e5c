//! Memory windows.

use core::mem::offset_of;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use weft_rnic::{Access, Bind, MwBind, SendOpcode, Stag, WindowType};

use crate::abi;
use crate::errno::errno;
use crate::errno::refused;
use crate::mr::{Mr, access};
use crate::pd::Pd;
use crate::qp::Qp;
use crate::raw::Visible;

/// The object behind `ibv_alloc_mw`.
#[derive(Debug)]
pub(crate) struct Mw {
    visible: Visible<abi::Mw>,
    /// None after deallocation.
    mw: Mutex<Option<weft_rnic::Mw>>,
    /// The domain has to outlive the window.
    _pd: Arc<Pd>,
}

/// The fields of the request that binds a window of type 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags {
    pub(crate) wr_id: u64,
    pub(crate) send_flags: u32,
}

impl Mw {
    /// # Errors
    /// `EINVAL` for an unknown type, `ENOMEM` if there are too many windows.
    pub(crate) fn alloc(pd: &Arc<Pd>, kind: u32) -> Result<Arc<Self>, Errno> {
        let window = match kind {
            abi::MW_TYPE_1 => WindowType::Type1,
            abi::MW_TYPE_2 => WindowType::Type2B,
            _ => return Err(Errno::INVAL),
        };
        let mw = pd.pd.alloc_mw(window).map_err(|error| errno(error.errno()))?;
        let rkey = mw.rkey().0;
        let visible = Visible::new(abi::Mw {
            context: pd.context.handle(),
            pd: pd.handle(),
            rkey,
            handle: rkey >> 8,
            kind,
        });
        Ok(Arc::new(Self { visible, mw: Mutex::new(Some(mw)), _pd: Arc::clone(pd) }))
    }

    /// Deallocates the window, bound or not.
    pub(crate) fn dealloc(&self) {
        drop(self.lock().take());
    }

    /// Posts the request that binds a window of type 1, or unbinds it if there is no region. The window gets another
    /// rkey.
    ///
    /// # Errors
    /// `EINVAL` for a window of type 2, objects that do not go together and rights that a window cannot have; `ENOMEM`
    /// for a full queue.
    pub(crate) fn bind(
        &self,
        qp: &Qp,
        flags: Flags,
        info: &abi::MwBindInfo,
        region: Option<&Mr>,
    ) -> Result<(), Errno> {
        let window = self.lock();
        let window = window.as_ref().ok_or(Errno::INVAL)?;
        let access = window_access(info)?;
        let Flags { wr_id, send_flags } = flags;
        let [signaled, fence] = [abi::SEND_SIGNALED, abi::SEND_FENCE].map(|flag| send_flags & flag != 0);
        let post = |region: &weft_rnic::Mr| {
            let (addr, length) = (info.addr, info.length);
            let bind = MwBind { wr_id, region, addr, length, access, signaled, fence };
            qp.sender()?.bind_mw(window, &bind).map_err(refused)
        };
        let rkey = match region {
            None => qp.sender()?.unbind_mw(window, wr_id, signaled, fence).map_err(refused)?,
            Some(region) => region.with(post)??,
        };
        self.visible.set(offset_of!(abi::Mw, rkey), rkey.0);
        Ok(())
    }

    /// Returns the request that binds a window of type 2, with a key that the program has chosen.
    ///
    /// # Errors
    /// `EINVAL` for a window of type 1, an rkey of another window, a region that was deregistered, and rights that a
    /// window cannot have.
    pub(crate) fn binding(
        &self,
        rkey: u32,
        info: &abi::MwBindInfo,
        region: &Mr,
    ) -> Result<SendOpcode, Errno> {
        let window = self.lock();
        let window =
            window.as_ref().filter(|window| window.kind() == WindowType::Type2B).ok_or(Errno::INVAL)?;
        let key = rkey.to_le_bytes()[0];
        if window.stag(key) != Stag(rkey) {
            return Err(Errno::INVAL);
        }
        let access = window_access(info)?;
        let region = region.with(weft_rnic::Mr::rkey)?;
        let bind = Bind { window: Stag(rkey), region, addr: info.addr, length: info.length, access };
        Ok(SendOpcode::BindWindow(bind))
    }

    pub(crate) const fn handle(&self) -> *mut abi::Mw {
        self.visible.as_ptr()
    }

    fn lock(&self) -> MutexGuard<'_, Option<weft_rnic::Mw>> {
        self.mw.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A window gives rights to a peer only. Programs also name the local right of the region, and devices ignore that.
fn window_access(info: &abi::MwBindInfo) -> Result<Access, Errno> {
    access(info.mw_access_flags & !u32::from(Access::LOCAL_WRITE.bits()))
}
