//! From an id's own address to the way to its peer.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use weft_rnic::Device;

use crate::core::{Core, Id};
use crate::error::Error;
use crate::kind::EventKind;
use crate::manager::nearness;
use crate::state::{Op, State};

impl Id {
    /// Gives the id an address of its own. An unspecified one means all devices of its IP version (`::` all of both);
    /// port 0 takes a free one, which [`Id::local_addr`] tells.
    ///
    /// # Errors
    /// [`Error::State`] for an id that is bound already, [`Error::AddrNotAvailable`], [`Error::AddrInUse`],
    /// [`Error::NoPortFree`].
    pub fn bind(&self, local: SocketAddr) -> Result<(), Error> {
        let mut core = self.shared.lock();
        let next = core.after(Op::Bind)?;
        core.bind(self, local)?;
        core.state = next;
        Ok(())
    }

    /// Finds the device that leads to `peer`: the bound one, the one that has the address `source`, or else the one
    /// that reaches it by the longest prefix. [`EventKind::AddrResolved`] or [`EventKind::AddrError`] (`ENETUNREACH`)
    /// follows. An id that is bound already keeps its own address, and `source` is ignored, as in librdmacm.
    ///
    /// The result is there at once, so that `_timeout` never passes. Whether the peer answers to its address shows when
    /// TCP connects.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::Unaddressable`] and [`Error::FamilyMismatch`] for `peer`; for `source` as
    /// [`Id::bind`].
    pub fn resolve_addr(
        &self,
        source: Option<SocketAddr>,
        peer: SocketAddr,
        _timeout: Duration,
    ) -> Result<(), Error> {
        let mut core = self.shared.lock();
        let next = core.after(Op::ResolveAddr)?;
        if peer.port() == 0 || peer.ip().is_unspecified() || peer.ip().is_multicast() {
            return Err(Error::Unaddressable(peer));
        }
        let source = if core.state == State::Bound { core.local } else { source };
        if source
            .is_some_and(|it| it.is_ipv4() != peer.is_ipv4() && !(it.is_ipv6() && it.ip().is_unspecified()))
        {
            return Err(Error::FamilyMismatch);
        }
        if let (State::Idle, Some(source)) = (core.state, source) {
            core.bind(self, source)?;
        }
        match core.lead_to(self, peer) {
            Some(device) => {
                core.settle_on(&device, peer);
                core.post(self, EventKind::AddrResolved, None);
            }
            None => core.post(self, EventKind::AddrError, Some(Errno::NETUNREACH)),
        }
        core.state = next;
        drop(core);
        self.complete(EventKind::AddrResolved)
    }

    /// Finds the route to the peer; [`EventKind::RouteResolved`] follows, or [`EventKind::RouteError`] when there is
    /// none any more. The result is there at once, as that of [`Id::resolve_addr`].
    ///
    /// # Errors
    /// [`Error::State`], [`Error::DeviceRemoved`].
    pub fn resolve_route(&self, _timeout: Duration) -> Result<(), Error> {
        let mut core = self.shared.lock();
        let next = core.after(Op::ResolveRoute)?;
        let device = core.device()?;
        match core.peer.and_then(|peer| device.route_to(peer.ip())) {
            Some(_) => core.post(self, EventKind::RouteResolved, None),
            None => core.post(self, EventKind::RouteError, Some(Errno::NETUNREACH)),
        }
        core.state = next;
        drop(core);
        self.complete(EventKind::RouteResolved)
    }
}

impl Core {
    pub(crate) fn bind(&mut self, id: &Id, local: SocketAddr) -> Result<(), Error> {
        let ends = id.shared.manager.bind(local)?;
        let port = ends.first().map_or(0, |end| end.port.local_addr().port());
        if let [only] = ends.as_slice()
            && !local.ip().is_unspecified()
        {
            self.device = Some(only.device.clone());
        }
        self.local = Some(SocketAddr::new(local.ip(), port));
        self.ends = ends;
        Ok(())
    }

    /// Puts an event of the id's own behind those in the channel.
    pub(crate) fn post(&self, id: &Id, kind: EventKind, status: Option<Errno>) {
        let errno = status.map_or(0, |errno| errno.raw_os_error().unsigned_abs());
        self.channel.queue.post(id.number(), kind as u32 | errno << STATUS_SHIFT);
    }

    fn lead_to(&self, id: &Id, peer: SocketAddr) -> Option<Device> {
        if self.ends.is_empty() {
            return id.shared.manager.route(peer.ip());
        }
        let near = self.ends.iter().filter_map(|end| Some((nearness(&end.device, peer.ip())?, &end.device)));
        near.rev().max_by_key(|&(prefix, _)| prefix).map(|(_, device)| device.clone())
    }

    /// Gives the id to this device. Ports that it has on other devices are free again.
    fn settle_on(&mut self, device: &Device, peer: SocketAddr) {
        self.ends.retain(|end| end.device.is_same(device));
        let bound = self.ends.first().map(|end| end.port.local_addr());
        let local = bound.unwrap_or_else(|| device.address(0));
        self.local = Some(local);
        self.source = if local.ip().is_unspecified() { device.source_to(peer) } else { None };
        self.peer = Some(peer);
        self.device = Some(device.clone());
    }
}

/// In a posted notice the kind is below the status.
pub(crate) const STATUS_SHIFT: u32 = 8;
