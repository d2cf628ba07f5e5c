//! Protection domains.

use std::sync::Arc;

use weft_verbs::{PdId, RegisterError};

use crate::engine::registry::PdEntry;
use crate::objects::device::Device;

/// A protection domain. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Pd {
    pub(crate) id: PdId,
    pub(crate) device: Device,
    pub(crate) entry: Arc<PdEntry>,
}

impl Device {
    /// Makes a protection domain.
    pub fn alloc_pd(&self) -> Pd {
        let entry = Arc::new(self.engines.registry().add_pd());
        Pd { id: entry.id, device: self.clone(), entry }
    }
}

impl Pd {
    /// Gives the domain back, unless something was made with it: `ibv_dealloc_pd` answers EBUSY then. To drop a
    /// domain instead only forgets it, and the objects made with it go on.
    ///
    /// # Errors
    /// The domain itself with [`RegisterError::Busy`], while there are queue pairs, shared receive queues, memory
    /// regions or windows of it.
    pub fn dealloc(self) -> Result<(), (Self, RegisterError)> {
        let is_used = Arc::strong_count(&self.entry.users) > 1
            || self.device.engines.each(|engine| engine.uses(self.id)).any(|uses| uses);
        if is_used { Err((self, RegisterError::Busy)) } else { Ok(()) }
    }
}
