//! `weft rping` over the operating system's TCP: two processes of an ordinary user.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicU16, Ordering};

use weft_conform::octets::{fpdu, send};

use crate::process::{Finished, PATIENCE, Process, weft};
use crate::rping::{PINGS, SIZES, check_pings};

/// Starts `weft` as an ordinary user, also if this process is root's.
fn start(line: &str) -> Process {
    let mut command = weft();
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    Process::start(command.args(line.split_whitespace()))
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Returns a port that no other test has. It lies below the ports that the kernel gives to clients.
///
/// To ask the kernel by a socket would not do: a process that another test starts at that moment keeps the socket open
/// until its exec, and the server would find the port in use.
fn fresh_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + std::process::id() % 500 * 40;
    u16::try_from(first).unwrap() + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns a server that listens, and its port. The connection that finds this out brings no Request: the server has to
/// bear that.
fn serve(address: IpAddr, flags: &str) -> (Process, u16) {
    let port = fresh_port();
    let mut server = start(&format!("rping -s -p {port} --netif host {flags}"));
    while TcpStream::connect((address, port)).is_err() {
        assert!(!server.has_ended(), "{:?}", server.finish());
        std::thread::yield_now();
    }
    (server, port)
}

fn ping(address: IpAddr, port: u16, flags: &str) -> Finished {
    start(&format!("rping -c -a {address} -p {port} --netif host {flags}")).finish()
}

/// Returns a client that finishes MPA's startup, by a Request of revision 1, and is silent then.
fn silent_client(port: u16) -> TcpStream {
    let mut client = TcpStream::connect((V4, port)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"MPA ID Req Frame\x40\x01\0\0").unwrap();
    let mut reply = [0; 20];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply, *b"MPA ID Rep Frame\x40\x01\0\0");
    client
}

/// Returns the server's line about a client that was silent for a second.
fn given_up(client: &TcpStream) -> String {
    let client = client.local_addr().unwrap();
    format!("weft rping: {client}: given up after 1 s of silence (--silence)")
}

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const NOBODY: u32 = 65_534;

#[test]
fn every_size_between_two_processes_of_an_ordinary_user() {
    for address in [V4, V6] {
        for size in SIZES {
            // Without an address the server takes both families.
            let (server, port) = serve(address, "-v");
            let client = ping(address, port, &format!("-v -C {PINGS} -S {size}"));
            check_pings(&client, &server.finish(), size);
        }
    }
}

#[test]
fn one_address_each_framing_and_many_clients() {
    let (server, port) = serve(V4, "-P -a 127.0.0.1");
    assert!(TcpStream::connect((V6, port)).is_err());
    for flags in ["--no-crc", "--markers", "--no-p2p", "--no-crc --markers", ""] {
        let client = ping(V4, port, &format!("-C 3 -S 100000 {flags}"));
        assert_eq!((client.status, client.stderr.len()), (0, 0), "{flags}: {client:?}");
        let line = server.line();
        assert!(line.starts_with("127.0.0.1:") && line.ends_with(" was served 3 pings"), "{line}");
    }
    let (unmarked, port) = serve(V4, "-v --no-crc");
    let client = ping(V4, port, &format!("-v -C {PINGS} -S 5000 --no-crc"));
    check_pings(&client, &unmarked.finish(), 5000);
}

#[test]
fn no_listener_a_port_in_use_and_a_killed_client() {
    let port = fresh_port();
    let client = ping(V4, port, "");
    assert_eq!((client.status, client.stderr.len()), (1, 1), "{client:?}");
    assert!(client.stderr[0].starts_with(&format!("weft rping: 127.0.0.1:{port}: ")), "{client:?}");
    let (server, port) = serve(V4, "-P");
    let second = start(&format!("rping -s -p {port} --netif host")).finish();
    assert_eq!(second.status, 1);
    assert_eq!(second.stderr, [format!("weft rping: port {port}: the port is in use already")]);
    let mut client = start(&format!("rping -c -a 127.0.0.1 -p {port} --netif host -v"));
    assert!(client.line().starts_with("ping data: "));
    client.kill();
    // The kernel closes the connection of a killed process by FIN, or by RST if octets are unread. In both cases the
    // next client is served.
    let client = ping(V4, port, "-C 2");
    assert_eq!((client.status, client.stderr.len()), (0, 0), "{client:?}");
    while !server.line().ends_with(" was served 2 pings") {}
}

#[test]
fn a_silent_client_does_not_keep_others_waiting() {
    let (server, port) = serve(V4, "-P");
    let silent = [silent_client(port), silent_client(port)];
    for pings in [1, 3] {
        let client = ping(V4, port, &format!("-C {pings}"));
        assert_eq!((client.status, client.stderr.len()), (0, 0), "{client:?}");
        assert!(server.line().ends_with(&format!(" was served {pings} pings")));
    }
    drop(silent);
    for _ in 0..2 {
        assert!(server.line().ends_with(" was served 0 pings"));
    }
}

#[test]
fn a_client_that_is_silent_for_too_long_is_given_up() {
    let (server, port) = serve(V4, "-P --silence 1");
    let mut silent = silent_client(port);
    assert_eq!(server.complaint(), given_up(&silent));
    // A reset or FIN: the connection is gone.
    assert!(matches!(silent.read(&mut [0; 1]), Ok(0) | Err(_)));
    let client = ping(V4, port, "-C 2");
    assert_eq!((client.status, client.stderr.len()), (0, 0), "{client:?}");
    assert!(server.line().ends_with(" was served 2 pings"));
    // A server for one client ends with that client.
    let (server, port) = serve(V4, "--silence 1");
    let silent = silent_client(port);
    let server = server.finish();
    assert_eq!((server.status, server.stderr), (1, vec![given_up(&silent)]));
}

/// 64 clients with pings of this size need 256 MiB.
#[test]
fn a_client_that_wants_more_than_its_share_of_memory_is_refused() {
    const SHARE: u32 = 4 << 20;
    let (server, port) = serve(V4, "-P");
    let advertise = |size: u32| {
        let mut client = silent_client(port);
        let source = [&[0; 12], &size.to_be_bytes()[..]].concat();
        client.write_all(&fpdu(&send(1, &source))).unwrap();
        client
    };
    let mut modest = advertise(SHARE);
    // A Read Request is 46 octets in an FPDU of 52.
    let mut request = [0; 52];
    modest.read_exact(&mut request).unwrap();
    assert_eq!((&request[..4], &request[32..36]), (&[0, 46, 0x41, 0x41][..], &SHARE.to_be_bytes()[..]));
    for size in [SHARE + 1, 16 << 20, u32::MAX] {
        let mut greedy = advertise(size);
        let address = greedy.local_addr().unwrap();
        let reason = format!("the client wants pings of {size} octets; at most {SHARE} are taken");
        assert_eq!(server.complaint(), format!("weft rping: {address}: {reason}"));
        // A reset or FIN: the connection is gone.
        assert!(matches!(greedy.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
    let client = ping(V4, port, "-C 2 -S 1048576");
    assert_eq!((client.status, client.stderr.len()), (0, 0), "{client:?}");
    assert!(server.line().ends_with(" was served 2 pings"));
    drop(modest);
    assert!(server.line().ends_with(" was served 0 pings"));
}

#[test]
fn many_clients_are_served_at_once() {
    let (server, port) = serve(V4, "-P");
    let client = || start(&format!("rping -c -a 127.0.0.1 -p {port} --netif host -v -S 1000"));
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| client()).collect();
    // They ping without end. Each is served while all are there.
    for client in &clients {
        assert!(client.line().starts_with("ping data: "));
    }
    for client in &clients {
        for _ in 0..3 {
            assert!(client.line().starts_with("ping data: "));
        }
    }
    clients.iter_mut().for_each(Process::kill);
    let last = ping(V4, port, "-C 2");
    assert_eq!((last.status, last.stderr.len()), (0, 0), "{last:?}");
    drop(server);
}

const CLIENTS: usize = 12;
