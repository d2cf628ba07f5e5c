//! TAP devices in a network namespace of the test's own, without root where the kernel lets everybody have one.
//!
//! A test starts its own binary again below `unshare -Urn`, asking for just itself; there it is root of an empty
//! network. Devices, bridge and addresses end with the namespace, that is, with the last process in it.

use std::process::{Command, Output};

use weft_netif::{Instant, Spec, Wire};

use crate::process::{Process, run};
use crate::rping::{Ends, SIZES};
use crate::support::{Folder, is_installed, skip};

/// Runs `body` in a namespace of its own; `name` is the test's.
fn in_namespace(name: &str, needs_bridge: bool, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if let Some(reason) = obstacle(needs_bridge) {
        return skip(&format!("{name}: no TAP devices: {reason}"));
    }
    let mut again = Command::new("unshare");
    again.arg("-Urn").arg(std::env::current_exe().unwrap());
    again.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    let done = Process::start(&mut again).finish();
    let text = format!("{}\n{}", done.stdout.join("\n"), done.stderr.join("\n"));
    assert!(done.status == 0 && text.contains("1 passed"), "in the namespace:\n{text}");
}

/// Why TAP devices cannot be had here.
fn obstacle(needs_bridge: bool) -> Option<String> {
    if !is_installed("unshare") {
        return Some("unshare (util-linux) is not installed".into());
    }
    // Not every version of ip knows the word --version.
    if Command::new("ip").arg("-V").output().is_err() {
        return Some("ip (iproute2) is not installed".into());
    }
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        return Some(format!("/dev/net/tun: {error}"));
    }
    let bridge = if needs_bridge { " && ip link add weft-br type bridge" } else { "" };
    let script = format!("ip tuntap add weft-tap mode tap{bridge}");
    let trial = Command::new("unshare").args(["-Urn", "sh", "-c", &script]).output().unwrap();
    (!trial.status.success()).then(|| format!("unshare -Urn: {}", complaint(&trial)))
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")
}

/// Carries out `ip` commands.
fn ip(lines: &[&str]) {
    for line in lines {
        let output = Command::new("ip").args(line.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "ip {line}: {}", complaint(&output));
    }
}

/// TAP devices tap0, tap1 and so on, all on one bridge.
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
    in_namespace("tap::rping_across_a_bridge", true, || {
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

/// The kernel between the two sides: it must find their packets right, and answer their search for the gateway.
#[test]
fn rping_through_the_kernel_as_gateway() {
    in_namespace("tap::rping_through_the_kernel_as_gateway", false, || {
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
    in_namespace("tap::two_clients_of_a_persistent_server_at_the_same_time", true, || {
        bridged(3);
        let server = Process::weft("rping -s -P --timeout 1 --netif tap:tap0 --ip 10.0.0.1/24");
        let client = |index: u8, flags: &str| {
            let me = format!("--netif tap:tap{index} --ip 10.0.0.{}/24", index + 1);
            Process::weft(&format!("rping -c -a 10.0.0.1 {me} {flags}"))
        };
        // The second client asks while the first one is being served, and is served after it.
        let mut first = client(1, "-v");
        assert!(first.line().starts_with("ping data: "));
        let second = client(2, "-C 3");
        for _ in 0..100 {
            first.line();
        }
        first.kill();
        let second = second.finish();
        assert_eq!((second.status, second.stderr.len()), (0, 0), "{second:?}");
        assert_eq!(server.complaint(), "weft rping: the TCP connection was lost");
        assert!(server.line().starts_with("10.0.0.3:"));
    });
}

#[test]
fn a_device_that_is_down_or_taken() {
    in_namespace("tap::a_device_that_is_down_or_taken", false, || {
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

/// Set for the second start, in the namespace.
const INSIDE: &str = "WEFT_TEST_NAMESPACE";
