//! A bank on three replicas: two clients transfer money between the same accounts, under a lock, and each transfer is a
//! transaction. No program of a replica runs for that.
//!
//! One client dies between the log and the accounts. Whoever comes next finds its last transfer in the log.

use core::num::NonZeroU16;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weft_group::{
    Fresh, Limits, Lock, Member, Options, Owner, Part, Server, Serving, Session, SessionError, Step, TxLog,
    backoff,
};
use weft_rnic::{Config, Device, Ground, Progress, Region};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Where the lock lies, the accounts, and the log of each client.
const LOCK: u64 = 0;
const ACCOUNTS: u64 = 64;
const LOGS: [u64; 2] = [4096, 8192];
const LOG: u64 = 2048;
const MEMORY: usize = 1 << 16;
const MONEY: u64 = 1000;
const HOW_MANY: usize = 8;
const TRANSFERS: u64 = 100;

fn main() -> Outcome<()> {
    let replicas = (0..3).map(Replica::start).collect::<Outcome<Vec<Replica>>>()?;
    let members: Vec<Member> = replicas.iter().map(|replica| replica.server.member()).collect();
    let client = device(9)?;
    let open = || Session::open(&client, &members, &Options::default());

    let mut session = open()?;
    for account in 0..HOW_MANY {
        let id = session.write(place(account), &MONEY.to_le_bytes())?;
        session.wait(id)?;
    }
    let sessions = [open()?, open()?];
    let clients: Vec<_> = sessions
        .into_iter()
        .zip(LOGS)
        .map(|(session, log)| std::thread::spawn(move || transfer(session, log)))
        .collect();
    for client in clients {
        client.join().map_err(|_| "a client has panicked")??;
    }
    println!("{} transfers: {:?}", 2 * TRANSFERS, balances(&mut session)?);

    // A client writes a transfer to its log, and dies before the money has moved.
    let mut dying = open()?;
    let (mut log, _) = TxLog::open(&mut dying, LOGS[0]..LOGS[0] + LOG)?;
    let before = balances(&mut dying)?;
    let (less, more) = ((before[0] - 1).to_le_bytes(), (before[1] + 1).to_le_bytes());
    log.append(&mut dying, &[part(0, &less), part(1, &more)])?;
    drop(dying);
    assert_eq!(balances(&mut session)?, before);
    let (_, found) = TxLog::open(&mut session, LOGS[0]..LOGS[0] + LOG)?;
    let after = balances(&mut session)?;
    println!("{found} transfer of a client that is gone: {after:?}");
    assert_eq!((found, after[0], after[1]), (1, before[0] - 1, before[1] + 1));

    drop(session);
    for replica in &replicas {
        let mut octets = vec![0; MEMORY];
        assert!(replica.memory.copy_out(0, &mut octets));
        let sum: u64 = words(&octets[64..][..64 * HOW_MANY]).iter().sum();
        assert_eq!(sum, HOW_MANY as u64 * MONEY);
        assert_eq!(octets[..8], [0; 8], "the lock is free");
    }
    println!("each replica holds {} in all", HOW_MANY as u64 * MONEY);
    Ok(())
}

/// Transfers money between accounts, one transfer after the other.
fn transfer(mut session: Session, log: u64) -> Outcome<()> {
    let terms = session.terms();
    let own = Owner::new(terms.epoch, terms.session, NonZeroU16::MIN);
    let mut lock = Lock::new(LOCK, session.replicas(), own);
    let (mut log, _) = TxLog::open(&mut session, log..log + LOG)?;
    let mut random = terms.session | 1;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    for _ in 0..TRANSFERS {
        let mut attempt = 0;
        while lock.try_acquire(&mut session, 1000)? != Step::Owned {
            std::thread::sleep(backoff(next(), attempt));
            attempt += 1;
        }
        let mut account = || usize::try_from(next() % HOW_MANY as u64);
        let (from, to) = (account()?, account()?);
        let balances = balances(&mut session)?;
        let sum = next() % 100;
        if from != to && balances[from] >= sum {
            let less = (balances[from] - sum).to_le_bytes();
            let more = (balances[to] + sum).to_le_bytes();
            // Commit leaves the log empty, so that it holds nothing that the other client changes next.
            log.commit(&mut session, &[part(from, &less), part(to, &more)])?;
        }
        if !lock.give_back(&mut session)? {
            return Err("another client had the lock, too".into());
        }
    }
    Ok(())
}

fn balances(session: &mut Session) -> Result<Vec<u64>, SessionError> {
    let mut octets = [0; 64 * HOW_MANY];
    session.read(ACCOUNTS, &mut octets, Fresh::Confirmed)?;
    Ok(words(&octets))
}

/// Returns the first word of each 64 octets.
fn words(octets: &[u8]) -> Vec<u64> {
    octets.chunks(64).filter_map(|octets| octets.first_chunk().copied().map(u64::from_le_bytes)).collect()
}

const fn part(account: usize, balance: &[u8; 8]) -> Part<'_> {
    Part { at: place(account), octets: balance }
}

const fn place(account: usize) -> u64 {
    ACCOUNTS + 64 * account as u64
}

/// A replica in this process. As a process of its own it is `weft group server`.
struct Replica {
    memory: Arc<Region>,
    server: Serving,
    _device: Device,
}

impl Replica {
    fn start(seed: u64) -> Outcome<Self> {
        let device = device(seed)?;
        let memory = Arc::new(Region::owned(MEMORY).ok_or("no memory")?);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::new(&device, (Arc::clone(&memory), MEMORY as u64), address, Limits::default())?;
        Ok(Self { memory, server: server.start()?, _device: device })
    }
}

fn device(seed: u64) -> Outcome<Device> {
    let config = Config { progress: Progress::Thread, ..Config::host(Ipv4Addr::LOCALHOST.into(), seed) };
    Ok(Device::open(Ground::Host, config)?)
}
