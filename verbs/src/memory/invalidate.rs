//! Taking STags out of use: by the peer's Send with Invalidate, and by a Local Invalidate of our own.

use weft_ddp::Stag;

use super::keyed::{KeyedKind, KeyedStag, WindowType};
use super::{MemoryRegion, MemoryTable, Violation, associated};
use crate::ids::{PdId, StreamId};

/// Something that can be invalidated.
enum Victim<'a> {
    Region(&'a MemoryRegion),
    Keyed(&'a KeyedStag),
}

impl MemoryTable {
    /// Invalidates `stag` on behalf of `stream` of domain `pd` (RFC 5040 section 5.3).
    ///
    /// # Errors
    /// [`Violation`] when there is no such STag, it is of another domain or stream, it is for all of the domain, no
    /// peer may use it anyway, or windows are bound to it.
    pub fn invalidate(&self, stag: Stag, pd: PdId, stream: StreamId) -> Result<(), Violation> {
        let victim = self.find_invalidatable(stag, pd, stream)?;
        self.put_out_of_use(&victim);
        Ok(())
    }

    /// Checks whether [`Self::invalidate`] would succeed.
    ///
    /// # Errors
    /// As [`Self::invalidate`].
    pub fn check_invalidate(&self, stag: Stag, pd: PdId, stream: StreamId) -> Result<(), Violation> {
        self.find_invalidatable(stag, pd, stream).map(|_| ())
    }

    /// Invalidates `stag` at the request of its owner on `stream` of domain `pd`. It is no error if the STag is invalid
    /// already: the peer may have been faster.
    ///
    /// # Errors
    /// [`Violation`] when there is no such STag, it is of another domain or stream, it is an ordinary region for all of
    /// the domain or a window of type 1, or windows are bound to it.
    pub fn invalidate_locally(&self, stag: Stag, pd: PdId, stream: StreamId) -> Result<(), Violation> {
        let victim = match self.entry(stag) {
            Some(memory) => {
                associated((memory.pd, memory.stream), pd, stream)?;
                if memory.stream.is_none() {
                    return Err(Violation::Access);
                }
                free_of_windows(memory)?;
                Victim::Region(memory)
            }
            None => {
                let keyed = self.keyed(stag).filter(|keyed| keyed.current() == stag);
                let keyed = keyed.ok_or(Violation::InvalidStag)?;
                if matches!(keyed.kind, KeyedKind::Window(WindowType::Type1)) {
                    return Err(Violation::Access);
                }
                let bound_for = keyed.mapping(stag).and_then(|mapping| mapping.stream);
                associated((keyed.pd, bound_for.or(keyed.stream)), pd, stream)?;
                Victim::Keyed(keyed)
            }
        };
        self.put_out_of_use(&victim);
        Ok(())
    }

    fn find_invalidatable(&self, stag: Stag, pd: PdId, stream: StreamId) -> Result<Victim<'_>, Violation> {
        let view = self.find_associated(stag, pd, stream)?;
        // No stream may invalidate memory that it shares with others (RFC 5040 section 8.1.1). The peer may also
        // invalidate a window without rights.
        if view.stream.is_none() || !(view.is_window || view.access.is_remote()) {
            return Err(Violation::Access);
        }
        match self.entry(stag) {
            Some(memory) => {
                free_of_windows(memory)?;
                Ok(Victim::Region(memory))
            }
            None => self.keyed(stag).map(Victim::Keyed).ok_or(Violation::InvalidStag),
        }
    }

    fn put_out_of_use(&self, victim: &Victim<'_>) {
        match victim {
            Victim::Region(memory) => memory.invalidate(),
            Victim::Keyed(keyed) => self.unbind(keyed),
        }
    }
}

fn free_of_windows(memory: &MemoryRegion) -> Result<(), Violation> {
    if memory.has_windows() { Err(Violation::Bound) } else { Ok(()) }
}
