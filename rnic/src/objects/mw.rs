//! Memory windows, and memory regions for fast registration: STags that requests of the send queue make valid.

use std::sync::Arc;

use weft_ddp::Stag;
use weft_verbs::{
    Access, Bind, KeyedKind, KeyedStag, PostError, Region, RegisterError, SendOpcode, SendWr, Violation,
    WindowType,
};

use crate::objects::device::Device;
use crate::objects::mr::Mr;
use crate::objects::pd::Pd;
use crate::objects::qp::Qp;

/// A memory window: an STag by which peers use a part of a memory region, for as long as it is bound. Dropping it
/// deallocates it, bound or not.
///
/// One of type 1 is bound by [`Qp::bind_mw`], which chooses its key, and is for all streams of the protection domain.
/// One of type 2B is bound by [`SendOpcode::BindWindow`] with a key of the caller's choice ([`Mw::stag`]), and is for
/// the stream of that queue pair; Local Invalidate, the peer's Send with Invalidate, or the end of the queue pair
/// unbind it.
///
/// [`Mw::revoke`] unbinds one of either type at once.
#[derive(Debug)]
pub struct Mw {
    keyed: Arc<KeyedStag>,
    kind: WindowType,
    device: Device,
}

/// A memory region for fast registration: its memory is allocated at once, and a part of it gets an STag each time
/// that a [`SendOpcode::FastRegister`] is carried out, until Local Invalidate or the peer's Send with Invalidate
/// takes that out of use. Dropping it frees the memory, valid or not.
#[derive(Debug)]
pub struct FastMr {
    keyed: Arc<KeyedStag>,
    device: Device,
}

/// What a window of type 1 is to be bound to.
#[derive(Clone, Copy, Debug)]
pub struct MwBind<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// The memory region, registered with [`Access::MW_BIND`].
    pub region: &'a Mr,
    /// Where the window begins, in the tagged offsets of the region.
    pub addr: u64,
    /// Octets; 0 unbinds the window.
    pub length: u64,
    /// [`Access::REMOTE_READ`], [`Access::REMOTE_WRITE`] and [`Access::REMOTE_ATOMIC`], of which the last two need
    /// [`Access::LOCAL_WRITE`] of the region; [`Access::ZERO_BASED`] has the window's tagged offsets begin at 0.
    pub access: Access,
    /// Make a completion even if the queue pair signals only what asks for it.
    pub signaled: bool,
    /// Bind only when all Reads and Atomics posted before have completed.
    pub fence: bool,
}

impl Pd {
    /// Allocates a memory window, which names nothing yet.
    ///
    /// # Errors
    /// [`RegisterError::TableFull`] when the device holds as many as its settings allow.
    pub fn alloc_mw(&self, kind: WindowType) -> Result<Mw, RegisterError> {
        let mut table = self.device.engines.memory();
        if table.windows() >= self.device.engines.config().max_mws {
            return Err(RegisterError::TableFull);
        }
        let keyed = table.alloc(self.id, None, KeyedKind::Window(kind))?;
        drop(table);
        Ok(Mw { keyed, kind, device: self.device.clone() })
    }

    /// Allocates `len` zeroed octets for fast registration by any queue pair of the domain. All of them share the
    /// STag, so that no peer can invalidate it (RFC 5040 section 8.1.1).
    ///
    /// # Errors
    /// [`RegisterError`] when memory or STags are used up.
    pub fn alloc_fast_mr(&self, len: usize) -> Result<FastMr, RegisterError> {
        self.alloc_fast(None, len)
    }

    /// As [`Self::alloc_fast_mr`], for the stream of `qp` alone. The peer of `qp` can invalidate the STag.
    ///
    /// # Errors
    /// As [`Self::alloc_fast_mr`], and when the queue pair is not of this domain.
    pub fn alloc_fast_mr_for(&self, qp: &Qp, len: usize) -> Result<FastMr, RegisterError> {
        self.alloc_fast(Some(qp), len)
    }

    fn alloc_fast(&self, only: Option<&Qp>, len: usize) -> Result<FastMr, RegisterError> {
        let region = Region::owned(len).ok_or(RegisterError::OutOfMemory)?;
        if only.is_some_and(|qp| !qp.is_of(self)) {
            return Err(RegisterError::ForeignQp);
        }
        let mut table = self.device.engines.memory();
        if table.len() >= self.device.engines.config().max_mrs {
            return Err(RegisterError::TableFull);
        }
        let stream = only.map(|qp| qp.queues.stream);
        let keyed = table.alloc(self.id, stream, KeyedKind::Fast(region))?;
        drop(table);
        Ok(FastMr { keyed, device: self.device.clone() })
    }
}

impl Qp {
    /// Posts the binding of a window of type 1 to the send queue, and answers the STag that it has from then on. The
    /// one that it had is invalid when the request is carried out. What the window cannot be bound to ends as
    /// [`crate::Status::MemoryWindowBind`].
    ///
    /// # Errors
    /// [`PostError`], and nothing was queued: a window of type 2, objects of different devices or domains, rights
    /// that a window cannot have, or what [`Self::post_send`] refuses.
    pub fn bind_mw(&self, window: &Mw, bind: &MwBind<'_>) -> Result<Stag, PostError> {
        let MwBind { wr_id, region, addr, length, access, signaled, fence } = *bind;
        if window.kind != WindowType::Type1 {
            return Err(PostError::WrongWindow);
        }
        let devices = [&window.device, &region.device];
        if !devices.iter().all(|device| device.is_same(&self.device)) || window.keyed.pd != region.pd() {
            return Err(PostError::ForeignObject);
        }
        if !access.is_for_window() {
            return Err(PostError::BadFlags);
        }
        let stag = window.keyed.next_stag();
        let opcode =
            SendOpcode::BindWindow(Bind { window: stag, region: region.rkey(), addr, length, access });
        self.post_send(&SendWr { wr_id, signaled, fence, ..SendWr::new(opcode) })?;
        Ok(stag)
    }

    /// As [`Self::bind_mw`] with a length of 0, for which no region is needed.
    ///
    /// # Errors
    /// As [`Self::bind_mw`].
    pub fn unbind_mw(&self, window: &Mw, wr_id: u64, signaled: bool, fence: bool) -> Result<Stag, PostError> {
        if window.kind != WindowType::Type1 {
            return Err(PostError::WrongWindow);
        }
        if !window.device.is_same(&self.device) {
            return Err(PostError::ForeignObject);
        }
        let stag = window.keyed.next_stag();
        let bind = Bind { window: stag, region: Stag(0), addr: 0, length: 0, access: Access::LOCAL_READ };
        self.post_send(&SendWr { wr_id, signaled, fence, ..SendWr::new(SendOpcode::BindWindow(bind)) })?;
        Ok(stag)
    }
}

impl Mw {
    /// Takes the window out of use at once. From now on it is bound to nothing, and when the call returns, no engine
    /// copies to or from the memory through it any more.
    ///
    /// The connection of `qp` may be in any state, also ending or gone: unlike a Local Invalidate, this does not wait
    /// for the requests that were posted before, nor for the peer. Binds of the window that wait in the send queue of
    /// `qp` become NOPs, so that none of them binds it afterwards. Those of other queue pairs count as posted later.
    ///
    /// * A Write, Read or Atomic of the peer that comes afterwards is refused, as for any STag that is not valid, and
    ///   so is the rest of a Write. The connection ends by a Terminate.
    /// * A Read that is being answered ends in front of the next segment. The connection ends by a Terminate, or, if
    ///   the peer has closed its direction and only gets its answers, by a FIN behind those that it has got.
    /// * Octets that were copied into TCP before may still arrive at the peer.
    ///
    /// The window can be bound again, in the same ways. The caller chooses another key than before, since the peer
    /// would reach the next memory by the old STag.
    pub fn revoke(&self, qp: &Qp) {
        // No request of another device can name the window.
        if self.device.is_same(&qp.device) {
            self.device.engines.at(qp.engine).forget_binds(qp.slot, &self.keyed);
        }
        // No engine copies through a window while this thread holds the table.
        self.device.engines.memory().revoke(&self.keyed);
    }

    /// The type.
    pub const fn kind(&self) -> WindowType {
        self.kind
    }

    /// The STag that peers name the window by (rkey), since it was last bound; nobody can use it while the window is
    /// not bound.
    pub fn rkey(&self) -> Stag {
        self.keyed.current()
    }

    /// The STag with another key octet, for the next binding of a window of type 2.
    pub fn stag(&self, key: u8) -> Stag {
        self.keyed.stag(key)
    }

    /// Whether the window is bound.
    pub fn is_bound(&self) -> bool {
        self.keyed.is_valid()
    }
}

impl Drop for Mw {
    fn drop(&mut self) {
        self.device.engines.memory().dealloc(&self.keyed);
    }
}

impl FastMr {
    /// The STag since it was last registered (lkey and rkey); nobody can use it while it is invalid.
    pub fn rkey(&self) -> Stag {
        self.keyed.current()
    }

    /// The STag with another key octet, for the next registration.
    pub fn stag(&self, key: u8) -> Stag {
        self.keyed.stag(key)
    }

    /// Whether the STag is registered, and not invalidated since.
    pub fn is_valid(&self) -> bool {
        self.keyed.is_valid()
    }

    /// Octets of its memory.
    pub fn len(&self) -> usize {
        self.region().map_or(0, Region::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `octets` into the memory at `offset`, whether that is registered or not.
    ///
    /// # Errors
    /// [`Violation::Bounds`]; nothing was copied then.
    pub fn write(&self, offset: usize, octets: &[u8]) -> Result<(), Violation> {
        let is_done = self.region().is_some_and(|region| region.copy_in(offset, octets));
        if is_done { Ok(()) } else { Err(Violation::Bounds) }
    }

    /// Copies from the memory at `offset` into `octets`, whether that is registered or not.
    ///
    /// # Errors
    /// [`Violation::Bounds`]; nothing was copied then.
    pub fn read(&self, offset: usize, octets: &mut [u8]) -> Result<(), Violation> {
        let is_done = self.region().is_some_and(|region| region.copy_out(offset, octets));
        if is_done { Ok(()) } else { Err(Violation::Bounds) }
    }

    fn region(&self) -> Option<&Region> {
        match &self.keyed.kind {
            KeyedKind::Fast(region) => Some(region),
            KeyedKind::Window(_) => None,
        }
    }
}

impl Drop for FastMr {
    fn drop(&mut self) {
        // No engine copies to or from memory while this thread holds the table.
        self.device.engines.memory().dealloc(&self.keyed);
    }
}
