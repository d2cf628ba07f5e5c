//! The device of this process, opened by its settings.

use core::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::io::Errno;
use weft_exs::{Watcher, stat_section};
use weft_netif::{Ground, Wire};
use weft_rnic::{Config, Device, Progress};
use weft_stat::{Server, device_sections, stat_folder_from_env};

use crate::device::Limits;
use crate::gid::Gids;
use crate::personality::Personality;
use crate::raw::Blocked;
use crate::roce::Roce;
use crate::settings::{Network, Settings};
use crate::sysfs;

/// The open device, and the decisions made when it was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) settings: Settings,
    pub(crate) device: Device,
    pub(crate) limits: Limits,
    pub(crate) gids: Gids,
    /// Present in the second personality only.
    pub(crate) roce: Option<Roce>,
    /// Answers `weft stat` as long as the process lives.
    _stat: Option<Server>,
}

impl Opened {
    /// Opens the device that the environment describes. If that fails, writes the reason to standard error. `exs` will
    /// have the context of Extended Sockets, if the program uses them.
    ///
    /// # Errors
    /// `EINVAL` for invalid settings; else the system's error, or `ENODEV`.
    pub(crate) fn by_environment(exs: &Arc<OnceLock<Watcher>>) -> Result<Self, Errno> {
        let settings = Settings::read(|name| std::env::var(name).ok()).map_err(|why| {
            complain(&why);
            Errno::INVAL
        })?;
        let failed = |what: &dyn Display, error: io::Error| {
            complain(&format!("{what}: {error}"));
            error.raw_os_error().map_or(Errno::NODEV, Errno::from_raw_os_error)
        };
        let cannot_open = |error| failed(&format!("{} cannot be opened", settings.transport), error);
        // Threads that start here inherit the signal mask of this thread.
        let blocked = Blocked::begin();
        let opened = open(&settings).map_err(cannot_open).and_then(|(device, limits)| {
            let stat = serve(&device, exs).map_err(|error| failed(&"WEFT_STAT", error))?;
            Ok((device, limits, stat))
        });
        drop(blocked);
        let (device, limits, stat) = opened?;
        let (gids, roce) = match settings.personality {
            Personality::Iwarp => (Gids::iwarp(), None),
            Personality::Roce => (
                Gids::roce(settings.network.addresses()),
                Some(Roce::begin(&device, limits.max_qps()).map_err(cannot_open)?),
            ),
        };
        if let Err(error) = sysfs::render(&settings, &gids) {
            complain(&format!("WEFT_SYSFS: {}: {error}", sysfs::root().display()));
        }
        Ok(Self { settings, device, limits, gids, roce, _stat: stat })
    }
}

/// Opens the device.
///
/// # Errors
/// Those of [`Device::open`] and [`Wire::open`].
fn open(settings: &Settings) -> io::Result<(Device, Limits)> {
    let seed = RandomState::new().hash_one(std::process::id());
    let (mut config, ground) = match &settings.network {
        Network::Host(address) => (Config::host(*address, seed), Ground::Host),
        Network::Wire(ip) => {
            let wire = Wire::open(&settings.transport, settings.mtu)?;
            (Config::new(ip.clone(), seed), wire.into())
        }
    };
    config = config.with_peer_timeout(settings.timeout);
    config.stack.mtu = settings.mtu;
    config.mpa.markers = settings.markers;
    config.mpa.crc = settings.crc;
    // Either side of a verbs program may send first.
    config.mpa.peer_to_peer = true;
    if settings.personality == Personality::Iwarp {
        // Linux siw needs the nudge: a program that was not written for siw would wait for ever.
        config.nudge_after = Some(config.engine_time(NUDGE_AFTER));
    }
    config.progress = Progress::Thread;
    let limits = Limits::of(&config);
    Ok((Device::open(ground, config)?, limits))
}

/// Starts the server that answers `weft stat`, if `WEFT_STAT` asks for it.
///
/// # Errors
/// Those of [`Server::start`].
fn serve(device: &Device, exs: &Arc<OnceLock<Watcher>>) -> io::Result<Option<Server>> {
    let Some(folder) = stat_folder_from_env() else { return Ok(None) };
    let mut sections = device_sections(&device.watcher());
    let exs = Arc::clone(exs);
    sections.push(stat_section(move || exs.get().cloned()));
    Server::start(&folder, sections).map(Some)
}

fn complain(why: &dyn Display) {
    eprintln!("weft: {why}");
}

/// Longer than any answer takes, except on a very long way. There a nudge is only a few octets more.
const NUDGE_AFTER: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_settings_the_hosts_network_opens() {
        let settings = Settings::read(|_| None).unwrap();
        assert!(open(&settings).is_ok());
    }
}
