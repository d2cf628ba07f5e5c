//! A daemon that comes after another one.

use std::os::fd::{AsFd, OwnedFd};

use weft_daemon::Config;
use weft_sockets::sync::Ordering;
use weft_sockets::{Link, ToDaemon, ToProcess, WaiterName};

use crate::client::{Client, HANG, is_readable, tcp};
use crate::death::{Pair, hear, pair};
use crate::run::{Running, config};

/// A pair whose daemon was replaced. This process has shown the link, and the puppet has not.
fn replaced() -> (Running, Pair) {
    let config = config();
    let first = Running::start(&config);
    let mut pair = pair(&first);
    drop(first);
    let second = Running::start(&config);
    pair.client.come_back(&second.address.to_string());
    let (link, _, party) = pair.offer;
    pair.client.send(ToDaemon::ShowLink { link, party }, &[pair.file.as_fd()]);
    (second, pair)
}

#[test]
fn both_ends_of_an_older_link_find_each_other_again() {
    let (_daemon, Pair { mut puppet, client, offer: (link, channel, party), .. }) = replaced();
    puppet.order("show");
    let mut names = Vec::new();
    hear(&client, |mail| {
        match mail {
            ToProcess::LinkMade { link: name, peer } if *name == link => names.push(*peer),
            ToProcess::PeerStatus { family, member: 0 } => names.push(*family),
            _ => {}
        }
        names.len() == 2
    });
    assert_eq!(names[0], names[1], "the link leads to the family whose page came");
    // Nothing more of it is given out, and its end is noticed as before.
    client.send(ToDaemon::WantRing { link, channel, party, log2: 16 }, &[]);
    puppet.kill();
    hear(&client, |mail| match mail {
        ToProcess::RingMade { .. } => panic!("a ring that may be in use"),
        other => matches!(other, ToProcess::PeerGone { .. }),
    });
    client.send(ToDaemon::Closed { link, channel, party }, &[]);
    hear(&client, |mail| *mail == ToProcess::LinkGone { link });
}

#[test]
fn a_sleeper_behind_an_older_link_is_rung() {
    let daemon = config();
    let first = Running::start(&daemon);
    let mut client = Client::registered(&first.address.to_string());
    let (one, other) = tcp();
    client.claim(&one);
    client.claim(&other);
    let (mut file, mut link) = (None::<OwnedFd>, 0);
    for _ in 0..3 {
        let mut mail = client.mail();
        match mail.message {
            ToProcess::LinkMade { .. } => file = mail.descriptors.pop(),
            offer => (link, _, _) = client.take_offer(offer),
        }
    }
    drop(first);
    let second = Running::start(&Config { address: daemon.address, ..config() });
    client.come_back(&second.address.to_string());
    let file = file.expect("memory");
    for party in [0, 1] {
        client.send(ToDaemon::ShowLink { link, party }, &[file.as_fd()]);
    }
    client.status.page().0[0].asleep.store(1, Ordering::SeqCst);
    client.send(ToDaemon::Ring { link, party: 0, sleeper: Some(WaiterName { member: 0, line: 0 }) }, &[]);
    assert!(is_readable(&client.bell, HANG));
}

#[test]
fn a_link_whose_other_end_never_comes_goes_with_the_own_end() {
    let (_daemon, Pair { client, offer: (link, channel, party), .. }) = replaced();
    client.send(ToDaemon::Closed { link, channel, party }, &[]);
    hear(&client, |mail| *mail == ToProcess::LinkGone { link });
}

#[test]
fn a_link_of_somebody_else_cannot_be_shown() {
    let (daemon, Pair { client, file, offer: (link, _, party), .. }) = replaced();
    // Other memory under the same name.
    let other = Link::create().expect("memory");
    client.send(ToDaemon::ShowLink { link, party }, &[other.as_fd()]);
    client.hear_end();
    let null = std::fs::File::open("/dev/null").expect("a file");
    for (party, file) in [(7, file.as_fd()), (party, null.as_fd())] {
        let client = Client::registered(&daemon.address.to_string());
        client.send(ToDaemon::ShowLink { link, party }, &[file]);
        client.hear_end();
    }
}
