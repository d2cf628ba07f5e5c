//! Clients of Redis on `weft group kv`, beside a Redis that keeps each change and has two replicas.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::files;
use super::members::{Members, address};
use crate::case::{Side, Trouble};
use crate::process::{Outcome, say};
use crate::sockets::carrier::Carrier;
use crate::sockets::daemon::own_program;
use crate::sockets::load::{Client, Load, Run, Work};
use crate::sockets::redis::{Column, Redis};
use crate::sockets::server::{Server, find};

/// What clients ask for, on 50 connections.
#[derive(Clone, Copy)]
pub(super) enum Asking {
    /// A test of redis-benchmark.
    Test(&'static str),
    /// SETs that are done when all replicas have them. redis-benchmark cannot send a WAIT behind each.
    Kept,
}

/// The clients of one of both databases.
struct Clients {
    asking: Asking,
    /// A change has to be followed by a WAIT for the replicas.
    has_wait: bool,
}

/// Starts a database at a fan of three replicas with files.
pub(super) fn ours(asking: Asking) -> Outcome<Box<dyn Side>> {
    asking.check()?;
    let members = Members::start(LEN, true)?;
    let own = own_program()?.display().to_string();
    let folder = files::folder()?;
    let register = folder.path().join("register").display().to_string();
    members.found(&register)?;
    let kv = Server::start_in(files::parent(), &Carrier::KERNEL, &own, |port, _| {
        let resp = address(port).to_string();
        let words = ["group", "kv", "--resp", &resp, "--register", &register];
        Ok(words.map(str::to_owned).to_vec())
    })?;
    let clients = Clients { asking, has_wait: false };
    clients.ask(kv.port(), 1)?;
    let servers = core::iter::once(kv).chain(members.into_servers()).collect();
    Ok(Load::boxed(servers, &Carrier::KERNEL, clients))
}

/// Starts Redis with two replicas, all of which sync their files for each change.
pub(super) fn redis(asking: Asking) -> Outcome<Box<dyn Side>> {
    asking.check()?;
    let start = |of: Option<u16>| {
        Server::start_in(files::parent(), &Carrier::KERNEL, "redis-server", |port, folder| {
            let port = port.to_string();
            let mut words: Vec<&str> = vec!["--port", &port, "--bind", "127.0.0.1", "--dir", folder];
            words.extend(["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
            words.extend(["--repl-diskless-sync-delay", "0"]);
            let of = of.map(|port| port.to_string());
            words.extend(of.iter().flat_map(|port| ["--replicaof", "127.0.0.1", port]));
            Ok(words.into_iter().map(str::to_owned).collect())
        })
    };
    let first = start(None)?;
    let port = first.port();
    let servers = vec![first, start(Some(port))?, start(Some(port))?];
    // A WAIT ends when both replicas have all that was there before them.
    Clients { asking, has_wait: true }.ask(port, 1)?;
    let clients = Clients { asking, has_wait: matches!(asking, Asking::Kept) };
    Ok(Load::boxed(servers, &Carrier::KERNEL, clients))
}

impl Asking {
    /// Checks that there are the foreign programs.
    fn check(self) -> Outcome<()> {
        find("redis-server")?;
        if matches!(self, Self::Test(_)) { find("redis-benchmark") } else { Ok(()) }
    }
}

impl Clients {
    /// Sets a value so many times, one after the other.
    fn ask(&self, port: u16, times: u64) -> Outcome<()> {
        let [set, wait, ok, all] = [SET, WAIT, OK, ALL];
        let (request, expected) =
            if self.has_wait { ([set, wait], [ok, all]) } else { ([set, ""], [ok, ""]) };
        let (request, expected) = (request.concat(), expected.concat());
        let mut stream = TcpStream::connect(address(port)).map_err(say("connecting to a database"))?;
        stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE)))?;
        let mut answer = vec![0; expected.len()];
        for _ in 0..times {
            stream.write_all(request.as_bytes())?;
            stream.read_exact(&mut answer).map_err(say("the answer of a database"))?;
            if answer != expected.as_bytes() {
                return Err(Trouble::failed(format!("a database answered {}", answer.escape_ascii())));
            }
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
    fn ask_all(&self, port: u16, requests: u64) -> Outcome<Run> {
        let each = requests.div_ceil(CONNECTIONS);
        let start = Instant::now();
        let asked: Outcome<Vec<()>> = thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CONNECTIONS).map(|_| scope.spawn(move || self.ask(port, each))).collect();
            let ended = clients.into_iter().map(thread::ScopedJoinHandle::join);
            ended.map(|end| end.unwrap_or_else(|_| Err(Trouble::failed("a client panicked")))).collect()
        });
        asked?;
        let (transfers, wall) = (each * CONNECTIONS, start.elapsed());
        Ok(Run { transfers, wall, time: wall, octets: transfers * SET.len() as u64, by_ring: 0 })
    }
}

impl Client for Clients {
    fn run(&self, carrier: &Carrier, port: u16, work: Work) -> Outcome<Run> {
        match self.asking {
            Asking::Kept => self.ask_all(port, work.requests),
            Asking::Test(test) => {
                let redis = Redis { connections: CONNECTIONS, pipeline: 1, test, column: Column::Rate };
                redis.run(carrier, port, work)
            }
        }
    }

    /// A disk may take milliseconds for each transaction.
    fn least(&self) -> u64 {
        4 * CONNECTIONS
    }
}

/// The default of redis-benchmark.
const CONNECTIONS: u64 = 50;
/// The key is that of redis-benchmark without `-r`.
const SET: &str = "SET key:__rand_int__ xxxxxxxx\r\n";
const WAIT: &str = "WAIT 2 0\r\n";
const OK: &str = "+OK\r\n";
/// Two replicas have acknowledged.
const ALL: &str = ":2\r\n";
/// Octets of a replica's memory.
const LEN: u64 = 64 << 20;
/// Replicas of Redis load the first one's data before they acknowledge anything.
const PATIENCE: Duration = Duration::from_secs(30);
