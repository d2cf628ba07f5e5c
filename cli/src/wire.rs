//! The device that `--netif` names, and the file that `--pcap` names.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weft_netif::{Capture, Spec, Wire};

use crate::deadline::Deadline;
use crate::failure::Failure;

/// Returns a capture that is complete at every moment, since most servers end by a signal.
pub(crate) fn capture(path: &Path, clock_scale: u32) -> Result<Capture, Failure> {
    let file = File::create(path)
        .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
    let epoch = clock_gettime(ClockId::Realtime);
    let epoch = Duration::try_from(epoch).unwrap_or_default();
    Ok(Capture::new(file).with_real_time(epoch, clock_scale).with_flushing())
}

/// Opens the device. Waits for the other side of a Unix socket if it is not there yet.
pub(crate) fn open(spec: &Spec, mtu: usize, timeout: Duration) -> Result<Wire, Failure> {
    let mut queues = open_queues(spec, mtu, timeout, 1)?;
    queues.pop().ok_or_else(|| Failure::usage(format!("{spec}: the device has no queue")))
}

/// Opens the device with so many queues, or with one if it has fewer.
pub(crate) fn open_queues(
    spec: &Spec,
    mtu: usize,
    timeout: Duration,
    queues: usize,
) -> Result<Vec<Wire>, Failure> {
    if *spec == Spec::Pair {
        let wires = Spec::wires("or");
        return Err(Failure::usage(format!(
            "pair joins two devices of one process: another process is reached by {wires}"
        )));
    }
    if *spec == Spec::Host {
        return Err(Failure::usage("host is the operating system's own TCP, which has no wire"));
    }
    let timeout = timeout.min(OPEN_TIMEOUT);
    let patience = Deadline::after(timeout);
    loop {
        let error = match Wire::open_queues(spec, mtu, queues) {
            Ok(wires) => return Ok(wires),
            Err(error) => error,
        };
        let Spec::Unix(path) = spec else { return Err(Failure::usage(error)) };
        let absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
        // A path without its last part is in the working directory.
        let folder = path.parent().is_none_or(|folder| folder.as_os_str().is_empty() || folder.is_dir());
        if !absent || !folder {
            return Err(Failure::usage(error));
        }
        if patience.left().is_zero() {
            let (path, seconds) = (path.display(), timeout.as_secs());
            return Err(Failure::work(format!(
                "{spec}: nobody has listened there for {seconds} s; the other side needs unix-listen:{path}"
            )));
        }
        std::thread::sleep(RETRY);
    }
}

const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(20);
