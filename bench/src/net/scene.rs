//! The networks of cases: loopback, a TAP device, a veth between two network namespaces.
//!
//! Devices are made in a network namespace of the benchmark's own ([`isolate`]). The other end of the veth lies in a
//! second one. Both end with the process, also if it is killed. Nothing has to be cleaned up, and no name can be taken.

use core::net::Ipv4Addr;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

use super::Outcome;
use super::place::Place;
use crate::case::Trouble;

/// Two places, and the processes that keep the network between them.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) places: [Place; 2],
    /// The process that keeps the second namespace. It ends when its standard input does, and so with this process.
    _keeper: Option<Child>,
}

/// Starts the running command again in a network namespace of its own, where it may make devices. For an ordinary user
/// this is inside a user namespace, if the system allows that. Returns only in the namespace, or if there is none.
/// Without a namespace, cases that need devices are skipped.
///
/// The caller must have one thread only.
pub fn isolate() {
    if is_isolated() {
        // If there is no loopback, the cases on it fail with the reason.
        let _failed = ip("link set lo up");
        // Foreign programs take the system's default, which may not suit such short paths. Cubic may be denied as the
        // default; reno comes nearest.
        let _kept = ["reno", "cubic"].map(|name| std::fs::write(CONGESTION, name));
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let Some(way) = way_in() else { return };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // The call returns only if it has failed. Then the cases are skipped with the reason.
    let _error = Command::new("unshare").arg(way).arg(program).args(arguments).env(ISOLATED, "1").exec();
}

impl Scene {
    /// Returns two places on this host's loopback.
    pub(crate) fn loopback() -> Arc<Self> {
        Arc::new(Self { places: [Place::on(0), Place::on(1)], _keeper: None })
    }

    /// Makes the TAP device [`TAP`], which the kernel has at [`TAP_KERNEL`]. Both ends are in the own namespace.
    pub(crate) fn tap() -> Outcome<Arc<Self>> {
        static SCENE: OnceLock<Outcome<Arc<Scene>>> = OnceLock::new();
        let make = || {
            require_isolation()?;
            ip(&format!("tuntap add dev {TAP} mode tap"))?;
            ip(&format!("addr add {TAP_KERNEL}/24 dev {TAP}"))?;
            ip(&format!("link set {TAP} up"))?;
            Ok(Self::loopback())
        };
        SCENE.get_or_init(make).clone()
    }

    /// Makes a veth with the ends [`VETH`], the second one in another namespace. The kernel has the addresses
    /// [`VETH_KERNEL`].
    pub(crate) fn veth() -> Outcome<Arc<Self>> {
        static SCENE: OnceLock<Outcome<Arc<Scene>>> = OnceLock::new();
        let make = || {
            require_isolation()?;
            let (keeper, net) = neighbor()?;
            let [near, far] = VETH;
            ip(&format!("link add {near} type veth peer name {far} netns {}", keeper.id()))?;
            ip(&format!("addr add {}/24 dev {near}", VETH_KERNEL[0]))?;
            ip(&format!("link set {near} up"))?;
            let enter = format!("--net=/proc/{}/ns/net", keeper.id());
            command(
                "nsenter",
                &[&enter, "ip", "addr", "add", &format!("{}/24", VETH_KERNEL[1]), "dev", far],
            )?;
            command("nsenter", &[&enter, "ip", "link", "set", far, "up"])?;
            let places = [Place::on(0), Place::within(1, net)];
            Ok(Arc::new(Self { places, _keeper: Some(keeper) }))
        };
        SCENE.get_or_init(make).clone()
    }
}

/// Makes a further network namespace, and returns the process that keeps it.
pub(crate) fn neighbor() -> Outcome<(Child, OwnedFd)> {
    let failed = |error| Trouble::failed(format!("a second network namespace: {error}"));
    let mut holder = Command::new("unshare");
    holder.args(["--net", "sh", "-c", "echo ready; exec cat"]);
    let mut child = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut line = String::new();
    let Some(out) = child.stdout.take() else { return Err(Trouble::failed("a process without output")) };
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).map_err(failed)?;
    if line != "ready\n" {
        return Err(Trouble::Skipped("`unshare --net` gives no second network namespace".into()));
    }
    let net = File::open(format!("/proc/{}/ns/net", child.id())).map_err(failed)?;
    Ok((child, net.into()))
}

/// Returns the argument of `unshare` that makes such a namespace here.
pub(crate) fn way_in() -> Option<&'static str> {
    WAYS.into_iter().find(|way| trial(way).is_ok())
}

/// Returns true if this process is in a network namespace of its own.
pub(crate) fn is_isolated() -> bool {
    std::env::var_os(ISOLATED).is_some()
}

fn require_isolation() -> Outcome {
    if is_isolated() {
        return Ok(());
    }
    let reasons = WAYS.map(|way| trial(way).err());
    let reason = reasons.into_iter().flatten().next();
    Err(Trouble::Skipped(reason.unwrap_or_else(|| "not in a network namespace of its own".into())))
}

/// Checks that `unshare` works with this argument, and that the new namespace allows a device.
fn trial(way: &str) -> Result<(), String> {
    let refused = |text| format!("no network namespace by `unshare {way}`: {text}");
    let arguments = [way, "ip", "link", "add", VETH[0], "type", "veth", "peer", "name", VETH[1]];
    complaint("unshare", &arguments).map_or(Ok(()), |text| Err(refused(text)))
}

fn ip(line: &str) -> Outcome {
    let words: Vec<&str> = line.split_whitespace().collect();
    command("ip", &words)
}

fn command(program: &str, arguments: &[&str]) -> Outcome {
    match complaint(program, arguments) {
        None => Ok(()),
        Some(text) => Err(Trouble::Skipped(format!("{program} {}: {text}", arguments.join(" ")))),
    }
}

/// Runs a program. Returns its complaint if it fails.
pub(crate) fn complaint(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")),
        Err(error) => Some(format!("{program}: {error}")),
    }
}

/// The TAP device.
pub(crate) const TAP: &str = "weft-tap";
/// The kernel's address there.
pub(crate) const TAP_KERNEL: Ipv4Addr = Ipv4Addr::new(10, 92, 0, 1);
/// The ends of the veth.
pub(crate) const VETH: [&str; 2] = ["weft0", "weft1"];
/// The kernel's addresses there.
pub(crate) const VETH_KERNEL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 91, 0, 1), Ipv4Addr::new(10, 91, 0, 2)];
/// The arguments of `unshare` for a network namespace: for an ordinary user, and for root.
const WAYS: [&str; 2] = ["-Urn", "-n"];
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Set for the second start, in the namespace.
pub(crate) const ISOLATED: &str = "WEFT_BENCH_ISOLATED";
