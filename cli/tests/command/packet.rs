//! `packet:` across a veth, whose ends leave segmentation and checksums to each other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::{Instant, Spec, StackConfig, Wire, queue_of};
use weft_rnic::{CmEvent, Config, Device, EventChannel, Progress, StreamingConnection};

use crate::namespace::{Neighbor, in_namespace, ip};
use crate::process::{PATIENCE, Process, run};
use crate::rping::{PINGS, SIZES, check_pings};

/// Makes a veth with both ends here, up.
fn veth() {
    ip(&["link add weft0 type veth peer name weft1", "link set weft0 up", "link set weft1 up"]);
}

fn open(name: &str) -> Wire {
    Wire::open(&Spec::Packet(name.into()), 1500).unwrap()
}

fn refusal(name: &str, mtu: usize) -> String {
    Wire::open(&Spec::Packet(name.into()), mtu).unwrap_err().to_string()
}

/// Returns the next frame of a sender that has sent one. On a veth it is there when the sending call returns.
fn next(wire: &mut Wire) -> Option<Vec<u8>> {
    let mut frame = Vec::new();
    wire.receive(Instant::ZERO, &mut frame).then_some(frame)
}

/// Sends a frame again and again until it arrives. Returns all frames that have come by then.
fn send_until_it_comes(from: &mut Wire, to: &mut Wire, frame: &[u8]) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    for _ in 0..100 {
        from.send(Instant::ZERO, frame);
        received.extend(std::iter::from_fn(|| next(to)));
        if received.iter().any(|other| other == frame) {
            return received;
        }
        let fd = to.poll_fd().unwrap();
        let a_moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&a_moment)).unwrap();
    }
    panic!("{frame:?} does not come");
}

/// Returns the sender's frames, up to the last of them. On a busy machine that may take a moment.
fn until(wire: &mut Wire, last: &[u8]) -> Vec<Vec<u8>> {
    let (mut received, mut waits) = (Vec::new(), 0);
    while received.last().is_none_or(|frame: &Vec<u8>| frame != last) {
        match next(wire) {
            Some(frame) if frame[6..12] == [2, 0, 0, 0, 0, 9] => received.push(frame),
            Some(_) => {}
            None => {
                waits += 1;
                assert!(waits < 20, "only {received:?}");
                let fd = wire.poll_fd().unwrap();
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&Timespec { tv_sec: 10, tv_nsec: 0 }))
                    .unwrap();
            }
        }
    }
    received
}

/// Returns a broadcast of an experimental EtherType, with the given octets between addresses and payload.
fn broadcast(tag: &[u8], filler: u8) -> Vec<u8> {
    [&[0xFF; 6], &[2, 0, 0, 0, 0, 9][..], tag, &[0x88, 0xB5], &[filler; 100]].concat()
}

#[test]
fn rping_across_a_veth_between_two_namespaces() {
    in_namespace("packet::rping_across_a_veth_between_two_namespaces", VETH, || {
        ip(&["link add weft0 type veth peer name weft1", "link set weft0 up"]);
        let neighbor = Neighbor::new();
        neighbor.take("weft1");
        neighbor.ip("link set weft1 up");
        let families = [["10.0.0.1/24", "10.0.0.2/24", "10.0.0.1"], ["fd00::1/64", "fd00::2/64", "fd00::1"]];
        for [server_ip, client_ip, address] in families {
            for size in SIZES {
                let server = Process::weft(&format!("rping -s -v --netif packet:weft0 --ip {server_ip}"));
                let me = format!("--netif packet:weft1 --ip {client_ip} -a {address}");
                let client = neighbor.weft(&format!("rping -c -v -C {PINGS} -S {size} {me}"));
                check_pings(&client.finish(), &server.finish(), size);
            }
        }
    });
}

/// Returns a device that listens on weft0, with the kernel's TCP beyond weft1.
fn listen(address: &str) -> (Device, EventChannel) {
    let mut config = Config::new(address.parse().unwrap(), 7);
    config.progress = Progress::Thread;
    let device = Device::open(open("weft0"), config).unwrap();
    let events = device.create_event_channel().unwrap();
    (device, events)
}

fn accept(device: &Device, events: &EventChannel) -> StreamingConnection {
    let Some(CmEvent::StreamRequest(request)) = events.wait(Some(PATIENCE)) else { panic!("a request") };
    device.accept_stream(request.id).unwrap()
}

/// Sends every octet back, until the peer has closed its direction.
fn echo(stream: &StreamingConnection, events: &EventChannel) -> usize {
    let (mut buffer, mut total) = (vec![0; 1 << 16], 0);
    loop {
        let Ok(len) = stream.receive(&mut buffer) else { return total };
        let mut rest = &buffer[..len];
        while !rest.is_empty() {
            let sent = stream.send(rest).unwrap();
            rest = &rest[sent..];
            if sent == 0 {
                events.wait(Some(PATIENCE)).expect("room");
            }
        }
        total += len;
        if len == 0 {
            events.wait(Some(PATIENCE)).expect("octets or the end");
        }
    }
}

/// The kernel's TCP sends segments of up to 64 KiB without a checksum, and takes our small ones.
fn exchange_with_the_kernel(own: &str, target: SocketAddr) {
    let (device, events) = listen(own);
    let _listener = device.listen_streaming(&events, target.port()).unwrap();
    let octets: Vec<u8> = (0..=250).cycle().take(OCTETS).collect();
    let kernel = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut stream = TcpStream::connect(target).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut writer = stream.try_clone().unwrap();
            let (mut back, octets) = (Vec::new(), &octets);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    writer.write_all(octets).unwrap();
                    writer.shutdown(std::net::Shutdown::Write).unwrap();
                });
                let mut part = vec![0; 1 << 16];
                while back.len() < OCTETS {
                    let len = stream.read(&mut part).unwrap();
                    assert!(len > 0, "the echo ends after {} octets", back.len());
                    back.extend_from_slice(&part[..len]);
                }
            });
            back
        });
        let stream = accept(&device, &events);
        assert_eq!(echo(&stream, &events), OCTETS);
        sender.join().unwrap()
    });
    assert!(kernel == octets, "what came back is what was sent");
    let counters = device.with_wire(|wire| wire.counters());
    let least = (OCTETS / 1460) as u64;
    assert!(counters.unwrap().received < least, "{counters:?}: no frame of several segments among them");
}

#[test]
fn streams_to_and_from_the_kernels_tcp() {
    in_namespace("packet::streams_to_and_from_the_kernels_tcp", VETH, || {
        veth();
        ip(&["addr add 10.0.0.2/24 dev weft1", "addr add fd00::2/64 dev weft1 nodad"]);
        exchange_with_the_kernel("10.0.0.1/24", "10.0.0.1:7".parse().unwrap());
        exchange_with_the_kernel("fd00::1/64", "[fd00::1]:7".parse().unwrap());
    });
}

#[test]
fn the_judge_on_the_kernels_tcp() {
    in_namespace("packet::the_judge_on_the_kernels_tcp", VETH, || {
        veth();
        ip(&["addr add 10.0.0.2/24 dev weft1"]);
        let server = Process::weft("rping -s -P --netif packet:weft0 --ip 10.0.0.1/24");
        let verdict = run("conform 10.0.0.1 --only plain-startup --only markers-asked --only read-zero");
        assert_eq!(verdict.status, 0, "{verdict:?}");
        drop(server);
    });
}

#[test]
fn wires_that_cannot_work_are_refused_in_one_line() {
    in_namespace("packet::wires_that_cannot_work_are_refused_in_one_line", VETH, || {
        ip(&["link set lo up", "link add weft0 type veth peer name weft1", "link set weft1 up"]);
        assert_eq!(refusal("weft0", 1500), "packet:weft0: the interface is down: `ip link set weft0 up`");
        assert_eq!(
            refusal("weft2", 1500),
            "packet:weft2: there is no such interface in this network namespace"
        );
        assert_eq!(refusal("lo", 1500), "packet:lo: is no Ethernet interface");
        ip(&[
            "link set weft0 up",
            "addr add 10.0.0.9/24 dev weft1",
            "addr add 10.0.0.1/24 dev weft1",
            "addr add fd00::1/64 dev weft1 nodad",
        ]);
        let text = "packet:weft0: an MTU of 1501 is above the interface's of 1500: `ip link set weft0 mtu 1501`, or ask for less";
        assert_eq!(refusal("weft0", 1501), text);
        for (address, own) in [("10.0.0.1", "10.0.0.1/24"), ("fd00::1", "fd00::1/64")] {
            let done = run(&format!("rping -s --netif packet:weft0 --ip {own}"));
            let text = format!(
                "weft rping: {address} is this host's own address, and its kernel would answer our peers by resets: give \
                 a free address of that net"
            );
            assert_eq!((done.status == 0, done.stderr), (false, vec![text]));
        }
    });
}

#[test]
fn own_frames_do_not_come_back_and_foreign_ones_are_left_out() {
    in_namespace("packet::own_frames_do_not_come_back_and_foreign_ones_are_left_out", VETH, || {
        veth();
        let (mut left, mut right) = (open("weft0"), open("weft1"));
        let station = StackConfig::new("fd00::1/64".parse().unwrap());
        right.claim(station.mac, station.ip.address).unwrap();
        while next(&mut right).is_some() || next(&mut left).is_some() {}
        let to = |mac: [u8; 6]| [&mac, &[2, 0, 0, 0, 0, 9, 0x88, 0xB5][..], &[1; 50]].concat();
        let wanted = [to(station.mac), to([0xFF; 6]), to([0x33, 0x33, 0xFF, 0, 0, 1])];
        left.send(Instant::ZERO, &to([2, 0, 0, 0, 0, 8]));
        for frame in &wanted {
            left.send(Instant::ZERO, frame);
        }
        assert_eq!(left.counters().sent, 4);
        assert_eq!(until(&mut right, &wanted[2]), wanted);
        let own = |frame: &Vec<u8>| frame[12..14] == [0x88, 0xB5];
        // The kernel sends frames of its own now and then, such as NDP's, to the other end.
        assert!(!std::iter::from_fn(|| next(&mut left)).any(|frame| own(&frame)));
    });
}

/// The kernel takes tags out of frames. Frames for a VLAN are left out; on a plain wire without a station yet, the tag
/// is put back. A tag that is only a priority does not matter.
#[test]
fn frames_of_a_vlan_do_not_pass_for_others() {
    in_namespace("packet::frames_of_a_vlan_do_not_pass_for_others", VETH, || {
        veth();
        let mut left = open("weft0");
        let tags = [&[0x81, 0, 0x60, 5][..], &[0x88, 0xA8, 0, 7], &[0x81, 0, 0xE0, 0]];
        let tagged = [broadcast(tags[0], 1), broadcast(tags[1], 2), broadcast(&[], 3)];
        for (spec, is_claimed) in [
            ("packet:weft1", false),
            ("packet:weft1", true),
            ("packet:weft1,plain", false),
            ("packet:weft1,plain", true),
        ] {
            let mut right = Wire::open(&spec.parse().unwrap(), 1500).unwrap();
            if is_claimed {
                let station = StackConfig::new("10.0.0.1/24".parse().unwrap());
                right.claim(station.mac, station.ip.address).unwrap();
            }
            for (tag, filler) in tags.into_iter().zip(1..) {
                left.send(Instant::ZERO, &broadcast(tag, filler));
            }
            let first = if is_claimed { 2 } else { 0 };
            assert_eq!(until(&mut right, &tagged[2]), tagged[first..], "{spec}");
        }
    });
}

#[test]
fn an_interface_that_goes_and_comes_back() {
    in_namespace("packet::an_interface_that_goes_and_comes_back", VETH, || {
        veth();
        let (mut left, mut right) = (open("weft0"), open("weft1"));
        ip(&["link set weft0 down"]);
        left.send(Instant::ZERO, &broadcast(&[], 1));
        assert_eq!((left.counters().sent, left.counters().send_lost), (0, 1));
        while next(&mut left).is_some() {}
        let fd = left.poll_fd().unwrap();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        assert_eq!(
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })),
            Ok(0),
            "a driver could not sleep"
        );
        ip(&["link set weft0 up"]);
        // The kernel lets the other end send again only some time later.
        send_until_it_comes(&mut right, &mut left, &broadcast(&[], 2));
        // While no one reads, more frames come than the ring holds. The rest is lost, and counted.
        let sent = 5000;
        for _ in 0..sent {
            right.send(Instant::ZERO, &broadcast(&[], 3));
        }
        let mut frames: Vec<_> = std::iter::from_fn(|| next(&mut left)).collect();
        frames.extend(send_until_it_comes(&mut right, &mut left, &broadcast(&[], 4)));
        let received = frames.iter().filter(|frame| **frame == broadcast(&[], 3)).count();
        let lost = left.counters().receive_lost;
        assert!(received > 0 && received as u64 + lost >= sent, "{received} came and {lost} were lost");
    });
}

/// Returns TCP in IPv4 with options, or in IPv6, up to the ports.
fn segment(is_v6: bool, ports: [u16; 2]) -> Vec<u8> {
    let ports = ports.map(u16::to_be_bytes).concat();
    let broadcast = [&[0xFF; 6][..], &[2, 0, 0, 0, 0, 9]].concat();
    let header: &[u8] = if is_v6 {
        &[&[0x86, 0xDD, 0x60, 0, 0, 0, 0, 20, 6, 64][..], &[0; 32]].concat()
    } else {
        &[&[8, 0, 0x46, 0, 0, 44, 0, 0, 0, 0, 64, 6][..], &[0; 14]].concat()
    };
    [&broadcast[..], header, &ports, &[0; 16]].concat()
}

/// All frames of a connection come to the same one of several sockets. Its ports alone decide which.
#[test]
fn several_sockets_share_the_frames_of_an_interface() {
    in_namespace("packet::several_sockets_share_the_frames_of_an_interface", VETH, || {
        veth();
        let mut right = open("weft1");
        let mut queues = Wire::open_queues(&Spec::Packet("weft0".into()), 1500, 3).unwrap();
        for index in 0..64 {
            let ports = [32_768 + 2 * index, 4791];
            let mut frames = Vec::new();
            for is_v6 in [false, true] {
                frames.extend([segment(is_v6, ports), segment(is_v6, [ports[1], ports[0]])]);
            }
            frames.iter().for_each(|frame| right.send(Instant::ZERO, frame));
            let came = queues.iter_mut().map(|queue| {
                std::iter::from_fn(|| next(queue)).filter(|frame| frames.contains(frame)).count()
            });
            let came: Vec<_> = came.collect();
            let place = came.iter().position(|&count| count == 4);
            assert_eq!(place, Some(queue_of(ports, 3)), "{ports:?}: {came:?}");
        }
        right.send(Instant::ZERO, &broadcast(&[], 1));
        assert!(std::iter::from_fn(|| next(&mut queues[0])).any(|frame| frame == broadcast(&[], 1)));
    });
}

const VETH: &str = "link add weft0 type veth peer name weft1";
const OCTETS: usize = 4 << 20;
