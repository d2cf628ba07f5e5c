//! The names of open groups. A name is looked up here, and never followed.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use weft_group::{Coordinator, Options, Session, Wish};
use weft_netif::Ground;
use weft_rnic::{Config, Device, Progress};

use crate::failure::{Failure, Outcome};
use crate::group::Group;
use crate::options::Target;

/// The open groups of this process.
#[derive(Debug)]
pub(crate) struct Groups {
    live: RwLock<BTreeMap<usize, Arc<Entry>>>,
    next: AtomicUsize,
    /// The process that has opened the first group; 0 if none has. The locks may be taken for ever in its children,
    /// and the threads of its devices are not there.
    owner: AtomicU32,
}

/// A group, and the device that all groups of the process share.
#[derive(Debug)]
struct Entry {
    /// `None` when it is closed.
    group: Mutex<Option<Group>>,
    device: Device,
}

impl Groups {
    const fn new() -> Self {
        Self { live: RwLock::new(BTreeMap::new()), next: AtomicUsize::new(1), owner: AtomicU32::new(0) }
    }

    /// Opens a session, and returns its name.
    ///
    /// # Errors
    /// Those of [`Session::open`] and of the device.
    pub(crate) fn open(&self, target: &Target, options: &Options) -> Outcome<usize> {
        let device = self.device()?;
        let session = match target {
            Target::Members(members) => Session::open(&device, members, options)?,
            Target::Register(membership) => {
                let coordinator = Coordinator::new(&device, &**membership, options);
                coordinator.open(&coordinator.record()?)?
            }
        };
        // A name is odd, so that no address of a struct is one, and it lies where no memory is.
        let name = self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(2).wrapping_add(1);
        let entry = Arc::new(Entry { group: Mutex::new(Some(Group::new(session))), device });
        self.live.write().unwrap_or_else(PoisonError::into_inner).insert(name, entry);
        Ok(name)
    }

    /// Begins a new epoch, and returns it.
    ///
    /// # Errors
    /// Those of [`Coordinator::change`] and of the device; `EINVAL` without a register.
    pub(crate) fn change_epoch(&self, target: &Target, options: &Options, from: u64) -> Outcome<u64> {
        let Target::Register(membership) = target else {
            return Err(Failure::invalid("register_name: only a register has epochs"));
        };
        let device = self.device()?;
        let wish = Wish { from: Some(from).filter(|from| *from > 0), is_from_storage: false };
        let record = Coordinator::new(&device, &**membership, options).change(wish, |_| {})?;
        Ok(record.epoch)
    }

    /// Returns the device of this process.
    fn device(&self) -> Outcome<Device> {
        let process = std::process::id();
        let owner = self.owner.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
        if owner.is_err_and(|owner| owner != process) {
            let line = "a child of fork() opens no group when its parent has opened one";
            return Err(Failure::new(Errno::ENOTSUP, line));
        }
        let known = self.live.read().unwrap_or_else(PoisonError::into_inner);
        let device = known.values().next().map(|entry| entry.device.clone());
        drop(known);
        device.map_or_else(open_device, Ok)
    }

    /// Does something with the group of this name. Waits for other threads that do.
    ///
    /// # Errors
    /// `EBADF` if there is none; `EIO` if a call on it has ended by a panic; those of `act`.
    pub(crate) fn with<T>(&self, name: usize, act: impl FnOnce(&mut Group) -> Outcome<T>) -> Outcome<T> {
        self.check_owner()?;
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        let entry = live.get(&name).map(Arc::clone).ok_or_else(Failure::closed)?;
        drop(live);
        let mut group = entry.group.lock().map_err(|_| Failure::broken())?;
        act(group.as_mut().ok_or_else(Failure::closed)?)
    }

    /// Ends the session of this name.
    ///
    /// # Errors
    /// `EBADF` if there is none.
    pub(crate) fn close(&self, name: usize) -> Outcome<()> {
        self.check_owner()?;
        let entry = self.live.write().unwrap_or_else(PoisonError::into_inner).remove(&name);
        let entry = entry.ok_or_else(Failure::closed)?;
        let group = entry.group.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(group);
        Ok(())
    }

    fn check_owner(&self) -> Outcome<()> {
        let is_own = self.owner.load(Ordering::Relaxed) == std::process::id();
        is_own.then_some(()).ok_or_else(Failure::closed)
    }
}

/// Opens the device of this process, on the sockets of the operating system.
fn open_device() -> Outcome<Device> {
    let seed = RandomState::new().hash_one(std::process::id());
    let config = Config { progress: Progress::Thread, ..Config::host(Ipv6Addr::UNSPECIFIED.into(), seed) };
    // Threads inherit the signal mask of this thread. The program's handlers shall run in its own threads.
    let mut blocked = SigSet::all();
    for fault in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP] {
        blocked.remove(fault);
    }
    let before =
        blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(|errno| Failure::new(errno, errno))?;
    let device = Device::open(Ground::Host, config);
    before.thread_set_mask().map_err(|errno| Failure::new(errno, errno))?;
    device.map_err(|error| {
        let errno = error.raw_os_error().map_or(Errno::ENOMEM, Errno::from_raw);
        Failure::new(errno, format_args!("no device: {error}"))
    })
}

/// There is one table for each process.
pub(crate) static GROUPS: Groups = Groups::new();
