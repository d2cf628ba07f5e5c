//! Doorbells: eventfds that wake the sleepers of processes.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// What wakes one waiter.
#[derive(Clone, Debug)]
pub(crate) struct Bell {
    pub(crate) file: Arc<OwnedFd>,
    /// The thread that rings for another user.
    ringer: Option<Ringer>,
}

type Ringer = SyncSender<Arc<OwnedFd>>;

/// The threads that ring for other users than the daemon's own.
///
/// A process can fill its eventfd and have it block at any moment. The daemon's own user could as well stop the daemon,
/// but another user must not be able to. So a thread for each of them writes to their eventfds, and may be blocked by one.
#[derive(Debug, Default)]
pub(crate) struct Ringers(HashMap<u32, Ringer>);

impl Ringers {
    /// Takes a doorbell of a user. Returns `None` if it is no eventfd, or if there is no thread for it.
    pub(crate) fn bell(&mut self, file: OwnedFd, uid: u32, own: u32) -> Option<Bell> {
        let file = Some(file).filter(is_eventfd)?;
        let ringer = if uid == own { None } else { Some(self.of(uid)?) };
        Some(Bell { file: Arc::new(file), ringer })
    }

    fn of(&mut self, uid: u32) -> Option<Ringer> {
        if let Some(ringer) = self.0.get(&uid) {
            return Some(ringer.clone());
        }
        let (sender, receiver) = sync_channel(WAITING);
        let name = format!("weft-ring-{uid}");
        std::thread::Builder::new().name(name).spawn(move || ring_all(&receiver)).ok()?;
        self.0.insert(uid, sender.clone());
        Some(sender)
    }
}

impl Bell {
    /// Rings without waiting.
    pub(crate) fn ring(&self) {
        match &self.ringer {
            None => ring(&self.file),
            // A thread with so many bells to ring is blocked by one of them.
            Some(ringer) => drop(ringer.try_send(Arc::clone(&self.file))),
        }
    }
}

fn ring_all(bells: &Receiver<Arc<OwnedFd>>) {
    while let Ok(bell) = bells.recv() {
        ring(&bell);
    }
}

fn ring(bell: &OwnedFd) {
    // A full eventfd has been rung often enough.
    let _rung = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// True for an eventfd. Anything else may be read or written by others.
fn is_eventfd(file: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    link.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

/// Bells of a user that wait for their thread.
const WAITING: usize = 1024;
