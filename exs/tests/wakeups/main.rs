//! Which threads wake for a message. No other test of the process has threads of the same names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use weft_exs::{Buf, Context, Messages, Options, Socket};
use weft_rnic::{Config, Ground};

/// Threads that wait for messages drive the device themselves. The thread of the context sleeps on.
#[test]
fn a_message_wakes_the_thread_that_waits_for_it_and_no_other() {
    const ROUNDS: u64 = 2000;
    let world = (context(1), context(2));
    let options = Options::default();
    let listener = world.1.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    let (accepting, connecting) = (listener.accept(), world.0.connect(listener.local_addr(), &options));
    let (ours, theirs) = (connecting.wait().unwrap(), accepting.wait().unwrap());
    let echo = |socket: Socket<Messages>, mut buf: Buf, is_first: bool| {
        for _ in 0..ROUNDS {
            for is_send in [is_first, !is_first] {
                let op = if is_send { socket.send(buf, ..64) } else { socket.recv(buf, ..64) };
                let (outcome, back) = op.wait_timeout(PATIENCE).unwrap();
                assert_eq!(outcome.unwrap().octets, 64);
                buf = back;
            }
        }
    };
    let (left, right) = (world.0.buffer(64).unwrap(), world.1.buffer(64).unwrap());
    let Some(contexts) = sleeps("weft-exs") else {
        return println!("skipped: /proc does not tell of threads");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| echo(ours, left, true));
        scope.spawn(|| echo(theirs, right, false));
    });
    let contexts = sleeps("weft-exs").unwrap() - contexts;
    assert!(contexts < ROUNDS / 10, "threads of contexts woke {contexts} times");
}

/// Counts how often the threads of this name have gone to sleep; `None` if the system does not tell.
fn sleeps(name: &str) -> Option<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let folder = task.ok()?.path();
        let comm = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        if comm.trim_end().starts_with(name) {
            let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
            let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            sum += count.trim().parse::<u64>().ok()?;
        }
    }
    Some(sum)
}

fn context(seed: u64) -> Context {
    Context::open(Ground::Host, Config::host(LOCAL, seed)).unwrap()
}

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(60);
