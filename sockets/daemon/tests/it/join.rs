//! Two claims of a connection become a channel.

use std::os::fd::AsFd;

use rustix::fs::fstat;
use rustix::io::pwrite;
use weft_sockets::end::Phase;
use weft_sockets::layout::RINGS_AT;
use weft_sockets::sync::Ordering;
use weft_sockets::{Digests, Link, Prefixes, Reason, RingPlace, ToDaemon, ToProcess, VERSION, WaiterName};

use crate::client::{Client, HANG, Mail, is_readable, tcp, wait_until};
use crate::death::{Pair, pair};
use crate::puppet::Puppet;
use crate::run::{Running, config};

/// Takes mail until an offer comes. Returns the link's memory, if it came, and the offer.
fn offer(client: &Client) -> (Option<Link>, ToProcess) {
    let mut link = None;
    loop {
        let Mail { message, descriptors } = client.mail();
        match message {
            ToProcess::LinkMade { .. } => link = Some(Link::map(&descriptors[0]).expect("a link")),
            ToProcess::Offer { .. } => return (link, message),
            ToProcess::PeerStatus { .. } | ToProcess::PeerBell { .. } => {}
            other => panic!("{other:?} and no offer"),
        }
    }
}

#[test]
fn both_ends_of_one_process_get_one_channel() {
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    let (one, other) = tcp();
    let slots = [client.claim(&one).0, client.claim(&other).0];
    let (link, first) = offer(&client);
    let (_, second) = offer(&client);
    let link = link.expect("a link");
    // A welcome, a link and two offers. The daemon counts what it has sent.
    wait_until(|| client.slab.header().members[0].mail.load(Ordering::Acquire) >= 4);
    let fields = |offer| match offer {
        ToProcess::Offer { slot, link, channel, party, ring, .. } => ((link, channel), (slot, party, ring)),
        other => panic!("{other:?}"),
    };
    let ((common, mine), (same, yours)) = (fields(first), fields(second));
    assert_eq!(common, same);
    assert_eq!([(mine.0, mine.1), (yours.0, yours.1)], [(slots[0], 0), (slots[1], 1)]);
    assert_ne!(mine.2, yours.2);
    let written = link.ring(mine.2).write(0, b"octets");
    assert!(written && link.header().link.load(Ordering::Relaxed) == common.0);
}

/// A process that forks takes its claim back, but the daemon may have matched it already. Then the child claims the end.
#[test]
fn an_end_that_has_a_channel_is_offered_it_again() {
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    let (one, other) = tcp();
    let (slot, state) = client.claim(&one);
    client.claim(&other);
    let first = offer(&client).1;
    offer(&client);
    let digests = Digests::default();
    let again = ToDaemon::Claim { slot, generation: state.generation, digests };
    client.send(again, &[one.as_fd()]);
    assert_eq!(offer(&client).1, first);
    // A late word of another end in that place does not free the channel.
    let ToProcess::Offer { link, channel, party, .. } = first else { panic!("{first:?}") };
    let generation = state.generation + 1;
    client.send(ToDaemon::Closed { slot, generation, link, channel, party }, &[]);
    client.send(again, &[one.as_fd()]);
    assert_eq!(offer(&client).1, first);
}

/// Somebody else's connection can have the same addresses, but says other things.
#[test]
fn ends_that_have_said_other_things_do_not_match() {
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    let digests = |written: u8, received: u8| {
        let [written, received] = [written, received].map(|octet| Prefixes::of(&[octet; 64]));
        Digests { written, received }
    };
    let (one, other) = tcp();
    let first = client.claim_with(&one, digests(1, 2)).0;
    let _liar = client.claim_with(&other, digests(2, 3));
    let second = client.claim_with(&other, digests(2, 1)).0;
    let slots = [(); 2].map(|()| match offer(&client).1 {
        ToProcess::Offer { slot, .. } => slot,
        other => panic!("{other:?}"),
    });
    assert_eq!(slots, [first, second]);
}

#[test]
fn a_family_that_has_a_link_with_itself_ends() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let client = Client::registered(&address);
    let (one, other) = tcp();
    client.claim(&one);
    client.claim(&other);
    for _ in 0..2 {
        let (_, offered) = offer(&client);
        client.take_offer(offered);
    }
    // The same process with another slab: the first family is over.
    let next = Client::registered(&address);
    client.hear_end();
    next.claim(&one);
    next.claim(&other);
    assert!(offer(&next).0.is_some(), "a link of its own");
}

#[test]
fn two_processes_share_a_link_and_hear_each_other() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let client = Client::registered(&address);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut puppet = Puppet::new(&address);
    puppet.order(&format!("connect {}", listener.local_addr().expect("an address")));
    let (stream, _) = listener.accept().expect("a connection");
    client.claim(&stream);
    puppet.order("claim");
    puppet.order("offer");
    let (mut status, mut bell) = (None, None);
    loop {
        let Mail { message, mut descriptors } = client.mail();
        match message {
            ToProcess::PeerStatus { member: 0, .. } => status = descriptors.pop(),
            ToProcess::PeerBell { waiter: WaiterName { member: 0, line: 0 }, .. } => bell = descriptors.pop(),
            ToProcess::Offer { .. } => break,
            ToProcess::LinkMade { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(status.is_some() && bell.is_some());
    let status = weft_sockets::Status::map(status.expect("a page")).expect("a page");
    assert_eq!(status.page().0[0].asleep.load(Ordering::Relaxed), 0);
    // A second connection uses the same link, and nothing is told twice.
    puppet.order(&format!("connect {}", listener.local_addr().expect("an address")));
    let (stream, _) = listener.accept().expect("a connection");
    puppet.order("claim");
    client.claim(&stream);
    let (link, _) = offer(&client);
    assert!(link.is_none());
}

#[test]
fn a_sleeper_is_woken_by_its_mail() {
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    client.status.page().0[0].asleep.store(1, Ordering::SeqCst);
    let (one, other) = tcp();
    client.claim(&one);
    client.claim(&other);
    assert!(is_readable(&client.bell, HANG));
}

#[test]
fn a_ring_by_the_daemon_reaches_sleepers_only() {
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    let (one, other) = tcp();
    client.claim(&one);
    client.claim(&other);
    let (_, first) = offer(&client);
    offer(&client);
    let ToProcess::Offer { link, .. } = first else { panic!("{first:?}") };
    let sleeper = Some(WaiterName { member: 0, line: 0 });
    client.send(ToDaemon::Ring { link, party: 0, sleeper }, &[]);
    // The answer to the next message says that the daemon has handled the one before.
    client.send(ToDaemon::WantRing { link, channel: 0, party: 0, log2: 18 }, &[]);
    assert!(matches!(client.mail().message, ToProcess::RingMade { .. }));
    assert!(!is_readable(&client.bell, std::time::Duration::ZERO), "it was awake");
    for sleeper in [sleeper, None] {
        client.status.page().0[0].asleep.store(1, Ordering::SeqCst);
        client.send(ToDaemon::Ring { link, party: 0, sleeper }, &[]);
        assert!(is_readable(&client.bell, HANG));
        client.status.page().0[0].asleep.store(0, Ordering::SeqCst);
        rustix::io::read(&client.bell, &mut [0; 8]).expect("a bell");
    }
}

#[test]
fn rings_come_and_go() {
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    let (one, other) = tcp();
    client.claim(&one);
    client.claim(&other);
    let offers = [offer(&client).1, offer(&client).1];
    let ToProcess::Offer { link, channel, ring: old, .. } = offers[0] else { panic!("no offer") };
    let ends = offers.map(|offer| client.take_offer(offer));
    let want = ToDaemon::WantRing { link, channel, party: 0, log2: 20 };
    client.send(want, &[]);
    let mail = client.mail().message;
    let ToProcess::RingMade { ring, party: 0, .. } = mail else { panic!("{mail:?}") };
    assert_eq!(ring.len(), 1 << 20);
    client.send(ToDaemon::ReturnRing { link, channel, party: 0, ring: old }, &[]);
    for _ in 0..3 {
        client.send(want, &[]);
        assert!(matches!(client.mail().message, ToProcess::RingMade { .. }));
    }
    // Both ends closed: the channel and its rings are free, and asking for more is of no use.
    client.send(want, &[]);
    ends.iter().for_each(|end| client.close(*end));
    client.send(want, &[]);
    client.claim(&one);
    client.claim(&other);
    let ToProcess::Offer { channel: next, ring, .. } = offer(&client).1 else { panic!("no offer") };
    assert_eq!(
        (next, Some(ring)),
        (channel + 1, RingPlace::new(64, 16)),
        "a number rests, and a ring does not"
    );
}

#[test]
fn a_claim_alone_comes_to_nothing_after_five_seconds() {
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    let (one, other) = tcp();
    let (slot, state) = client.claim(&one);
    let mail = client.mail().message;
    let generation = state.generation;
    assert_eq!(mail, ToProcess::Dropped { slot, generation, reason: Reason::NoPartner });
    // A claim that was taken back does not match.
    let (slot, state) = client.claim(&other);
    client.send(ToDaemon::Withdraw { slot, generation: state.generation }, &[]);
    client.claim(&one);
    assert!(matches!(client.mail().message, ToProcess::Dropped { reason: Reason::NoPartner, .. }));
}

#[test]
fn a_claim_that_a_rule_denies_is_dropped() {
    let rules = "deny net 127.0.0.0/8".parse().expect("rules");
    let daemon = Running::start(&weft_daemon::Config { rules, ..config() });
    let client = Client::registered(&daemon.address.to_string());
    let (one, _other) = tcp();
    client.claim(&one);
    assert!(matches!(client.mail().message, ToProcess::Dropped { reason: Reason::Rules, .. }));
}

#[test]
fn the_daemon_keeps_no_socket() {
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    let (one, mut other) = tcp();
    client.claim(&one);
    drop(one);
    // If the daemon kept a copy, the end of the stream would never come.
    other.set_read_timeout(Some(HANG)).expect("a time limit");
    assert_eq!(std::io::Read::read(&mut other, &mut [0; 8]).expect("the end"), 0);
}

#[test]
fn a_process_of_another_version_is_told_so() {
    let daemon = Running::new();
    let client = Client::connect(&daemon.address.to_string());
    client.register(VERSION + 1, rustix::process::getpid());
    assert_eq!(client.mail().message, ToProcess::Refused { reason: Reason::Version });
    wait_until(|| client.slab.header().members[0].mail.load(Ordering::Acquire) == 1);
}

#[test]
fn a_process_that_has_lost_its_port_comes_back() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let mut client = Client::registered(&address);
    let (one, other) = tcp();
    client.claim(&one);
    client.claim(&other);
    let (link, offered) = (offer(&client).1, offer(&client).1);
    client.come_back(&address);
    // Its channels are as they were.
    let ToProcess::Offer { link, channel, .. } = link else { panic!("{offered:?}") };
    client.send(ToDaemon::WantRing { link, channel, party: 0, log2: 16 }, &[]);
    assert!(matches!(client.mail().message, ToProcess::RingMade { .. }));
}

#[test]
fn what_a_process_without_a_port_has_closed_is_given_back_when_it_comes_back() {
    let daemon = Running::new();
    let Pair { mut puppet, mut client, file, .. } = pair(&daemon);
    let blocks = || fstat(&file).expect("a file").st_blocks;
    let before = blocks();
    assert_eq!(pwrite(&file, b"octets", RINGS_AT), Ok(6));
    assert!(blocks() > before);
    client.leave_silently(0);
    client.come_back(&daemon.address.to_string());
    puppet.order("close");
    wait_until(|| blocks() == before);
}

#[test]
fn an_end_that_takes_its_offer_is_not_given_back_when_a_relative_comes() {
    let daemon = Running::new();
    let Pair { mut puppet, mut client, file, .. } = pair(&daemon);
    assert_eq!(pwrite(&file, b"octets", RINGS_AT), Ok(6));
    let blocks = fstat(&file).expect("a file").st_blocks;
    let address = daemon.address.to_string();
    let end = client.slab.end(0).expect("an end");
    assert!(end.advance(end.state(), Phase::Fresh));
    client.come_back(&address);
    puppet.order("close");
    // The daemon has heard the puppet by the second answer.
    (0..2).for_each(|_| client.come_back(&address));
    assert_eq!(fstat(&file).expect("a file").st_blocks, blocks);
}
