//! The numbers of queue pairs. A peer has nothing but an address and such a number to find one: the upper 16 of its 24 bits are the
//! TCP port on which this process listens.

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
    /// By the number that the device below has given.
    names: Box<[AtomicU32]>,
}

/// A port, and which of its numbers are used.
#[derive(Debug)]
struct Port {
    listener: Listener,
    used: [bool; PLACES],
    /// Where to look first, so that a number rests for as long as possible.
    next: usize,
}

impl Numbers {
    /// For up to `max_qps` queue pairs of `device`, whose peers are announced by `events`.
    pub(crate) fn new(device: Device, events: EventChannel, max_qps: usize) -> Self {
        let names = (0..max_qps + FIRST).map(|_| AtomicU32::new(0)).collect();
        Self { device, events, ports: Mutex::default(), names }
    }

    /// A number that nobody has.
    ///
    /// # Errors
    /// `ENOMEM` when there is no port left.
    pub(crate) fn take(&self) -> Result<u32, Errno> {
        let mut ports = self.ports();
        if let Some(number) = ports.iter_mut().find_map(Port::take) {
            return Ok(number);
        }
        let listen = Listen { address: None, port: 0, backlog: Some(BACKLOG) };
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

    /// From now on completions of the device's queue pair `below` are those of `number`.
    pub(crate) fn name(&self, below: u32, number: u32) {
        if let Some(name) = self.names.get(below as usize) {
            name.store(number, Ordering::Relaxed);
        }
    }

    /// The number that the program knows.
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

/// The TCP port that a number of a peer's means; none where it can be nobody's.
pub(crate) fn port_of(number: u32) -> Option<u16> {
    u16::try_from(number >> PLACE_BITS).ok().filter(|&port| port != 0)
}

fn split(number: u32) -> (u16, usize) {
    (port_of(number).unwrap_or(0), number as usize % PLACES)
}

const PLACE_BITS: u32 = 8;
const PLACES: usize = 1 << PLACE_BITS;
/// Peers that call while their queue pair here is not ready.
const BACKLOG: usize = 2 * PLACES;
/// The device begins with its numbers there.
const FIRST: usize = 2;
