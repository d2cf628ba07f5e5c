//! Containers of one host: connections between network namespaces whose processes have the same daemon.
//!
//! Namespaces may have equal addresses, and programs of two connections may begin alike. So two claims of different
//! namespaces do not prove that they are the two ends of one connection. The daemon asks the network: each process has given
//! it a UDP socket of its namespace. A datagram with a secret number goes from the address of one end to that of the other
//! one, and another one goes back. If both arrive in the right namespace from the right address, the addresses reach each
//! other, and a connection between them has its ends in these two namespaces.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, bind, getsockname, ipproto};
use rustix::net::{recvfrom, sendto, sockopt};
use weft_sockets::Claimant;

use crate::foreign::Foreign;
use crate::kernel::{namespace_of, random};

/// What the daemon knows of the namespaces of its processes. Time is an argument.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    /// Connections between namespaces get no memory.
    pub(crate) is_off: bool,
    /// The sockets of the processes, by port and namespace.
    pub(crate) stations: BTreeMap<Name, Station>,
    /// The ports with a socket in each namespace of a user.
    pub(crate) spaces: BTreeMap<(u32, u64), BTreeSet<u64>>,
    pub(crate) probes: Vec<Probe>,
    /// The pairs of places that reach each other, and until when that is believed.
    pub(crate) proofs: HashMap<[Place; 2], Duration>,
}

/// A port and a namespace.
pub(crate) type Name = (u64, u64);
/// An address in a namespace.
pub(crate) type Place = (u64, IpAddr);

/// A UDP socket in a namespace.
#[derive(Debug)]
pub(crate) struct Station {
    /// The user of the process that has given it.
    pub(crate) uid: u32,
    file: Foreign,
    port: u16,
    is_v6: bool,
}

/// The question whether two places reach each other.
#[derive(Debug)]
pub(crate) struct Probe {
    places: [Place; 2],
    pub(crate) stations: [Name; 2],
    /// What each place sends.
    secrets: [[u8; SECRET]; 2],
    /// Whether that has arrived.
    arrived: [bool; 2],
    /// The claims that wait for the answer, the earlier one of each connection first.
    claims: Vec<[Claimant; 2]>,
    /// When the next look is due, and how long after the last one that is.
    pub(crate) next: Duration,
    pause: Duration,
}

/// A datagram that came to a station.
struct Arrival {
    station: Name,
    from: SocketAddr,
    secret: [u8; SECRET],
}

impl Containers {
    /// The namespaces of a user's processes.
    pub(crate) fn namespaces(&self, uid: u32) -> Vec<u64> {
        let spaces = self.spaces.range((uid, 0)..=(uid, u64::MAX));
        spaces.map(|((_, namespace), _)| *namespace).take(NAMESPACES).collect()
    }

    pub(crate) fn station(&self, uid: u32, namespace: u64) -> Option<Name> {
        let port = self.spaces.get(&(uid, namespace))?.first()?;
        Some((*port, namespace))
    }

    /// Sends a datagram from each place to the other one, unless that was done already.
    pub(crate) fn ask(&mut self, uid: u32, places: [Place; 2], claims: [Claimant; 2], now: Duration) {
        let of_user = |probe: &&mut Probe| {
            let station = self.stations.get(&probe.stations[0]);
            probe.places == places && station.is_some_and(|station| station.uid == uid)
        };
        if let Some(probe) = self.probes.iter_mut().find(of_user) {
            if probe.claims.len() < CLAIMS {
                probe.claims.push(claims);
            }
            return;
        }
        let stations = places.map(|(namespace, _)| self.station(uid, namespace));
        let [Some(first), Some(second)] = stations else { return };
        let (Ok(one), Ok(other)) = (random(), random()) else { return };
        if self.probes.len() >= PROBES {
            return;
        }
        let probe = Probe {
            places,
            stations: [first, second],
            secrets: [one, other],
            arrived: [false; 2],
            claims: vec![claims],
            next: now,
            pause: FIRST_PAUSE,
        };
        self.send(&probe);
        self.probes.push(probe);
    }

    /// Sends the datagrams of a probe that have not arrived.
    fn send(&self, probe: &Probe) {
        for from in (0..2).filter(|from| !probe.arrived[*from]) {
            let [here, there] = [from, 1 - from].map(|at| self.stations.get(&probe.stations[at]));
            let (Some(here), Some(there)) = (here, there) else { continue };
            let to = SocketAddr::new(probe.places[1 - from].1, there.port);
            let text = [MAGIC.as_slice(), &probe.secrets[from]].concat();
            // Without a way nothing arrives.
            let _sent = sendto(&here.file, &text, SendFlags::DONTWAIT, &here.mapped(to));
        }
    }

    /// Takes what has arrived. Returns the claims of the places that reach each other.
    pub(crate) fn look(&mut self, now: Duration) -> Vec<[Claimant; 2]> {
        let due: BTreeSet<Name> =
            self.probes.iter().filter(|probe| probe.next <= now).flat_map(|probe| probe.stations).collect();
        if due.is_empty() {
            return Vec::new();
        }
        for name in due {
            let arrivals = self.stations.get(&name).map(|station| station.receive(name)).unwrap_or_default();
            for arrival in arrivals {
                self.take(&arrival);
            }
        }
        self.proofs.retain(|_, end| now < *end);
        let (proven, open): (Vec<_>, _) =
            core::mem::take(&mut self.probes).into_iter().partition(|probe| probe.arrived == [true; 2]);
        self.probes = open;
        for probe in &proven {
            let [one, other] = probe.places;
            for places in [[one, other], [other, one]] {
                self.proofs.insert(places, now + PROOF_LIFE);
            }
        }
        self.probes.retain(|probe| probe.pause < LAST_PAUSE);
        for at in 0..self.probes.len() {
            if self.probes[at].next <= now {
                self.send(&self.probes[at]);
                self.probes[at].pause *= 2;
                self.probes[at].next = now + self.probes[at].pause;
            }
        }
        proven.into_iter().flat_map(|probe| probe.claims).collect()
    }

    /// Notes what has arrived, if it is a secret that came from its place to the other one.
    fn take(&mut self, arrival: &Arrival) {
        for probe in &mut self.probes {
            for from in 0..2 {
                let port = self.stations.get(&probe.stations[from]).map(|station| station.port);
                let is_its = probe.secrets[from] == arrival.secret
                    && probe.stations[1 - from] == arrival.station
                    && probe.places[from].1 == arrival.from.ip()
                    && port == Some(arrival.from.port());
                probe.arrived[from] |= is_its;
            }
        }
    }
}

impl Station {
    /// Takes a socket, and returns it with its namespace. `None` if it is another kind of socket, or used already.
    pub(crate) fn new(uid: u32, file: Foreign) -> Option<(u64, Self)> {
        let is_udp = sockopt::socket_type(&file) == Ok(SocketType::DGRAM)
            && sockopt::socket_protocol(&file) == Ok(Some(ipproto::UDP));
        let is_v6 = match sockopt::socket_domain(&file) {
            Ok(AddressFamily::INET6) => true,
            Ok(AddressFamily::INET) => false,
            _ => return None,
        };
        let namespace = namespace_of(&file).ok().filter(|_| is_udp)?;
        if is_v6 {
            sockopt::set_ipv6_v6only(&file, false).ok()?;
        }
        let any = if is_v6 { IpAddr::from([0; 16]) } else { IpAddr::from([0; 4]) };
        bind(&file, &SocketAddr::new(any, 0)).ok()?;
        let port = SocketAddr::try_from(getsockname(&file).ok()?).ok()?.port();
        // Its last close waits for nobody.
        Some((namespace, Self { uid, file: file.found_harmless(), port, is_v6 }))
    }

    /// Returns an address as this socket names it.
    fn mapped(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) if self.is_v6 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
            _ => address,
        }
    }

    /// Takes the daemon's datagrams that have come, at most a share of all. Anybody may send others.
    fn receive(&self, station: Name) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for _ in 0..SHARE {
            let mut text = [0; MAGIC.len() + SECRET + 1];
            match recvfrom(self.file.as_fd(), &mut text, RecvFlags::DONTWAIT) {
                Ok((len, _, from)) => {
                    let secret = text.get(..len).and_then(|text| text.strip_prefix(&MAGIC));
                    let secret = secret.and_then(|secret| secret.try_into().ok());
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    if let Some((secret, from)) = secret.zip(from) {
                        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                        arrivals.push(Arrival { station, from, secret });
                    }
                }
                // The kernel tells once that a datagram was refused.
                Err(Errno::CONNREFUSED | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        arrivals
    }
}

/// Octets of a secret.
const SECRET: usize = 16;
/// What each datagram begins with.
const MAGIC: [u8; 8] = *b"weft-net";
/// Datagrams that are read in a row.
const SHARE: usize = 64;
/// Probes at a time, and claims that wait for one.
const PROBES: usize = 256;
const CLAIMS: usize = 1024;
/// Namespaces of a user that are looked at.
const NAMESPACES: usize = 1024;
/// A datagram between two namespaces arrives at once, as a rule. The pauses between looks double until the last one.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// How long it is believed that two places reach each other. A container may give its address to another one.
const PROOF_LIFE: Duration = Duration::from_secs(10);
