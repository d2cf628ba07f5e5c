//! A daemon that comes after another one.

use std::os::fd::{AsFd, OwnedFd};

use weft_daemon::Config;
use weft_sockets::end::FAR;
use weft_sockets::layout::{COMMITTED, LOST};
use weft_sockets::sync::Ordering;
use weft_sockets::{Link, RingPlace, ToDaemon, ToProcess, WaiterName};

use crate::client::{Client, HANG, is_readable, tcp, wait_until};
use crate::death::{Pair, hear, pair};
use crate::run::{Running, config};

/// A pair whose daemon was replaced, and which has not come to the new one.
fn left() -> (Running, Pair) {
    let config = config();
    let first = Running::start(&config);
    let pair = pair(&first);
    drop(first);
    (Running::start(&config), pair)
}

/// A pair whose daemon was replaced. This process has shown the link, and the puppet has not.
fn replaced() -> (Running, Pair) {
    let (second, mut pair) = left();
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
            ToProcess::LinkMade { link: name, peer, .. } if *name == link => names.push(*peer),
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
    client.close((link, channel, party));
    hear(&client, |mail| *mail == ToProcess::LinkGone { link });
}

/// A process that is both parties of a link, and its memory. Its daemon was replaced, and knows nothing of the link.
fn alone() -> (Running, Client, OwnedFd, [(u64, u32, u8); 2]) {
    let daemon = config();
    let first = Running::start(&daemon);
    let mut client = Client::registered(&first.address.to_string());
    let (one, other) = tcp();
    client.claim(&one);
    client.claim(&other);
    let (mut file, mut offers) = (None::<OwnedFd>, Vec::new());
    for _ in 0..3 {
        let mut mail = client.mail();
        match mail.message {
            ToProcess::LinkMade { .. } => file = mail.descriptors.pop(),
            offer => offers.push(client.take_offer(offer)),
        }
    }
    drop(first);
    let second = Running::start(&Config { address: daemon.address, ..config() });
    client.come_back(&second.address.to_string());
    offers.sort_unstable();
    (second, client, file.expect("memory"), [offers[0], offers[1]])
}

#[test]
fn a_sleeper_behind_an_older_link_is_rung() {
    let (_daemon, client, file, [(link, ..), _]) = alone();
    for party in [0, 1] {
        client.send(ToDaemon::ShowLink { link, party }, &[file.as_fd()]);
    }
    hear_bell(&client, link, 0);
}

/// Has the daemon ring the other party of a link, and waits for that.
fn hear_bell(client: &Client, link: u64, party: u8) {
    client.status.page().0[0].asleep.store(1, Ordering::SeqCst);
    let sleeper = Some(WaiterName { member: 0, line: 0 });
    client.send(ToDaemon::Ring { link, party, sleeper }, &[]);
    assert!(is_readable(&client.bell, HANG));
}

/// Another thread closes an end before the process has shown the link of the other one.
#[test]
fn a_link_stays_until_both_ends_of_its_process_are_closed() {
    let (_daemon, client, file, [first, second]) = alone();
    let link = first.0;
    client.send(ToDaemon::ShowLink { link, party: 0 }, &[file.as_fd()]);
    hear_bell(&client, link, 1);
    client.close(first);
    client.send(ToDaemon::ShowLink { link, party: 1 }, &[file.as_fd()]);
    hear(&client, |mail| match mail {
        ToProcess::LinkGone { .. } => panic!("its second end is in use"),
        other => matches!(other, ToProcess::LinkMade { .. }),
    });
    client.close(second);
    hear(&client, |mail| *mail == ToProcess::LinkGone { link });
}

#[test]
fn a_link_whose_other_end_never_comes_goes_with_the_own_end() {
    let (_daemon, Pair { client, offer: (link, channel, party), .. }) = replaced();
    client.close((link, channel, party));
    hear(&client, |mail| *mail == ToProcess::LinkGone { link });
}

/// The daemon that ended was the other party itself. What the other host has received is not known any more.
#[test]
fn an_end_whose_other_end_is_on_another_host_goes_back_to_tcp() {
    for is_far in [true, false] {
        let (second, mut pair) = left();
        let (link, channel, party) = pair.offer;
        let end = pair.client.slab.end(0).expect("an end");
        end.identity.flags.fetch_or(if is_far { FAR } else { 0 }, Ordering::Relaxed);
        pair.client.come_back(&second.address.to_string());
        pair.client.status.page().0[0].asleep.store(1, Ordering::SeqCst);
        let memory = Link::map(&pair.file).expect("a link");
        let words = &memory.channel(channel).expect("a channel").directions[usize::from(party)];
        // It sends by a ring.
        words.reader.attached.store(COMMITTED, Ordering::SeqCst);
        pair.client.send(ToDaemon::ShowLink { link, party }, &[pair.file.as_fd()]);
        let is_lowered = || words.reader.please.load(Ordering::SeqCst) == LOST;
        if is_far {
            wait_until(is_lowered);
            assert!(is_readable(&pair.client.bell, HANG), "its sleepers hear of it");
        } else {
            // The daemon handles messages in order.
            pair.client.send(ToDaemon::Ring { link, party, sleeper: None }, &[]);
            pair.puppet.order("show");
            hear(&pair.client, |mail| matches!(mail, ToProcess::LinkMade { .. }));
        }
        assert_eq!(is_lowered(), is_far);
        if is_far {
            pair.client.send(ToDaemon::WantRing { link, channel, party, log2: 16 }, &[]);
            pair.client.close(pair.offer);
            hear(&pair.client, |mail| *mail == ToProcess::LinkGone { link });
        }
    }
}

#[test]
fn a_link_that_both_ends_have_left_goes() {
    let (_daemon, Pair { mut puppet, client, offer, .. }) = replaced();
    puppet.order("show");
    client.close(offer);
    puppet.order("close");
    hear(&client, |mail| *mail == ToProcess::LinkGone { link: offer.0 });
}

/// A relative shows the link for the whole family. This process has no port yet, and tells nothing of what it closes.
#[test]
fn an_end_that_was_closed_without_a_word_goes_when_its_link_is_shown_again() {
    let (_daemon, Pair { client, file, offer: (link, _, party), .. }) = replaced();
    client.leave_silently(0);
    client.send(ToDaemon::ShowLink { link, party }, &[file.as_fd()]);
    hear(&client, |mail| *mail == ToProcess::LinkGone { link });
}

#[test]
fn a_link_that_is_shown_without_ends_goes() {
    let (second, mut pair) = left();
    let (link, _, party) = pair.offer;
    pair.client.slab.end(0).expect("an end").identity.link.store(0, Ordering::Relaxed);
    pair.client.come_back(&second.address.to_string());
    pair.client.send(ToDaemon::ShowLink { link, party }, &[pair.file.as_fd()]);
    hear(&pair.client, |mail| *mail == ToProcess::LinkGone { link });
}

/// The first to show a link may be the other end's process, which has other memory under its name.
#[test]
fn a_process_that_shows_other_memory_costs_its_peer_no_more_than_the_link() {
    let (second, mut pair) = left();
    let (link, channel, party) = pair.offer;
    let liar = Client::registered(&second.address.to_string());
    let other = Link::create().expect("memory");
    let (slot, state) = liar.claim(&tcp().0);
    let ring = RingPlace::new(64, 16).expect("a place");
    liar.take_offer(ToProcess::Offer {
        slot,
        generation: state.generation,
        link,
        channel: 0,
        party: 0,
        ring,
        secret: [0; 2],
    });
    for party in [0, 1] {
        liar.send(ToDaemon::ShowLink { link, party }, &[other.as_fd()]);
    }
    hear(&liar, |mail| matches!(mail, ToProcess::LinkMade { .. }));
    pair.puppet.order("show");
    pair.puppet.order("close");
    // Its port goes on: a new connection is upgraded.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    pair.puppet.order(&format!("connect {}", listener.local_addr().expect("an address")));
    let (stream, _) = listener.accept().expect("a connection");
    pair.client.come_back(&second.address.to_string());
    pair.client.send(ToDaemon::ShowLink { link, party }, &[pair.file.as_fd()]);
    pair.client.send(ToDaemon::Ring { link, party, sleeper: None }, &[]);
    pair.client.send(ToDaemon::WantRing { link, channel, party, log2: 16 }, &[]);
    pair.client.claim(&stream);
    pair.puppet.order("claim");
    hear(&pair.client, |mail| matches!(mail, ToProcess::Offer { .. }));
}

#[test]
fn what_is_no_link_cannot_be_shown() {
    let (daemon, Pair { client, file, offer: (link, _, _), .. }) = replaced();
    let null = std::fs::File::open("/dev/null").expect("a file");
    client.send(ToDaemon::ShowLink { link: link + 1, party: 0 }, &[null.as_fd()]);
    client.hear_end();
    let client = Client::registered(&daemon.address.to_string());
    client.send(ToDaemon::ShowLink { link, party: 7 }, &[file.as_fd()]);
    client.hear_end();
}

/// A process that sleeps, or has nothing to tell, looks for another daemon only if it hears that this one has left.
#[test]
fn a_daemon_that_leaves_tells_its_processes() {
    for is_replaced in [false, true] {
        let config = config();
        let first = Running::start(&config);
        let client = Client::registered(&first.address.to_string());
        let mail = || client.slab.header().members[0].mail.load(Ordering::Acquire);
        let told = mail();
        client.status.page().0[0].asleep.store(1, Ordering::SeqCst);
        if is_replaced {
            let _second = Running::replace(&config);
            first.join();
        } else {
            drop(first);
        }
        assert!(mail() > told && is_readable(&client.bell, HANG));
        client.hear_end();
    }
}
