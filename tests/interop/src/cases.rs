//! The table of all cases.

use crate::bench::{Bench, Role};

pub(crate) mod access;
pub(crate) mod conform;
pub(crate) mod disconnect;
pub(crate) mod exchange;
pub(crate) mod exs;
pub(crate) mod host;
pub(crate) mod loss;
pub(crate) mod many;
pub(crate) mod messages;
pub(crate) mod private_data;
pub(crate) mod programs;
pub(crate) mod reboot;
pub(crate) mod reject;
pub(crate) mod rping;
pub(crate) mod rsocket;

/// One subject of the lab. It runs in both roles, on each guest.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The subject in one line.
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Bench<'_>) -> Result<(), String>,
    /// The roles that siw can have in it.
    pub(crate) roles: &'static [Role],
    pub(crate) captures: Captures,
}

/// The expected content of a case's captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Captures {
    /// Frames without a fault, up to the end of each connection.
    Whole,
    /// Connections may end within a frame.
    Cut,
    /// Faults that were made on purpose. The capture is for people only.
    Hostile,
    /// No captures: the operating system sends the frames.
    None,
}

const BOTH: &[Role] = &[Role::Passive, Role::Active];

/// All cases, in the order in which they run.
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
        name: "host",
        about: "rping against weft rping on the TCP of this machine, over QEMU's user network",
        run: host::run,
        roles: BOTH,
        captures: Captures::None,
    },
    Case {
        name: "programs",
        about: "rping and perftest on Weft, by weft run, against the same on siw",
        run: programs::run,
        roles: BOTH,
        captures: Captures::None,
    },
    Case {
        name: "programs-host",
        about: "the same on the TCP of this machine, over QEMU's user network: rping and ib_write_bw",
        run: programs::run_on_host,
        roles: BOTH,
        captures: Captures::None,
    },
    Case {
        name: "rsocket",
        about: "rstream and riostream on Weft, by weft run, against the same on siw",
        run: rsocket::run,
        roles: BOTH,
        captures: Captures::None,
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
        name: "exs",
        about: "Extended Sockets: messages and a stream, each way at a time",
        run: exs::run,
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
