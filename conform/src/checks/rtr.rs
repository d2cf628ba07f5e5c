//! The peer-to-peer start of RFC 6581 section 9.2, and the messages that open it.

use std::fmt;
use std::time::Duration;

use super::enhanced::{A, B, READ, WRITE};
use crate::check::Check;
use crate::finding::Stop;
use crate::octets::{send, write};
use crate::ping::Client;
use crate::probe::{DEPTH, PROBE_STAG, is_zero_response, shown, zero_read};
use crate::startup::{R, Reply, Request};
use crate::stream::{Missing, Stream};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "rtr-options",
        title: "Requests for the peer-to-peer start with every choice of RTR messages",
        ids: &["6581-9-3", "6581-9.2-3", "6581-9.2-4", "6581-9.2-5", "6581-9.2-6", "6581-9.2-8"],
        run: rtr_options,
    },
    Check {
        name: "rtr-send",
        title: "a zero-length Send opens the peer-to-peer start",
        ids: &["5044-7.1.2-15", "6581-9.2-16"],
        run: |trial| rtr(trial, Kind::Send),
    },
    Check {
        name: "rtr-write",
        title: "a zero-length RDMA Write opens the peer-to-peer start",
        ids: &["5044-7.1.2-15", "6581-9.2-16"],
        run: |trial| rtr(trial, Kind::Write),
    },
    Check {
        name: "rtr-read",
        title: "a zero-length RDMA Read opens the peer-to-peer start, and is answered",
        ids: &["5044-7.1.2-15", "6581-9.2-16"],
        run: |trial| rtr(trial, Kind::Read),
    },
];

/// The RTR messages that a frame names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    send: bool,
    write: bool,
    read: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send,
    Write,
    Read,
}

impl Options {
    const fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Send => self.send,
            Kind::Write => self.write,
            Kind::Read => self.read,
        }
    }

    fn count(self) -> usize {
        KINDS.into_iter().filter(|&kind| self.has(kind)).count()
    }

    const fn with(self, other: Self) -> Self {
        Self {
            send: self.send || other.send,
            write: self.write || other.write,
            read: self.read || other.read,
        }
    }

    const fn common(self, other: Self) -> Self {
        Self {
            send: self.send && other.send,
            write: self.write && other.write,
            read: self.read && other.read,
        }
    }

    /// Returns every choice of at least one message.
    fn every() -> impl Iterator<Item = Self> {
        (1..8).map(|bits| Self { send: bits & 1 != 0, write: bits & 2 != 0, read: bits & 4 != 0 })
    }

    /// Returns the Request's data that asks for them, in the peer-to-peer model.
    const fn request(self) -> [u16; 2] {
        let send = if self.send { B } else { 0 };
        let write = if self.write { WRITE } else { 0 };
        let read = if self.read { READ } else { 0 };
        [A | send | DEPTH, write | read | DEPTH]
    }
}

impl From<Kind> for Options {
    fn from(kind: Kind) -> Self {
        Self { send: kind == Kind::Send, write: kind == Kind::Write, read: kind == Kind::Read }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (is_there, letter) in [(self.send, "B"), (self.write, "C"), (self.read, "D")] {
            if is_there {
                f.write_str(letter)?;
            }
        }
        if self.count() == 0 { f.write_str("none") } else { Ok(()) }
    }
}

/// Asks for every choice, twice. All Replies together show the messages that the target supports. It may name fewer
/// than it supports, but has to name at least one.
fn rtr_options(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    let mut supported = Options::default();
    for asked in Options::every() {
        let [ird, ord] = asked.request();
        let model = &["6581-9-3", "6581-9.2-4"];
        let (stream, reply) = trial.ask(model, &Request::enhanced(ird, ord))?;
        // Linux siw 6.1 does not survive a FIN that follows its Reply at once.
        trial.pause();
        let Some((is_peer_to_peer, named)) = options(&reply) else {
            return Err(Stop::Unsuited(format!("the Reply is not enhanced: {reply}")));
        };
        trial.judge(model, &stream, is_peer_to_peer, ("A=1", &reply));
        // A rejection does not show which messages the target would have chosen.
        if !reply.has(R) {
            let is_all = asked == Options { send: true, write: true, read: true };
            let some: &[&str] = if is_all { &["6581-9.2-3", "6581-9.2-8"] } else { &["6581-9.2-8"] };
            trial.judge(some, &stream, named.count() > 0, ("one of B, C and D at least", &reply));
            supported = supported.with(named);
        }
    }
    for asked in Options::every() {
        let [ird, ord] = asked.request();
        let (stream, reply) = trial.ask(&["6581-9.2-4"], &Request::enhanced(ird, ord))?;
        trial.pause();
        let Some((_, named)) = options(&reply).filter(|_| !reply.has(R)) else { continue };
        let common = asked.common(supported);
        let ids: &[&str] = match common.count() {
            0 => continue,
            1 if asked.count() == 1 => &["6581-9-3", "6581-9.2-5"],
            1 => &["6581-9-3"],
            _ => &["6581-9-3", "6581-9.2-6"],
        };
        let words = (format!("one of {common}, which the target supports"), named);
        trial.judge(ids, &stream, common.common(named).count() > 0, words);
    }
    Ok(())
}

fn rtr(trial: &mut Trial<'_>, kind: Kind) -> Result<(), Stop> {
    trial.need_enhanced()?;
    // First the dialogue finds out whether the target is a working rping server. Only then it judges.
    let mut plain = trial.open()?;
    let can_ping = Client::new(LEN).ping(trial, &mut plain);
    drop(plain);
    let [ird, ord] = Options::from(kind).request();
    let (mut stream, reply) = trial.open_with(&Request::enhanced(ird, ord))?;
    if !options(&reply).is_some_and(|(is_peer_to_peer, named)| is_peer_to_peer && named.has(kind)) {
        return Err(Stop::Unsuited(format!("the target does not offer that RTR message: {reply}")));
    }
    let (octets, end) = stream.listen(QUIET);
    if end != Missing::Silence {
        return Err(Stop::Unsuited(format!("the target ends the connection by {end} after its Reply")));
    }
    let observed = format!("{} octets", octets.len());
    let is_quiet = octets.is_empty();
    trial.judge(&["5044-7.1.2-15"], &stream, is_quiet, ("silence until the RTR message", observed));
    if !is_quiet {
        return Err(Stop::Judged);
    }
    open_and_ping(trial, kind, &mut stream, can_ping.map(drop))
}

/// Sends the RTR message. A ping has to work behind it.
fn open_and_ping(
    trial: &mut Trial<'_>,
    kind: Kind,
    stream: &mut Stream,
    can_ping: Result<(), Stop>,
) -> Result<(), Stop> {
    let ids = &["6581-9.2-16"];
    let mut client = Client::new(LEN);
    let mut next_read = 1;
    match kind {
        Kind::Send => {
            stream.send_ulpdu(&send(1, &[]));
            client.msn = 2;
        }
        Kind::Write => stream.send_ulpdu(&write(PROBE_STAG, 0, &[])),
        Kind::Read => {
            stream.send_ulpdu(&zero_read(1));
            let what = "the answer to a zero-length Read that opens the stream";
            let fpdu = trial.expect_fpdu(ids, stream, what)?;
            trial.judge(ids, stream, is_zero_response(&fpdu), (what, shown(&fpdu)));
            next_read = 2;
        }
    }
    trial.expect_alive(ids, stream, next_read)?;
    can_ping?;
    // The RFC leaves open whether a Send as RTR message takes a receive of the ULP. A target may fail here for that
    // reason.
    if kind != Kind::Send {
        client.expect_ping(ids, trial, stream)?;
    }
    Ok(())
}

/// Returns whether A is set in a Reply, and the RTR messages that the Reply names.
fn options(reply: &Reply) -> Option<(bool, Options)> {
    let (ird, ord) = reply.enhanced()?;
    let named = Options { send: ird & B != 0, write: ord & WRITE != 0, read: ord & READ != 0 };
    Some((ird & A != 0, named))
}

const KINDS: [Kind; 3] = [Kind::Send, Kind::Write, Kind::Read];
/// The length that every rping supports.
const LEN: usize = 64;
const QUIET: Duration = Duration::from_millis(300);
