//! Hosts behind routers that change addresses, and hosts with equal addresses. A connection whose ends know it by
//! different addresses stays on TCP, and the connections of others keep their lanes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use weft_daemon::Lanes;

use crate::client::HANG;
use crate::lanes::{End, Host, hosts, lanes, talk};
use crate::space::Space;
use crate::told::Told;

/// A server, and two routers with a host behind each. The hosts have one private address.
struct Net {
    /// The server, and the first router.
    spaces: [Space; 2],
    second: Space,
    clients: [Space; 2],
}

impl Net {
    /// A net whose routers give their own addresses to what they pass on. `None`, and a line that says why, if there
    /// cannot be such a net here.
    fn new() -> Option<Self> {
        let net = Self::without_nat()?;
        if let Err(reason) = masquerade(&net.spaces[1], "w").and_then(|()| masquerade(&net.second, "x")) {
            println!("skipped: no router that changes addresses: {reason}");
            return None;
        }
        Some(net)
    }

    /// A net whose routers change nothing.
    fn without_nat() -> Option<Self> {
        let spaces = Space::two()?;
        let second = spaces[0].stranger();
        // To the server's address, by the second way.
        second.command(&["ip", "route", "add", "10.77.0.0/24", "via", "10.77.1.9"]);
        let clients = [&spaces[1], &second].map(|router| {
            let client = Space::new(PRIVATE).expect("a namespace");
            router.join("inside", GATEWAY, &client);
            client.command(&["ip", "route", "add", "default", "via", GATEWAY]);
            router.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).expect("a router");
            client
        });
        Some(Self { spaces, second, clients })
    }

    /// Connects a client to a port of the server, from the same port each.
    fn connect(&self, client: usize, listener: &TcpListener) -> Connection {
        let address = listener.local_addr().expect("an address");
        let near = self.clients[client].run(|| connected(PORT, address));
        let (far, peer) = listener.accept().expect("a connection");
        assert_ne!(peer.ip().to_string(), PRIVATE, "the router has changed the address");
        assert_eq!(near.local_addr().expect("an address").ip().to_string(), PRIVATE);
        for stream in [&near, &far] {
            stream.set_read_timeout(Some(HANG)).expect("an option");
        }
        Connection { near, far, turn: 0 }
    }

    fn listener(&self) -> TcpListener {
        let address: SocketAddr = ([10, 77, 0, 1], 0).into();
        self.spaces[0].run(|| TcpListener::bind(address)).expect("a listener")
    }
}

/// A connection through a router: the end of the client, and that of the server.
struct Connection {
    near: TcpStream,
    far: TcpStream,
    turn: usize,
}

impl Connection {
    /// Sends octets each way by TCP, which differ from those of other connections.
    fn exchange(&mut self, whose: usize) {
        self.turn += 1;
        let octets: Vec<u8> = (0..5000)
            .map(|at| u8::try_from((at * 7 + self.turn * 3 + whose * 101) % 251).expect("an octet"))
            .collect();
        for (mut from, mut to) in [(&self.near, &self.far), (&self.far, &self.near)] {
            from.write_all(&octets).expect("sent");
            let mut found = vec![0; octets.len()];
            to.read_exact(&mut found).expect("received");
            assert_eq!(found, octets, "octets of somebody else");
        }
    }
}

/// Both ends claim a connection. Returns what they are offered.
fn claim(connection: &Connection, client: &mut Host, server: &mut Host) -> [Option<End>; 2] {
    client.client.claim(&connection.near);
    server.client.claim(&connection.far);
    [client.offer(), server.offer()]
}

/// Has a router give its own address to all that leaves by an interface.
fn masquerade(router: &Space, interface: &str) -> Result<(), String> {
    let nft = format!(
        "add table ip weft; add chain ip weft out {{ type nat hook postrouting priority 100; }}; \
         add rule ip weft out oifname {interface} masquerade"
    );
    let by_iptables = ["iptables", "-t", "nat", "-A", "POSTROUTING", "-o", interface, "-j", "MASQUERADE"];
    let mut reasons = Vec::new();
    for words in [&["nft", &nft][..], &by_iptables] {
        match router.run(|| Command::new(words[0]).args(&words[1..]).output()) {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => reasons.push(format!("{}: {}", words[0], String::from_utf8_lossy(&output.stderr))),
            Err(error) => reasons.push(format!("{}: {error}", words[0])),
        }
    }
    Err(reasons.join("; ").replace('\n', " "))
}

/// Connects from a port of the caller's.
fn connected(port: u16, to: SocketAddr) -> TcpStream {
    let socket: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
    bind(&socket, &SocketAddr::from(([0, 0, 0, 0], port))).expect("a port");
    connect(&socket, &to).expect("a connection");
    socket.into()
}

/// The daemons find out when they greet each other.
#[test]
fn a_connection_through_a_router_stays_on_tcp() {
    let Some(net) = Net::new() else { return };
    let mut server = Host::new(&net.spaces[0], lanes());
    let mut client = Told::new(&net.clients[0], lanes(), "client");
    let listener = net.listener();
    let mut connection = net.connect(0, &listener);
    connection.exchange(0);
    let ends = claim(&connection, &mut client.host, &mut server);
    assert!(matches!(ends, [None, None]), "one of them has a ring");
    connection.exchange(0);
    assert_eq!(client.reason(), "addresses");
    assert_eq!(net.spaces[0].established(Lanes::PORT), 0, "a lane that can carry nothing");
}

/// The control: by the same way there is a lane if the router changes nothing.
#[test]
fn a_connection_through_a_router_that_changes_nothing_has_a_lane() {
    let Some(net) = Net::without_nat() else { return };
    let Net { spaces: [server, _router], clients: [client, _], .. } = net;
    server.command(&["ip", "route", "add", "192.168.5.0/24", "via", "10.77.0.2"]);
    let networks = || "10.77.0.0/16,192.168.5.0/24".parse().expect("networks");
    let spaces = [client, server];
    let mut hosts = [0, 1].map(|at: usize| Host::new(&spaces[at], Lanes { networks: networks(), ..lanes() }));
    let mut talking = talk(&spaces, &mut hosts);
    talking.exchange(&hosts);
    assert_eq!(spaces[1].established(Lanes::PORT), 1);
}

/// Two hosts have one private address, and connections from the same port to the same port of one server.
#[test]
fn hosts_with_one_private_address_stay_on_tcp() {
    let Some(net) = Net::new() else { return };
    let mut server = Host::new(&net.spaces[0], lanes());
    let mut clients = [0, 1].map(|at| Host::new(&net.clients[at], lanes()));
    let listener = net.listener();
    let mut connections = [0, 1].map(|at| net.connect(at, &listener));
    let ends = connections.each_ref().map(|connection| {
        (connection.near.local_addr().expect("an address"), connection.near.peer_addr().expect("an address"))
    });
    assert_eq!(ends[0], ends[1], "the clients know both connections by the same addresses");
    for (at, connection) in connections.iter_mut().enumerate() {
        clients[at].client.claim(&connection.near);
        server.client.claim(&connection.far);
        connection.exchange(at);
    }
    for (at, client) in clients.iter_mut().enumerate() {
        assert!(client.offer().is_none() && server.offer().is_none(), "client {at} has a ring");
    }
    connections.iter_mut().enumerate().for_each(|(at, connection)| connection.exchange(at));
}

/// The router has a daemon as well, and a connection of its own to the server. To the server it has the same address as
/// the host behind it.
#[test]
fn a_host_behind_a_router_leaves_the_routers_lane_alone() {
    let Some(net) = Net::new() else { return };
    let mut hosts = hosts(&net.spaces, [None, None]);
    let mut talking = talk(&net.spaces, &mut hosts);
    let mut client = Host::new(&net.clients[0], lanes());
    let listener = net.listener();
    let mut connection = net.connect(0, &listener);
    connection.exchange(0);
    assert!(matches!(claim(&connection, &mut client, &mut hosts[0]), [None, None]), "one of them has a ring");
    connection.exchange(0);
    talking.exchange(&hosts);
    assert_eq!(net.spaces[0].established(Lanes::PORT), 1, "the lane of the router");
    talk(&net.spaces, &mut hosts);
}

/// The address of both hosts behind the routers, and of the routers there.
const PRIVATE: &str = "192.168.5.2";
const GATEWAY: &str = "192.168.5.1";
/// From this port the clients connect.
const PORT: u16 = 40_777;
