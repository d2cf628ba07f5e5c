//! The cases, and what each of them gets.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::guest::Guest;
use crate::image::Image;
use crate::program::Program;

pub(crate) mod access;
pub(crate) mod conform;
pub(crate) mod disconnect;
pub(crate) mod exchange;
pub(crate) mod loss;
pub(crate) mod many;
pub(crate) mod messages;
pub(crate) mod private_data;
pub(crate) mod reboot;
pub(crate) mod reject;
pub(crate) mod rping;

/// One subject. It runs in both roles, on each guest.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What is tried, in a line.
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Bench<'_>) -> Result<(), String>,
    /// What siw can do in it.
    pub(crate) roles: &'static [Role],
    pub(crate) captures: Captures,
}

/// What the captures of a case may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Captures {
    /// Frames without a fault, up to the end of each connection.
    Whole,
    /// Connections may end within a frame.
    Cut,
    /// Faults that were made on purpose: the capture is there for people.
    Hostile,
}

/// What a case works with. All captures that it leaves in `dir` are checked.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) guest: &'a Guest,
    pub(crate) image: &'a Image,
    pub(crate) role: Role,
    /// The case's own, and empty.
    pub(crate) dir: &'a Path,
}

/// What siw does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// It connects.
    Active,
    /// It listens.
    Passive,
}

impl Bench<'_> {
    /// The capture of a case that makes one.
    pub(crate) fn pcap(&self) -> PathBuf {
        self.dir.join("wire.pcap")
    }

    /// Starts a `weft` process on `wire`, with a capture of its own that is called after `label`.
    pub(crate) fn weft(&self, label: &str, wire: &Path, args: &[&str]) -> Result<Program, String> {
        let here = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(here.with_file_name("weft")).args(args);
        command.arg("--netif").arg(format!("unix:{}", wire.display()));
        command.args(["--ip", "10.0.0.2/24", "--pcap"]).arg(self.dir.join(format!("{label}.pcap")));
        Program::start(&mut command, |_| true)
    }
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Active => "siw active",
            Self::Passive => "siw passive",
        }
    }
}

const BOTH: &[Role] = &[Role::Passive, Role::Active];

/// All cases, in the order of their running.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "messages",
        about: "rdma_client and rdma_server: 16 octets each way",
        run: messages::run,
        roles: BOTH,
        captures: Captures::Whole,
    },
    Case {
        name: "rping",
        about: "rping against weft rping: 23 to 65,535 octets, 200 rounds",
        run: rping::run,
        roles: BOTH,
        captures: Captures::Whole,
    },
    Case {
        name: "loss",
        about: "rping over a wire that loses 1 % each way: 20 rounds of 4 KiB",
        run: loss::run,
        roles: BOTH,
        captures: Captures::Whole,
    },
    Case {
        name: "exchange",
        about: "Sends, Writes and Reads of many segments in both directions at once",
        run: exchange::run,
        roles: BOTH,
        captures: Captures::Whole,
    },
    Case {
        name: "private-data",
        about: "private data of all lengths, each way",
        run: private_data::run,
        roles: BOTH,
        captures: Captures::Whole,
    },
    Case {
        name: "reject",
        about: "a connection is rejected",
        run: reject::run,
        roles: BOTH,
        captures: Captures::Whole,
    },
    Case {
        name: "disconnect",
        about: "either side disconnects in mid-transfer",
        run: disconnect::run,
        roles: BOTH,
        captures: Captures::Cut,
    },
    Case {
        name: "access",
        about: "remote access errors each way, and the Terminate that follows",
        run: access::run,
        roles: BOTH,
        captures: Captures::Cut,
    },
    Case {
        name: "many",
        about: "64 connections at once",
        run: many::run,
        roles: BOTH,
        captures: Captures::Whole,
    },
    Case {
        name: "reboot",
        about: "the guest is started again in mid-transfer, and others are served meanwhile",
        run: reboot::run,
        roles: BOTH,
        captures: Captures::Cut,
    },
    Case {
        name: "conform",
        about: "weft conform finds the known deviations of siw, and no others",
        run: conform::run,
        roles: &[Role::Passive],
        captures: Captures::Hostile,
    },
];
