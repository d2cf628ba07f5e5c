//! Replicas as users start them: processes of `weft group server`.

use core::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use weft_group::{Member, Options, Session};
use weft_rnic::Device;

use super::files;
use crate::case::Trouble;
use crate::process::{Outcome, cpu_of, say};
use crate::sockets::carrier::Carrier;
use crate::sockets::daemon::own_program;
use crate::sockets::server::Server;

/// Three replicas.
pub(super) struct Members(Vec<Server>);

impl Members {
    /// Starts them with so many octets of memory each, in a file if they have files.
    pub(super) fn start(len: u64, has_files: bool) -> Outcome<Self> {
        let own = own_program()?.display().to_string();
        let arguments = |port: u16, folder: &str| {
            let (listen, len, file) =
                (address(port).to_string(), len.to_string(), format!("{folder}/replica"));
            let memory = if has_files { &["--file", &file, "--size", &len][..] } else { &["--memory", &len] };
            let words = [&["group", "server", "--listen", &listen], memory].concat();
            Ok(words.into_iter().map(str::to_owned).collect())
        };
        let start = |_| Server::start_in(files::parent(), &Carrier::KERNEL, &own, arguments);
        Ok(Self((0..REPLICAS).map(start).collect::<Outcome<_>>()?))
    }

    /// Opens a session with all of them.
    pub(super) fn open(&self, device: &Device, options: &Options) -> Outcome<Session> {
        Session::open(device, &self.members(), options).map_err(say("opening a session"))
    }

    /// Opens a session with each of them alone, in the same order.
    pub(super) fn open_each(&self, device: &Device, options: &Options) -> Outcome<Vec<Session>> {
        let open = |member| Session::open(device, &[member], options).map_err(say("opening a session"));
        self.members().into_iter().map(open).collect()
    }

    /// Makes a group of them, a fan, whose record is in this file.
    pub(super) fn found(&self, register: &str) -> Outcome<()> {
        let mut command = Command::new(own_program()?);
        command.args(["group", "create", "--topology", "fan", "--register", register]);
        command.args(self.0.iter().map(|server| address(server.port()).to_string()));
        let made = command.output().map_err(say("weft group create"))?;
        let said = String::from_utf8_lossy(&made.stderr);
        if made.status.success() { Ok(()) } else { Err(Trouble::failed(said.trim())) }
    }

    pub(super) fn into_servers(self) -> Vec<Server> {
        self.0
    }

    /// Returns the CPU time that they have used.
    pub(super) fn cpu(&self) -> Outcome<Duration> {
        self.0.iter().map(|server| cpu_of(server.id())).sum()
    }

    fn members(&self) -> Vec<Member> {
        let member = |server: &Server| Member { address: address(server.port()), incarnation: None };
        self.0.iter().map(member).collect()
    }
}

/// Returns a port of this host.
pub(super) fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

const REPLICAS: usize = 3;
