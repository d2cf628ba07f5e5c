//! Servers as Debian has them.

use core::net::Ipv4Addr;
use std::ffi::OsStr;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::carrier::Carrier;
use crate::case::Trouble;
use crate::process::{Folder, Outcome, free_port, say};

/// A server that ends with this value, and its folder.
pub(crate) struct Server {
    child: Child,
    port: u16,
    _folder: Folder,
}

impl Server {
    /// Starts a program that listens on a free port, with arguments made of port and folder.
    pub(super) fn start(
        carrier: &Carrier,
        program: &str,
        arguments: impl Fn(u16, &str) -> std::io::Result<Vec<String>>,
    ) -> Outcome<Self> {
        Self::start_in(&std::env::temp_dir(), carrier, program, arguments)
    }

    /// The same with a folder below another one.
    pub(crate) fn start_in(
        parent: &Path,
        carrier: &Carrier,
        program: &str,
        arguments: impl Fn(u16, &str) -> std::io::Result<Vec<String>>,
    ) -> Outcome<Self> {
        find(program)?;
        let hosts = carrier.hosts();
        let address = hosts.address(true);
        let folder = Folder::below(parent)?;
        let port = hosts.at_servers(|| free_port(address))??;
        let mut command = carrier.command(true, OsStr::new(program))?;
        command
            .args(arguments(port, &folder.path().display().to_string()).map_err(say("preparing a server"))?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(say(program))?;
        let mut server = Self { child, port, _folder: folder };
        hosts.at_servers(|| server.wait(address))??;
        Ok(server)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Waits until the server takes connections.
    #[expect(clippy::disallowed_methods, reason = "a time limit turns a hang into a failure")]
    fn wait(&mut self, address: Ipv4Addr) -> Outcome<()> {
        let start = Instant::now();
        while TcpStream::connect((address, self.port)).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Trouble::failed(format!("a server ended with {status}")));
            }
            if start.elapsed() > PATIENCE {
                return Err(Trouble::failed("a server does not listen"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Checks that the machine has a program.
pub(crate) fn find(program: &str) -> Outcome<()> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop).map_err(|error| Trouble::Skipped(format!("{program}: {error}")))
}

const PATIENCE: Duration = Duration::from_secs(10);
