//! The device of either side of rping, with channels for its events and completions.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use weft_netif::{Capture, Ground, Wire};
use weft_rnic::{CompChannel, Config, Device, EventChannel, Pd, Progress};
use weft_stat::{Server, device_sections, stat_folder_from_env};

use super::args::Args;
use crate::failure::Failure;
use crate::wire;

/// A device with the objects that all connections share.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) events: EventChannel,
    pub(crate) completions: CompChannel,
    pub(crate) device: Device,
    pub(crate) pd: Pd,
    /// The engine of the next queue pair.
    next_engine: Cell<usize>,
    /// Answers `weft stat`.
    _stat: Option<Server>,
}

impl Endpoint {
    pub(crate) fn new(args: &Args) -> Result<Self, Failure> {
        let seed = RandomState::new().hash_one(std::process::id());
        let mut config = match &args.ip {
            Some(ip) => Config::new(ip.clone(), seed).with_clock_scale(args.clock_scale),
            None => Config::host(own_address(args), seed),
        };
        config.stack.mtu = args.mtu as usize;
        config.mpa.markers = args.markers;
        config.mpa.crc = !args.no_crc;
        config.mpa.peer_to_peer = !args.no_p2p;
        let timeout = Duration::from_secs(args.timeout.into());
        let engine_timeout = config.engine_time(timeout);
        config.stack.timeout = Some(engine_timeout);
        // A side that waits for the next message sends nothing that would show that the peer is gone.
        config.stack.keep_alive = Some(engine_timeout);
        config.startup_timeout = engine_timeout;
        config.nudge_after = Some(config.engine_time(NUDGE_AFTER));
        config.engines = args.engines;
        if args.engines > 1 {
            config.progress = Progress::Thread;
        }
        let ground = if args.ip.is_some() {
            config.stack.validate().map_err(Failure::usage)?;
            let capture =
                args.pcap.as_deref().map(|path| wire::capture(path, config.clock.scale())).transpose()?;
            let mtu = args.mtu as usize;
            match capture {
                Some(capture) => wire::open(&args.netif, mtu, timeout)?.with_capture(capture).into(),
                None => wire::open_queues(&args.netif, mtu, timeout, args.engines)?.into(),
            }
        } else {
            Ground::Host
        };
        let device = Device::open(ground, config).map_err(Failure::work)?;
        let stat = stat_folder_from_env()
            .map(|folder| Server::start(&folder, device_sections(&device.watcher())))
            .transpose()
            .map_err(Failure::work)?;
        Ok(Self {
            events: device.create_event_channel().map_err(Failure::work)?,
            completions: device.create_comp_channel().map_err(Failure::work)?,
            pd: device.alloc_pd(),
            device,
            next_engine: Cell::new(0),
            _stat: stat,
        })
    }

    /// Returns the engine for the next queue pair. The engines take turns.
    pub(crate) fn next_engine(&self) -> usize {
        let engine = self.next_engine.get();
        self.next_engine.set((engine + 1) % self.device.num_comp_vectors());
        engine
    }

    /// Gives TCP time to close, and completes the capture.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        // No event is expected. The wait lets the engine finish its work.
        while self.events.wait(Some(GOODBYE)).is_some() {}
        let capture = self.device.with_wire(Wire::take_capture).flatten();
        capture
            .map_or(Ok(()), Capture::finish)
            .map_err(|error| Failure::work(format!("cannot write the capture: {error}")))
    }
}

/// Returns the address of the operating system that the server listens on. The client leaves the choice to the system.
fn own_address(args: &Args) -> IpAddr {
    args.address.filter(|_| args.server).unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

/// Linux siw leaves octets right behind its Reply unread until more octets come.
const NUDGE_AFTER: Duration = Duration::from_millis(100);
const GOODBYE: Duration = Duration::from_millis(100);
