//! The manager: which devices there are, and which ids.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use weft_rnic::Device;

use crate::channel::EventChannel;
use crate::core::{Core, End, Id, Manager, Shared};
use crate::error::Error;

/// A connection manager: knows a set of devices, and finds the one that has an address or leads to it. Clones are
/// handles to the same one.
#[derive(Clone, Debug, Default)]
pub struct Cm {
    pub(crate) manager: Arc<Manager>,
}

/// What a [`Cm`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Devices.
    pub devices: usize,
    /// Ids that are not destroyed.
    pub ids: usize,
}

impl Cm {
    /// Makes a manager without devices.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a device. Ids that listen on all addresses already do not listen on it.
    pub fn add(&self, device: &Device) {
        let mut devices = lock(&self.manager.devices);
        if !devices.iter().any(|known| known.is_same(device)) {
            devices.push(device.clone());
        }
    }

    /// Takes a device away, as when it is closed: its ids get [`crate::EventKind::DeviceRemoval`] as their last event,
    /// their connections end and their listeners stop. An id goes on listening on other devices.
    pub fn remove(&self, device: &Device) {
        lock(&self.manager.devices).retain(|known| !known.is_same(device));
        let ids: Vec<_> = lock(&self.manager.ids).values().filter_map(Weak::upgrade).collect();
        for id in ids {
            id.lose(device);
        }
    }

    /// Returns the devices.
    pub fn devices(&self) -> Vec<Device> {
        self.manager.devices()
    }

    /// Makes an event channel.
    ///
    /// # Errors
    /// [`Error::System`] when the system has no file descriptor left.
    pub fn create_event_channel(&self) -> Result<EventChannel, Error> {
        EventChannel::new(&self.manager)
    }

    /// Makes an id whose events come out of `channel`; without one it is synchronous, and each call waits.
    ///
    /// # Errors
    /// [`Error::Foreign`] for the channel of another manager, [`Error::System`] when the system has no file descriptor
    /// left.
    pub fn create_id(&self, channel: Option<&EventChannel>) -> Result<Id, Error> {
        let own = match channel {
            Some(channel) if !Arc::ptr_eq(&channel.inner.manager, &self.manager) => {
                return Err(Error::Foreign);
            }
            Some(channel) => channel.clone(),
            None => EventChannel::new(&self.manager)?,
        };
        let core = Core::new(own.inner, channel.is_none());
        Ok(self.manager.enter(core, 0))
    }

    /// Has ids connect again, up to `repeats` times, while TCP refuses because nothing listens there. Without this call
    /// they do not. A new attempt begins when the refusal would be taken from the id's channel, after `pause` of real
    /// time.
    ///
    /// Programs of librdmacm that close a listener and open the next one at once rely on addresses that take a moment
    /// to be resolved, as those of hardware do.
    pub fn set_connect_repeats(&self, repeats: u32, pause: Duration) {
        *lock(&self.manager.repeats) = (repeats, pause);
    }

    /// Returns what the manager holds now.
    pub fn counters(&self) -> Counters {
        Counters { devices: lock(&self.manager.devices).len(), ids: lock(&self.manager.ids).len() }
    }
}

impl Manager {
    pub(crate) fn devices(&self) -> Vec<Device> {
        lock(&self.devices).clone()
    }

    pub(crate) fn repeats(&self) -> (u32, Duration) {
        *lock(&self.repeats)
    }

    /// Returns a new id.
    pub(crate) fn enter(self: &Arc<Self>, core: Core, context: u64) -> Id {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let shared = Arc::new(Shared::new(number, context, Arc::clone(self), core));
        lock(&self.ids).insert(number, Arc::downgrade(&shared));
        Id { shared }
    }

    /// Returns the id that a notice is for.
    pub(crate) fn find(&self, cookie: u64) -> Option<Arc<Shared>> {
        lock(&self.ids).get(&(cookie & NUMBER))?.upgrade()
    }

    pub(crate) fn forget(&self, number: u64) {
        lock(&self.ids).remove(&number);
    }

    /// Binds a port of every device that `local` means.
    pub(crate) fn bind(&self, local: SocketAddr) -> Result<Vec<End>, Error> {
        let devices = self.devices_with(local.ip());
        if devices.is_empty() {
            return Err(Error::AddrNotAvailable(local.ip()));
        }
        let mut outcome = bind_all(&devices, local);
        // A port that is free on one device may be in use on another.
        for _ in 0..PORT_TRIES {
            if local.port() != 0 || !matches!(outcome, Err(Error::AddrInUse(_))) {
                break;
            }
            outcome = bind_all(&devices, local);
        }
        outcome
    }

    /// Returns the device that leads to `remote` by the longest prefix.
    pub(crate) fn route(&self, remote: IpAddr) -> Option<Device> {
        let devices = self.devices();
        let near = devices.iter().filter_map(|device| Some((nearness(device, remote)?, device)));
        // The first of several that are equally near.
        near.rev().max_by_key(|&(prefix, _)| prefix).map(|(_, device)| device.clone())
    }

    /// Returns the devices that have an address, all of its IP version if it is unspecified; `::` means both versions,
    /// as on sockets.
    pub(crate) fn devices_with(&self, local: IpAddr) -> Vec<Device> {
        let mut devices = self.devices();
        let address = |device: &Device| device.address(0).ip();
        if local.is_unspecified() {
            // A device on all addresses of the host has addresses of both versions.
            let is_there = |ip: IpAddr| local.is_ipv6() || ip.is_ipv4() || ip.is_unspecified();
            devices.retain(|device| is_there(address(device)));
        } else if devices.iter().any(|device| address(device) == local) {
            devices.retain(|device| address(device) == local);
            devices.truncate(1);
        } else {
            // A device on all addresses of the host knows which these are when it binds one.
            devices.retain(|device| address(device).is_unspecified());
            devices.truncate(1);
        }
        devices
    }
}

/// Returns how near `remote` is to `device`; the own address is nearest.
pub(crate) fn nearness(device: &Device, remote: IpAddr) -> Option<u8> {
    let is_own = device.address(0).ip() == remote;
    device.route_to(remote).map(|prefix| if is_own { u8::MAX } else { prefix })
}

fn bind_all(devices: &[Device], mut local: SocketAddr) -> Result<Vec<End>, Error> {
    let mut ends = Vec::with_capacity(devices.len());
    for device in devices {
        let ip = if local.ip().is_unspecified() { device.address(0).ip() } else { local.ip() };
        let wanted = SocketAddr::new(ip, local.port());
        let port = device.bind(wanted).map_err(|error| bind_error(error, wanted))?;
        local.set_port(port.local_addr().port());
        ends.push(End { device: device.clone(), port, listener: None, cookie: 0 });
    }
    Ok(ends)
}

fn bind_error(error: weft_rnic::CmError, wanted: SocketAddr) -> Error {
    use weft_netif::ListenError::{AddrInUse, AddrNotAvailable};
    match error {
        weft_rnic::CmError::Listen(AddrInUse) => Error::AddrInUse(wanted),
        weft_rnic::CmError::Listen(AddrNotAvailable) => Error::AddrNotAvailable(wanted.ip()),
        other => other.into(),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bits of a cookie that hold the id's number. The bits above hold the place of a listener's device.
pub(crate) const NUMBER: u64 = (1 << NUMBER_BITS) - 1;
pub(crate) const NUMBER_BITS: u32 = 48;
/// Ephemeral ports that are tried when several devices have to have the same one.
const PORT_TRIES: usize = 64;
