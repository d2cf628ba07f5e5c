//! `xdp:` across a veth. The kernel lets only root run a program there, so these tests need root.

use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use weft_netif::{Instant, Spec, StackConfig, Wire};

use crate::namespace::{Neighbor, in_namespace, in_namespace_of_root, ip};
use crate::process::{PATIENCE, Process, run};
use crate::rping::{PINGS, check_pings};
use crate::support::skip;

/// Runs `body` with a veth whose ends are both up, if the kernel allows programs for XDP.
pub(crate) fn with_veth(name: &str, body: fn()) {
    if std::env::var_os("WEFT_TEST_NAMESPACE").is_some() {
        ip(&["link add weft0 type veth peer name weft1", "link set weft0 up", "link set weft1 up"]);
        let refused = Wire::open(&xdp("weft0", None), 1500).err().map(|error| error.to_string());
        if let Some(reason) =
            refused.filter(|text| text.contains("needs CAP") || text.contains("has no AF_XDP"))
        {
            return skip(&format!("{name}: {reason}"));
        }
    }
    in_namespace_of_root(name, VETH, body);
}

/// A neighbor at the other end of the veth, with the addresses of both kernels there.
fn neighbor_with(theirs: &[&str], ours: &[&str]) -> Neighbor {
    let neighbor = Neighbor::new();
    neighbor.take("weft1");
    neighbor.ip("link set weft1 up");
    for address in theirs {
        neighbor.ip(&format!("addr add {address} dev weft1 nodad"));
    }
    ip(&["link set lo up"]);
    for address in ours {
        ip(&[&format!("addr add {address} dev weft0 nodad")]);
    }
    neighbor
}

/// Waits until a server listens. The connection that shows it brings no Request: the server has to bear that.
fn await_server(address: &str) {
    while TcpStream::connect((address, PORT)).is_err() {
        std::thread::yield_now();
    }
}

fn xdp(interface: &str, queue: Option<u32>) -> Spec {
    Spec::Xdp { interface: interface.into(), queue }
}

/// The frames that the kernel sees, tags included.
fn packet(interface: &str) -> Wire {
    Wire::open(&Spec::PlainPacket(interface.into()), 1500).unwrap()
}

fn refusal(line: &str, mtu: usize) -> String {
    Wire::open(&line.parse().unwrap(), mtu).unwrap_err().to_string()
}

/// Returns the sender's frames at each of the wires, when there are `count` of them. The kernel sends others of its
/// own.
fn arrivals(wires: &mut [&mut Wire], count: usize) -> Vec<Vec<Vec<u8>>> {
    let mut came = vec![Vec::new(); wires.len()];
    let mut frame = Vec::new();
    while came.iter().map(Vec::len).sum::<usize>() < count {
        for (wire, came) in wires.iter_mut().zip(&mut came) {
            while wire.receive(Instant::ZERO, &mut frame) {
                if frame[6..12] == SENDER {
                    came.push(frame.clone());
                }
            }
        }
        std::thread::yield_now();
    }
    came
}

/// Sends a frame until it has come: a busy kernel may lose some.
fn pass(from: &mut Wire, to: &mut Wire, frame: &[u8]) {
    let mut came = Vec::new();
    loop {
        from.send(Instant::ZERO, frame);
        while to.receive(Instant::ZERO, &mut came) {
            if came == frame {
                return;
            }
        }
        std::thread::yield_now();
    }
}

fn is_readable_within(wire: &Wire, patience: Duration) -> bool {
    let fd = wire.poll_fd().unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&patience.try_into().unwrap())) == Ok(1)
}

fn ethernet(to: [u8; 6], kind: [u8; 2], rest: &[u8]) -> Vec<u8> {
    [&to[..], &SENDER, &kind, rest, &[0; 46][rest.len().min(46)..]].concat()
}

fn arp_request(target: [u8; 4]) -> Vec<u8> {
    let rest = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &SENDER, &[10, 0, 0, 9], &[0; 6], &target].concat();
    ethernet([0xFF; 6], [8, 6], &rest)
}

/// Returns TCP in IPv4 to 10.0.0.1, with arbitrary contents.
fn segment(to: [u8; 6], port: u16) -> Vec<u8> {
    let header = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1];
    ethernet(to, [8, 0], &[&header[..], &port.to_be_bytes(), &[0, 7], &[0; 16]].concat())
}

#[test]
fn rping_with_packet_and_with_itself() {
    with_veth("xdp::rping_with_packet_and_with_itself", || {
        let neighbor = neighbor_with(&[], &[]);
        let families = [["10.0.0.1/24", "10.0.0.2/24", "10.0.0.1"], ["fd00::1/64", "fd00::2/64", "fd00::1"]];
        for [server_ip, client_ip, address] in families {
            for [left, right] in [["xdp", "packet"], ["packet", "xdp"], ["xdp", "xdp"]] {
                for size in [1, 4096, 65_536] {
                    let server = Process::weft(&format!("rping -s -v --netif {left}:weft0 --ip {server_ip}"));
                    let me = format!("--netif {right}:weft1 --ip {client_ip} -a {address}");
                    let client = neighbor.weft(&format!("rping -c -v -C {PINGS} -S {size} {me}"));
                    check_pings(&client.finish(), &server.finish(), size);
                }
            }
        }
    });
}

/// The kernel's TCP leaves checksums to hardware that is not there.
#[test]
fn rping_with_the_kernels_tcp() {
    with_veth("xdp::rping_with_the_kernels_tcp", || {
        let neighbor = neighbor_with(&[], &["10.0.0.2/24", "fd00::2/64"]);
        for [own, theirs, ours] in
            [["10.0.0.1/24", "10.0.0.1", "10.0.0.2"], ["fd00::1/64", "fd00::1", "fd00::2"]]
        {
            for size in [1, 4096, 65_536] {
                let ping = format!("rping -c -v -C {PINGS} -S {size}");
                let server = neighbor.weft(&format!("rping -s -v --netif xdp:weft1 --ip {own}"));
                await_server(theirs);
                let client = Process::weft(&format!("{ping} --netif host -a {theirs}"));
                check_pings(&client.finish(), &server.finish(), size);
                let server = Process::weft(&format!("rping -s -v --netif host -a {ours}"));
                await_server(ours);
                let client = neighbor.weft(&format!("{ping} --netif xdp:weft1 --ip {own} -a {ours}"));
                check_pings(&client.finish(), &server.finish(), size);
            }
        }
    });
}

/// While the station works, its kernel still sends and receives by the same interface. When the station's process is
/// killed, its program goes with it.
#[test]
fn the_kernels_own_traffic_goes_on() {
    with_veth("xdp::the_kernels_own_traffic_goes_on", || {
        let neighbor = neighbor_with(&["10.0.0.3/24", "fd00::3/64"], &["10.0.0.2/24", "fd00::2/64"]);
        let station = "rping -s -P --netif xdp:weft1 --ip 10.0.0.1/24";
        let mut first = neighbor.weft(station);
        await_server("10.0.0.1");
        let busy = Process::weft("rping -c -v --netif host -a 10.0.0.1");
        busy.line();
        for [theirs, ours] in [["10.0.0.3", "10.0.0.2"], ["fd00::3", "fd00::2"]] {
            let ping = format!("rping -c -v -C {PINGS} -S 4096 --netif host");
            let server = neighbor.weft(&format!("rping -s -v --netif host -a {theirs}"));
            await_server(theirs);
            let client = Process::weft(&format!("{ping} -a {theirs}"));
            check_pings(&client.finish(), &server.finish(), 4096);
            let server = Process::weft(&format!("rping -s -v --netif host -a {ours}"));
            await_server(ours);
            check_pings(&neighbor.weft(&format!("{ping} -a {ours}")).finish(), &server.finish(), 4096);
        }
        busy.line();
        let taken = neighbor.weft("rping -s --netif xdp:weft1 --ip 10.0.0.4/24").finish();
        let text =
            "weft rping: xdp:weft1: another program has XDP on this interface or a socket on this queue";
        assert_eq!((taken.status, taken.stderr), (2, vec![text.to_owned()]));
        first.kill();
        drop(first.finish());
        let _second = neighbor.weft(station);
        await_server("10.0.0.1");
    });
}

/// Each frame goes to the station, or to the kernel and its listeners.
#[test]
fn frames_go_to_the_station_or_to_the_kernel() {
    with_veth("xdp::frames_go_to_the_station_or_to_the_kernel", || {
        let station = StackConfig::new("10.0.0.1/24".parse().unwrap());
        let mut sender = packet("weft1");
        let mut wire = Wire::open(&xdp("weft0", None), 1500).unwrap();
        let mut kernel = packet("weft0");
        let other = [2, 0, 0, 0, 0, 7];
        let frames = [
            segment(station.mac, 1),
            arp_request([10, 0, 0, 1]),
            ethernet(station.mac, [0x88, 0xB5], &[1]),
            ethernet(station.mac, [0x81, 0], &[0x60, 5, 8, 0]),
            segment(other, 2),
            arp_request([10, 0, 0, 3]),
            ethernet([0xFF; 6], [0x88, 0xB5], &[2]),
            ethernet([0x33, 0x33, 0, 0, 0, 1], [0x86, 0xDD], &[0x60]),
        ];
        let mut exchange = |wire: &mut Wire| {
            frames.iter().for_each(|frame| sender.send(Instant::ZERO, frame));
            arrivals(&mut [wire, &mut kernel], frames.len())
        };
        assert_eq!(exchange(&mut wire), [vec![], frames.to_vec()], "nobody has claimed any");
        wire.claim(station.mac, station.ip.address).unwrap();
        for _ in 0..2 {
            assert_eq!(exchange(&mut wire), [frames[..4].to_vec(), frames[4..].to_vec()]);
        }
        assert_eq!(wire.counters().receive_lost, 0);
        drop(wire);
        let mut wire = Wire::open(&xdp("weft0", Some(0)), 1500).unwrap();
        assert_eq!(exchange(&mut wire), [vec![], frames.to_vec()], "a new program");
    });
}

#[test]
fn a_station_with_the_interfaces_mac() {
    with_veth("xdp::a_station_with_the_interfaces_mac", || {
        let mac = [2, 0, 0, 0, 0, 5];
        ip(&["link set weft0 address 02:00:00:00:00:05"]);
        let station = StackConfig { mac, ..StackConfig::new("10.0.0.1/24".parse().unwrap()) };
        let mut sender = packet("weft1");
        let mut wire = Wire::open(&xdp("weft0", None), 1500).unwrap();
        wire.claim(station.mac, station.ip.address).unwrap();
        let mut kernel = packet("weft0");
        let mut kernels = segment(mac, 2);
        kernels[33] = 3;
        let frames = [segment(mac, 1), arp_request([10, 0, 0, 1]), kernels, arp_request([10, 0, 0, 3])];
        frames.iter().for_each(|frame| sender.send(Instant::ZERO, frame));
        let came = arrivals(&mut [&mut wire, &mut kernel], frames.len());
        assert_eq!(came, [frames[..2].to_vec(), frames[2..].to_vec()]);
    });
}

/// The connections of a sender with several queues come by several queues.
#[test]
fn queues_are_watched_together_shared_or_chosen() {
    with_veth("xdp::queues_are_watched_together_shared_or_chosen", || {
        let queues = "numrxqueues 4 numtxqueues 4";
        ip(&[
            "link del weft0",
            &format!("link add weft0 {queues} type veth peer name weft1 {queues}"),
            "link set weft0 up",
            "link set weft1 up",
        ]);
        let station = StackConfig::new("10.0.0.1/24".parse().unwrap());
        let (mut sender, mut kernel) = (packet("weft1"), packet("weft0"));
        let mut all = (1..65).map(|port| segment(station.mac, port)).collect::<Vec<_>>();
        all.sort();
        let mut spread = |spec: &Spec, count| {
            let mut wires = Wire::open_queues(spec, 1500, count).unwrap();
            for wire in &mut wires {
                assert!(!is_readable_within(wire, Duration::ZERO));
                wire.claim(station.mac, station.ip.address).unwrap();
            }
            all.iter().for_each(|frame| sender.send(Instant::ZERO, frame));
            for wire in &wires {
                assert!(is_readable_within(wire, PATIENCE) && wire.is_readable());
            }
            let mut places: Vec<_> = wires.iter_mut().chain([&mut kernel]).collect();
            let came = arrivals(&mut places, all.len());
            let mut together = came.concat();
            together.sort();
            assert!(together == all, "each frame comes once");
            came.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(spread(&xdp("weft0", None), 1), [64, 0]);
        for count in [2, 4] {
            let came = spread(&xdp("weft0", None), count);
            assert!(came.len() == count + 1 && came[count] == 0, "{came:?}");
            assert!(came[..count].iter().all(|&part| part > 0), "{came:?}");
        }
        assert_eq!(spread(&xdp("weft0", None), 5), [64, 0], "one wire for more stacks than there are queues");
        let came = spread(&xdp("weft0", Some(2)), 1);
        assert!(came.len() == 2 && came.iter().all(|&part| part > 0), "{came:?}");
        let text = "xdp:weft0@4: there is no queue 4: the interface has 4, from 0 on";
        assert_eq!(refusal("xdp:weft0@4", 1500), text);
    });
}

#[test]
fn wires_that_cannot_work_are_refused_in_one_line() {
    with_veth("xdp::wires_that_cannot_work_are_refused_in_one_line", || {
        ip(&["link set lo up", "link set weft0 down", "addr add 10.0.0.1/24 dev weft1"]);
        assert_eq!(refusal("xdp:weft0", 1500), "xdp:weft0: the interface is down: `ip link set weft0 up`");
        assert_eq!(
            refusal("xdp:weft2", 1500),
            "xdp:weft2: there is no such interface in this network namespace"
        );
        assert_eq!(refusal("xdp:lo", 1500), "xdp:lo: is no Ethernet interface");
        ip(&["link set weft0 up"]);
        let text = "xdp:weft0: an MTU of 1501 is above the interface's of 1500: `ip link set weft0 mtu 1501`, or ask for less";
        assert_eq!(refusal("xdp:weft0", 1501), text);
        let text = "xdp:weft0: an MTU of 3819 is above 3818, the most that AF_XDP has room for";
        assert_eq!(refusal("xdp:weft0", 3819), text);
        let done = run("rping -s --netif xdp:weft0 --ip 10.0.0.1/24");
        let text = "weft rping: 10.0.0.1 is this host's own address, and its kernel would answer our peers by resets: give a \
                    free address of that net";
        assert_eq!((done.status == 0, done.stderr), (false, vec![text.to_owned()]));
    });
}

/// Root of a user namespace may do everything in it but this.
#[test]
fn root_of_a_user_namespace_is_not_enough() {
    in_namespace("xdp::root_of_a_user_namespace_is_not_enough", VETH, || {
        ip(&["link add weft0 type veth peer name weft1", "link set weft0 up"]);
        let text = "xdp:weft0: needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and those of no namespace of one's own: be root";
        assert_eq!(refusal("xdp:weft0", 1500), text);
    });
}

#[test]
fn an_interface_that_goes_and_comes_back() {
    with_veth("xdp::an_interface_that_goes_and_comes_back", || {
        let station = StackConfig::new("10.0.0.1/24".parse().unwrap());
        let mut left = Wire::open(&xdp("weft0", None), 1500).unwrap();
        left.claim(station.mac, station.ip.address).unwrap();
        let mut right = packet("weft1");
        ip(&["link set weft0 down"]);
        for _ in 0..3 {
            left.send(Instant::ZERO, &segment([2, 0, 0, 0, 0, 7], 1));
        }
        assert_eq!((left.counters().sent, left.counters().send_lost), (0, 3));
        assert!(!left.receive(Instant::ZERO, &mut Vec::new()));
        assert!(!is_readable_within(&left, Duration::ZERO), "a driver could not sleep");
        ip(&["link set weft0 up"]);
        // There are more frames than places, so that each place is used again.
        for port in 2..2000 {
            pass(&mut left, &mut right, &segment([2, 0, 0, 0, 0, 7], port));
            pass(&mut right, &mut left, &segment(station.mac, port));
        }
        // While no one reads, more frames come than there is room for. The rest is lost, and counted.
        while left.counters().receive_lost == 0 {
            right.send(Instant::ZERO, &segment(station.mac, 1));
        }
        pass(&mut right, &mut left, &segment(station.mac, 2000));
    });
}

pub(crate) const VETH: &str = "link add weft0 type veth peer name weft1";
const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// Of rping.
const PORT: u16 = 7174;
