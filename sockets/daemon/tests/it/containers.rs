//! Connections between two network namespaces whose processes have one daemon.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use weft_daemon::Config;
use weft_sockets::{Digests, Prefixes, Reason, ToProcess};

use crate::client::{Client, is_readable};
use crate::run::{Running, config};
use crate::space::Space;

/// The digests of the ends of a connection that has carried the same octet 20 times in each direction.
fn digests(forth: u8, back: u8) -> [Digests; 2] {
    let [written, received] = [forth, back].map(|octet| Prefixes::of(&[octet; 20]));
    let client = Digests { written, received };
    [client, client.mirrored()]
}

/// Tells the daemon of namespaces.
fn tell_networks(client: &Client, spaces: &[Space]) {
    for space in spaces {
        client.tell_network(space.run(|| UdpSocket::from(new_udp())));
    }
}

/// As the library makes it: both versions of IP, and no address yet.
fn new_udp() -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketType, socket};
    socket(AddressFamily::INET6, SocketType::DGRAM, None).expect("a socket")
}

/// A connection from a port of the first host to a port of the second one.
fn connection(spaces: &[Space; 2], ports: (u16, u16)) -> [TcpStream; 2] {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
    let [from, to] = spaces;
    let address =
        |space: &Space, port| std::net::SocketAddr::new(space.ip.parse().expect("an address"), port);
    let listener = to.run(|| TcpListener::bind(address(to, ports.1))).expect("a listener");
    let client = from.run(|| {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
        bind(&socket, &address(from, ports.0)).expect("a port");
        connect(&socket, &address(to, ports.1)).expect("a connection");
        TcpStream::from(socket)
    });
    let mut ends = [client, listener.accept().expect("a connection").0];
    for (from, octet) in [(0, 1), (1, 2)] {
        ends[from].write_all(&[octet; 20]).expect("sent");
        ends[1 - from].read_exact(&mut [0; 20]).expect("received");
    }
    ends
}

/// Waits until so many ends have a channel. Returns their slots with the link and the channel.
fn offers(client: &Client, number: usize) -> Vec<(u32, (u64, u32))> {
    let mut offers = Vec::new();
    while offers.len() < number {
        match client.mail().message {
            ToProcess::Offer { slot, link, channel, .. } => offers.push((slot, (link, channel))),
            ToProcess::LinkMade { .. } | ToProcess::PeerStatus { .. } | ToProcess::PeerBell { .. } => {}
            other => panic!("{other:?} and no offer"),
        }
    }
    offers.sort_unstable();
    offers
}

/// Waits until so many ends hear that they have no partner.
fn are_dropped(client: &Client, number: usize) {
    for _ in 0..number {
        let message = client.mail().message;
        assert!(matches!(message, ToProcess::Dropped { reason: Reason::NoPartner, .. }), "{message:?}");
    }
}

#[test]
fn two_namespaces_that_reach_each_other_share_memory() {
    let Some(spaces) = Space::two() else { return };
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    tell_networks(&client, &spaces);
    for port in [7000, 7001] {
        let ends = connection(&spaces, (5000, port));
        let [one, other] = digests(1, 2);
        let slots = [client.claim_with(&ends[0], one).0, client.claim_with(&ends[1], other).0];
        let offers = offers(&client, 2);
        assert_eq!(offers.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), slots);
        assert_eq!(offers[0].1, offers[1].1, "one channel");
    }
}

#[test]
fn without_a_way_between_them_two_namespaces_stay_on_tcp() {
    let Some(spaces) = Space::two() else { return };
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    tell_networks(&client, &spaces);
    let ends = connection(&spaces, (5000, 7000));
    // Nothing of UDP arrives in the second one.
    spaces[1].command(&["ip", "link", "set", "w", "down"]);
    let [one, other] = digests(1, 2);
    client.claim_with(&ends[0], one);
    client.claim_with(&ends[1], other);
    are_dropped(&client, 2);
}

#[test]
fn a_daemon_that_is_told_so_gives_no_memory_to_two_namespaces() {
    let Some(spaces) = Space::two() else { return };
    let daemon = Running::start(&Config { rdma_always: true, ..config() });
    let client = Client::registered(&daemon.address.to_string());
    tell_networks(&client, &spaces);
    let ends = connection(&spaces, (5000, 7000));
    let [one, other] = digests(1, 2);
    client.claim_with(&ends[0], one);
    client.claim_with(&ends[1], other);
    are_dropped(&client, 2);
}

#[test]
fn namespaces_of_which_no_process_has_given_a_socket_stay_on_tcp() {
    let Some(spaces) = Space::two() else { return };
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    tell_networks(&client, &spaces[..1]);
    let ends = connection(&spaces, (5000, 7000));
    let [one, other] = digests(1, 2);
    client.claim_with(&ends[0], one);
    client.claim_with(&ends[1], other);
    are_dropped(&client, 2);
}

/// Two networks have the same addresses, and their connections have the same ports and have said the same.
#[test]
fn equal_addresses_join_the_ends_of_each_connection() {
    let (Some(first), Some(second)) = (Space::two(), Space::two()) else { return };
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    tell_networks(&client, &first);
    tell_networks(&client, &second);
    let [one, other] = [&first, &second].map(|spaces| connection(spaces, (5000, 7000)));
    let [from, to] = digests(1, 2);
    // Of each connection one end comes before the other connection's second one.
    let a = client.claim_with(&one[0], from).0;
    let b = client.claim_with(&other[1], to).0;
    assert!(!is_readable(&client.port, Duration::from_millis(1500)), "two strangers were joined");
    let c = client.claim_with(&one[1], to).0;
    let d = client.claim_with(&other[0], from).0;
    let channels = offers(&client, 4);
    let channel = |slot| channels.iter().find(|(own, _)| *own == slot).expect("an offer").1;
    assert_eq!(channel(a), channel(c));
    assert_eq!(channel(b), channel(d));
    assert_ne!(channel(a), channel(b));
}

/// A socket that is another thing, or has an address, is none that the daemon may use.
#[test]
fn a_process_that_gives_another_socket_loses_its_port() {
    let daemon = Running::new();
    for number in 0..3 {
        let client = Client::registered(&daemon.address.to_string());
        match number {
            0 => client.tell_network(TcpListener::bind("127.0.0.1:0").expect("a listener")),
            1 => client.tell_network(UdpSocket::bind("127.0.0.1:0").expect("a socket")),
            _ => client.tell_network(std::fs::File::open("/dev/null").expect("a file")),
        }
        client.hear_end();
    }
}
