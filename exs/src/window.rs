//! Memory windows: the peer's way to the octets of an operation, as long as it lasts.

use weft_rnic::{Access, Bind, Mw, Pd, Qp, RegisterError, SendOpcode, Stag, WindowType};

use crate::memory::Area;

/// A memory window of a socket. It serves one operation at a time.
#[derive(Debug)]
pub(crate) struct Window {
    window: Mw,
    /// The key that it gets next.
    key: u8,
}

impl Window {
    /// # Errors
    /// [`RegisterError`].
    pub(crate) fn new(pd: &Pd) -> Result<Self, RegisterError> {
        Ok(Self { window: pd.alloc_mw(WindowType::Type2B)?, key: 0 })
    }

    /// Returns the STag that the window gets when it is next bound.
    pub(crate) fn stag(&self) -> Stag {
        self.window.stag(self.key)
    }

    /// Returns the request that binds the window over octets of an area. Its tagged offsets are those of the memory.
    pub(crate) fn bind(&mut self, area: &Area, at: u32, len: u32, access: Access) -> SendOpcode {
        let window = self.stag();
        self.key = self.key.wrapping_add(1);
        let (addr, length) = (area.tagged_offset() + u64::from(at), len.into());
        SendOpcode::BindWindow(Bind { window, region: area.stag(), addr, length, access })
    }

    /// Takes the window out of use, at once.
    pub(crate) fn revoke(&self, qp: &Qp) {
        self.window.revoke(qp);
    }
}
