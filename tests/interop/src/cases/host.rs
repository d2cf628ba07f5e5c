//! rdma-core's rping in the guest against `weft rping` on the TCP of this machine, through QEMU's user network. The
//! guest sees a router, and this machine a program that connects and listens.

use std::net::TcpListener;
use std::time::Duration;

use crate::bench::{Bench, Role};
use crate::cases::rping::{SIZES, client, expect};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    set_up(bench)?;
    for size in SIZES {
        let pinged = match bench.role {
            Role::Passive => to_guest(bench, &size.to_string()),
            Role::Active => from_guest(bench, &size.to_string()),
        };
        pinged.map_err(|error| format!("{size} octets: {error}"))?;
    }
    Ok(())
}

/// Brings up the second interface, with siw on it.
pub(crate) fn set_up(bench: &Bench<'_>) -> Result<(), String> {
    bench.guest.run(SET_UP, SET_UP_TIME).map(drop)
}

/// Pings the server in the guest through a port of this machine.
fn to_guest(bench: &Bench<'_>, size: &str) -> Result<(), String> {
    // The server's buffer has the size of its own option, whatever the client says.
    let server = bench.guest.start(&format!("rping -s -a 10.0.2.15 -S {size}"))?;
    bench.guest.wait_listening(7174)?;
    let (address, port) =
        (bench.guest.forwarded().ip().to_string(), bench.guest.forwarded().port().to_string());
    let args = ["rping", "-c", "-a", &address, "-p", &port, "-C", COUNT, "-S", size];
    expect(&bench.weft_on_host(&args)?.finish(PATIENCE)?, &format!("{COUNT} pings of {size} octets"))?;
    // rping's server reports the client's departure as an error. It counts only that the server has ended by itself.
    server.wait(PATIENCE).map(drop)
}

/// Lets the guest ping this machine, whose address there is the user network's router.
fn from_guest(bench: &Bench<'_>, size: &str) -> Result<(), String> {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = free.map_err(|error| error.to_string())?.port().to_string();
    let server = bench.weft_on_host(&["rping", "-s", "-p", &port])?;
    // A client that comes too early is refused, as by any server that has not started yet.
    let ping = client(&format!("-a 10.0.2.2 -p {port} -V -C {COUNT} -S {size}"));
    let client = bench
        .guest
        .run(&format!("for try in 1 2 3 4 5; do {{ {ping}; }} && exit; sleep 1; done; exit 1"), PATIENCE);
    let said = server.finish(if client.is_ok() { PATIENCE } else { Duration::ZERO });
    client?;
    expect(&said?, &format!("was served {COUNT} pings"))
}

/// The interface is set up once, as the guest serves several cases.
const SET_UP: &str = "rdma link show siw1/1 2>/dev/null || { /bin/ip addr add 10.0.2.15/24 dev eth1 && \
    /bin/ip link set eth1 up && rdma link add siw1 type siw netdev eth1; }";
const COUNT: &str = "40";
const SET_UP_TIME: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(120);
