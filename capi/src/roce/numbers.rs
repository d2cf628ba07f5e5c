//! The numbers of queue pairs. A peer finds a queue pair by an address and such a number. The upper 16 of its 24 bits
//! are the TCP port on which this process listens.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use weft_rnic::{Device, EventChannel, Listen, Listener};

/// The numbers of this process.
#[derive(Debug)]
pub(crate) struct Numbers {
    device: Device,
    events: EventChannel,
    ports: Mutex<Vec<Port>>,
    /// Indexed by the number that the engine has given.
    names: Box<[AtomicU32]>,
}

/// A port, and its numbers that are in use.
#[derive(Debug)]
struct Port {
    listener: Listener,
    used: [bool; PLACES],
    /// The place where the search begins, so that a number rests as long as possible.
    next: usize,
}

impl Numbers {
    /// Makes numbers for up to `max_qps` queue pairs of `device`. Connect requests come by `events`.
    pub(crate) fn new(device: Device, events: EventChannel, max_qps: usize) -> Self {
        let names = (0..max_qps + FIRST).map(|_| AtomicU32::new(0)).collect();
        Self { device, events, ports: Mutex::default(), names }
    }

    /// Returns a number that is not in use.
    ///
    /// # Errors
    /// `ENOMEM` if there is no port left.
    pub(crate) fn take(&self) -> Result<u32, Errno> {
        let mut ports = self.ports();
        if let Some(number) = ports.iter_mut().find_map(Port::take) {
            return Ok(number);
        }
        let listen = Listen { backlog: Some(BACKLOG), ..Listen::default() };
        let listener = self.device.listen_as(0, &self.events, listen);
        let listener = listener.map_err(|_| Errno::NOMEM)?;
        let mut port = Port { listener, used: [false; PLACES], next: 0 };
        let number = port.take().ok_or(Errno::NOMEM);
        ports.push(port);
        number
    }

    pub(crate) fn give_back(&self, number: u32) {
        let (port, place) = split(number);
        if let Some(port) = self.ports().iter_mut().find(|it| it.listener.local_addr().port() == port) {
            port.used[place] = false;
        }
    }

    pub(crate) fn is_taken(&self, number: u32) -> bool {
        let (port, place) = split(number);
        self.ports().iter().any(|it| it.listener.local_addr().port() == port && it.used[place])
    }

    /// Has completions of the engine's queue pair `below` name `number`.
    pub(crate) fn name(&self, below: u32, number: u32) {
        if let Some(name) = self.names.get(below as usize) {
            name.store(number, Ordering::Relaxed);
        }
    }

    /// Returns the program's number for the engine's queue pair `below`.
    pub(crate) fn name_of(&self, below: u32) -> u32 {
        self.names.get(below as usize).map_or(below, |name| name.load(Ordering::Relaxed))
    }

    fn ports(&self) -> MutexGuard<'_, Vec<Port>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port {
    fn take(&mut self) -> Option<u32> {
        let mut places = (0..PLACES).map(|step| (self.next + step) % PLACES);
        let place = places.find(|&place| !self.used[place])?;
        self.used[place] = true;
        self.next = place + 1;
        Some(u32::from(self.listener.local_addr().port()) << PLACE_BITS | u32::try_from(place).ok()?)
    }
}

/// Returns the TCP port in a peer's number. None if no queue pair can have that number.
pub(crate) fn port_of(number: u32) -> Option<u16> {
    u16::try_from(number >> PLACE_BITS).ok().filter(|&port| port != 0)
}

fn split(number: u32) -> (u16, usize) {
    (port_of(number).unwrap_or(0), number as usize % PLACES)
}

const PLACE_BITS: u32 = 8;
const PLACES: usize = 1 << PLACE_BITS;
/// Callers of one port whose queue pairs are not ready yet.
const BACKLOG: usize = 2 * PLACES;
/// The engine's first number.
const FIRST: usize = 2;
