//! TAP devices in a network namespace of the test's own.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::{Instant, Spec, Wire};

use crate::namespace::{in_namespace, ip};
use crate::process::{Process, run};
use crate::rping::{Ends, SIZES};
use crate::support::Folder;

/// Makes TAP devices tap0, tap1 and so on, all on one bridge.
fn bridged(count: usize) {
    ip(&["link add br0 type bridge", "link set br0 up"]);
    for index in 0..count {
        let tap = format!("tap{index}");
        ip(&[&format!("tuntap add {tap} mode tap"), &format!("link set {tap} master br0 up")]);
    }
}

fn ends(server: &str, client: &str) -> Ends {
    Ends {
        server: format!("--netif tap:tap0 {server}"),
        client: format!("--netif tap:tap1 {client}"),
        folder: Folder::new(),
    }
}

#[test]
fn rping_across_a_bridge() {
    in_namespace("tap::rping_across_a_bridge", TAP_ON_A_BRIDGE, || {
        bridged(2);
        let [v4, v6] = [
            ends("--ip 10.0.0.1/24", "--ip 10.0.0.2/24 -a 10.0.0.1"),
            ends("--ip fd00::1/64", "--ip fd00::2/64 -a fd00::1"),
        ];
        for size in SIZES {
            v4.exchange(size);
            v6.exchange(size);
        }
    });
}

/// The devices have no offloads. In either role there is one with one queue, and one with several of which one is used.
#[test]
fn rping_between_plain_devices() {
    in_namespace("tap::rping_between_plain_devices", TAP_ON_A_BRIDGE, || {
        ip(&["link add br0 type bridge", "link set br0 up"]);
        for (tap, queues) in [("tap0", ""), ("tap1", "multi_queue")] {
            ip(&[&format!("tuntap add {tap} mode tap {queues}"), &format!("link set {tap} master br0 up")]);
        }
        for [server, client] in [["tap0", "tap1"], ["tap1", "tap0"]] {
            let ends = Ends {
                server: format!("--netif tap:{server},plain --ip 10.0.0.1/24"),
                client: format!("--netif tap:{client},plain --ip 10.0.0.2/24 -a 10.0.0.1"),
                folder: Folder::new(),
            };
            ends.exchange(65_535);
        }
    });
}

/// A plain device with one queue works like any other. The kernel chooses a name, a second user is refused, frames
/// arrive without a header, and a read never blocks.
#[test]
fn a_plain_device_with_one_queue() {
    in_namespace("tap::a_plain_device_with_one_queue", TAP, || {
        ip(&["tuntap add tap0 mode tap", "link set tap0 up"]);
        let spec: Spec = "tap:tap0,plain".parse().unwrap();
        let mut wire = Wire::open(&spec, 1500).unwrap();
        let error = Wire::open(&spec, 1500).unwrap_err().to_string();
        assert_eq!(error, "tap:tap0,plain: another process has the device open");
        let mut frame = Vec::new();
        // The kernel sends frames by itself when the link comes up, such as router solicitations. Each is whole from
        // the first octet on.
        while wire.receive(Instant::ZERO, &mut frame) {
            assert!(frame[0] & 1 == 1 && frame.len() >= 14, "{frame:?}");
        }
        let question =
            [&[0xFF; 6], &[2, 0, 0, 0, 0, 1][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[2, 0, 0, 0, 0, 1]];
        let question = [&question.concat()[..], &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 254]].concat();
        ip(&["addr add 10.0.0.254/24 dev tap0"]);
        wire.send(Instant::ZERO, &question);
        let is_answer = |frame: &[u8]| frame[..6] == [2, 0, 0, 0, 0, 1] && frame[12..14] == [8, 6];
        let mut tries = 0;
        while !(wire.receive(Instant::ZERO, &mut frame) && is_answer(&frame)) {
            tries += 1;
            assert!(tries < 100, "the kernel answers within 10 s");
            let (fd, wait) = (wire.poll_fd().unwrap(), Timespec { tv_sec: 0, tv_nsec: 100_000_000 });
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&wait)).unwrap();
        }
        assert_eq!(frame.len(), 42, "no header before it");
        assert_eq!(wire.counters().send_lost, 0);
        assert!(
            Wire::open(&"tap:weft%d,plain".parse().unwrap(), 1500).is_ok(),
            "the kernel chooses its name"
        );
    });
}

/// The kernel is the gateway between the two sides. It has to forward their packets, and to answer for its address.
#[test]
fn rping_through_the_kernel_as_gateway() {
    in_namespace("tap::rping_through_the_kernel_as_gateway", TAP, || {
        for (index, tap) in ["tap0", "tap1"].iter().enumerate() {
            ip(&[&format!("tuntap add {tap} mode tap"), &format!("link set {tap} up")]);
            ip(&[&format!("addr add 10.0.{index}.254/24 dev {tap}")]);
            // Without nodad the address could not be used during its first second.
            ip(&[&format!("addr add fd00:{index}::fe/64 dev {tap} nodad")]);
        }
        for switch in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{switch}"), "1").unwrap();
        }
        let [v4, v6] = [
            ends("--ip 10.0.0.1/24,gw~10.0.0.254", "--ip 10.0.1.1/24,gw~10.0.1.254 -a 10.0.0.1"),
            ends("--ip fd00:0::1/64,gw~fd00:0::fe", "--ip fd00:1::1/64,gw~fd00:1::fe -a fd00:0::1"),
        ];
        for size in SIZES {
            v4.exchange(size);
            v6.exchange(size);
        }
    });
}

#[test]
fn two_clients_of_a_persistent_server_at_the_same_time() {
    in_namespace("tap::two_clients_of_a_persistent_server_at_the_same_time", TAP_ON_A_BRIDGE, || {
        bridged(3);
        let server = Process::weft("rping -s -P --timeout 1 --netif tap:tap0 --ip 10.0.0.1/24");
        let client = |index: u8, flags: &str| {
            let me = format!("--netif tap:tap{index} --ip 10.0.0.{}/24", index + 1);
            Process::weft(&format!("rping -c -a 10.0.0.1 {me} {flags}"))
        };
        // The second client is served while the first one is.
        let mut first = client(1, "-v");
        assert!(first.line().starts_with("ping data: "));
        let second = client(2, "-C 3");
        for _ in 0..100 {
            first.line();
        }
        let second = second.finish();
        assert_eq!((second.status, second.stderr.len()), (0, 0), "{second:?}");
        assert!(server.line().starts_with("10.0.0.3:"));
        assert!(first.line().starts_with("ping data: "));
        first.kill();
        let complaint = server.complaint();
        assert!(complaint.starts_with("weft rping: 10.0.0.2:"), "{complaint}");
        assert!(complaint.ends_with(": the peer did not answer any more"), "{complaint}");
    });
}

#[test]
fn a_device_that_is_down_or_taken() {
    in_namespace("tap::a_device_that_is_down_or_taken", TAP, || {
        ip(&["tuntap add tap0 mode tap"]);
        let spec = Spec::Tap("tap0".into());
        let mut wire = Wire::open(&spec, 1500).unwrap();
        wire.send(Instant::ZERO, &[0; 60]);
        assert_eq!(wire.counters().send_lost, 1, "the device is not up");
        assert!(wire.poll_fd().is_some() && !wire.receive(Instant::ZERO, &mut Vec::new()));
        let error = Wire::open(&spec, 1500).unwrap_err().to_string();
        assert_eq!(error, "tap:tap0: another process has the device open");
        let taken = run("rping -s --netif tap:tap0 --ip 10.0.0.1/24");
        assert_eq!((taken.status, taken.stderr.len()), (2, 1), "{taken:?}");
        // Once it is up, the same wire carries frames.
        ip(&["link set tap0 up"]);
        wire.send(Instant::ZERO, &[0; 60]);
        assert_eq!(wire.counters().sent, 1);
    });
}

/// A frame of the kernel to a device with several queues comes out of one of them, and each of them sends.
#[test]
fn a_device_with_several_queues() {
    in_namespace("tap::a_device_with_several_queues", TAP, || {
        ip(&["tuntap add tap0 mode tap multi_queue", "tuntap add tap1 mode tap"]);
        ip(&["link set tap0 up", "addr add 10.0.0.254/24 dev tap0"]);
        let spec = Spec::Tap("tap0".into());
        let mut queues = Wire::open_queues(&spec, 1500, 3).unwrap();
        assert_eq!(queues.len(), 3);
        // Each queue sends an ARP request. The answers come by a queue of the kernel's choice. The kernel loses them
        // until it has noticed that the device is in use, so the requests are repeated.
        let question = |host| {
            let mac = [2, 0, 0, 0, 0, host];
            [
                &[0xFF; 6],
                &mac[..],
                &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
                &mac,
                &[10, 0, 0, host],
                &[0; 6],
                &[10, 0, 0, 254],
            ]
            .concat()
        };
        let mut answered = [false; 3];
        let mut frame = Vec::new();
        while answered.contains(&false) {
            for ((host, queue), _) in (1..).zip(&mut queues).zip(answered).filter(|&(_, answered)| !answered)
            {
                queue.send(Instant::ZERO, &question(host));
            }
            for queue in &mut queues {
                while queue.receive(Instant::ZERO, &mut frame) {
                    if frame[12..14] == [8, 6] && frame[..5] == [2, 0, 0, 0, 0] {
                        answered[usize::from(frame[5]) - 1] = true;
                    }
                }
            }
        }
        assert!(queues.iter().all(|queue| queue.counters().sent > 0));
        drop(queues);
        // One queue of a device that may have several works like a device with one.
        assert!(Wire::open(&spec, 1500).is_ok());
        let error = Wire::open_queues(&Spec::Tap("tap1".into()), 1500, 2).unwrap_err().to_string();
        assert_eq!(error, "tap:tap1: the device has one queue: `ip tuntap add tap1 mode tap multi_queue`");
        assert!(Wire::open_queues(&spec, 1500, 0).is_err());
    });
}

const TAP: &str = "tuntap add weft-tap mode tap";
const TAP_ON_A_BRIDGE: &str = "tuntap add weft-tap mode tap && ip link add weft-br type bridge";
