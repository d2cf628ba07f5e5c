//! A daemon in a thread of the test.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use weft_daemon::{Address, Config, Daemon, Rules};

pub(crate) struct Running {
    pub(crate) address: Address,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Settings for a daemon with an address that no other test has.
pub(crate) fn config() -> Config {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let address = format!("@weft-test-{}-{number}", std::process::id()).parse().expect("an address");
    Config { address, rules: Rules::default(), lanes: None, linger: None, rdma_always: false }
}

impl Running {
    pub(crate) fn start(config: &Config) -> Self {
        Self::run(Daemon::start(config).expect("a daemon"), config)
    }

    /// Takes the place of the daemon at the address.
    pub(crate) fn replace(config: &Config) -> Self {
        Self::run(Daemon::replace(config).expect("a daemon"), config)
    }

    /// Waits until the daemon has left by itself.
    pub(crate) fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }

    /// Runs a daemon that has been made with these settings.
    pub(crate) fn run(daemon: Daemon, config: &Config) -> Self {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd"));
        let thread = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || daemon.run(&*stop).expect("a daemon that runs"))
        };
        Self { address: config.address.clone(), stop, thread: Some(thread) }
    }

    pub(crate) fn new() -> Self {
        Self::start(&config())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _stopped = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn a_second_daemon_does_not_get_the_address() {
    let first = Running::new();
    let error = Daemon::start(&Config { address: first.address.clone(), ..config() }).expect_err("taken");
    assert!(error.to_string().contains("another daemon has the address @weft-test"), "{error}");
}

#[test]
fn a_path_that_a_killed_daemon_has_left_is_taken_again() {
    let path = std::env::temp_dir().join(format!("weft-daemon-{}", std::process::id()));
    let address: Address = path.to_str().expect("a path").parse().expect("an address");
    let left = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    drop(left);
    let config = Config { address, ..config() };
    let running = Running::start(&config);
    assert!(Daemon::start(&config).is_err(), "this one lives");
    drop(running);
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let path = std::env::temp_dir().join(format!("weft-daemon-file-{}", std::process::id()));
    std::fs::write(&path, "notes").expect("a file");
    let address: Address = path.to_str().expect("a path").parse().expect("an address");
    let error = Daemon::start(&Config { address, ..config() }).expect_err("no place");
    assert!(error.to_string().contains("is no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "notes");
    std::fs::remove_file(path).expect("the file");
}

#[test]
fn a_descriptor_that_is_given_away_stops_the_daemon() {
    let stop = eventfd(1, EventfdFlags::CLOEXEC).expect("an eventfd");
    Daemon::start(&config()).expect("a daemon").run(stop).expect("an end");
}

#[test]
fn a_daemon_without_processes_ends_if_it_is_to() {
    let config = Config { linger: Some(Duration::from_millis(1)), ..config() };
    let never = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    Daemon::start(&config).expect("a daemon").run(never).expect("it ends by itself");
}
