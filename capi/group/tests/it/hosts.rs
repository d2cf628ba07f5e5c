//! Replicas in this process, and how C programs find them.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weft_group::{Limits, Member, Server};
use weft_rnic::{Config, Device, Ground, Progress, Region};

/// Octets of each replica's memory.
pub(crate) const LEN: usize = 1 << 16;

/// A replica. One thread drives its device and serves its control plane, unless the replica is silent.
pub(crate) struct Host {
    memory: Arc<Region>,
    member: Member,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    is_silent: AtomicBool,
    is_over: AtomicBool,
    turns: AtomicU64,
}

impl Host {
    fn new(seed: u64, memory: Region) -> Self {
        let config = Config { progress: Progress::Manual, ..Config::host(Ipv4Addr::LOCALHOST.into(), seed) };
        let device = Device::open(Ground::Host, config).unwrap();
        let memory = Arc::new(memory);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let of = (Arc::clone(&memory), LEN as u64);
        let mut server = Server::new(&device, of, address, Limits::default()).unwrap();
        let (member, state) = (server.member(), Arc::new(State::default()));
        let seen = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            while !seen.is_over.load(Ordering::Acquire) {
                if !seen.is_silent.load(Ordering::Acquire) {
                    device.progress();
                    server.handle();
                }
                seen.turns.fetch_add(1, Ordering::Release);
                std::thread::sleep(PAUSE);
            }
        });
        Self { memory, member, state, thread: Some(thread) }
    }

    /// Returns the memory of the replica.
    pub(crate) fn contents(&self) -> Vec<u8> {
        let mut octets = vec![0; LEN];
        assert!(self.memory.copy_out(0, &mut octets));
        octets
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// Replicas, the head first.
pub(crate) struct Hosts(pub(crate) Vec<Host>);

impl Hosts {
    pub(crate) fn new(count: u64) -> Self {
        Self((0..count).map(|seed| Host::new(seed, Region::owned(LEN).unwrap())).collect())
    }

    /// Makes replicas whose memory is kept in these files.
    pub(crate) fn on_files(paths: &[PathBuf]) -> Self {
        let memory = |path| {
            let file =
                File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
            Region::on_file(file, LEN).unwrap()
        };
        Self((0..).zip(paths).map(|(seed, path)| Host::new(seed, memory(path))).collect())
    }

    /// Returns the option `members`.
    pub(crate) fn members(&self) -> String {
        let addresses: Vec<String> = self.0.iter().map(|host| host.member.address.to_string()).collect();
        addresses.join(",")
    }

    /// Has all replicas answer nothing, or go on.
    pub(crate) fn set_silent(&self, is_silent: bool) {
        for host in &self.0 {
            host.state.is_silent.store(is_silent, Ordering::Release);
            // The turn that was under way is over, and another one.
            let before = host.state.turns.load(Ordering::Acquire);
            while host.state.turns.load(Ordering::Acquire) < before + 2 {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

const PAUSE: Duration = Duration::from_micros(50);
