//! Processes that end without a word.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::process::Signal;
use weft_sockets::layout::{Direction, KILLED, RESET};
use weft_sockets::sync::Ordering;
use weft_sockets::{Carrier, Leg, Link, RingPlace, ToDaemon, ToProcess, WaiterName};

use crate::client::{Client, HANG, is_readable, wait_until};
use crate::puppet::{DaemonProcess, Puppet};
use crate::run::Running;

/// A connection between this process and a puppet, with its channel.
pub(crate) struct Pair {
    pub(crate) puppet: Puppet,
    pub(crate) client: Client,
    link: Link,
    pub(crate) file: OwnedFd,
    pub(crate) offer: (u64, u32, u8),
    listener: TcpListener,
    _stream: TcpStream,
}

pub(crate) fn pair(daemon: &Running) -> Pair {
    let address = daemon.address.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut puppet = Puppet::new(&address);
    puppet.order(&format!("connect {}", listener.local_addr().expect("an address")));
    let (stream, _) = listener.accept().expect("a connection");
    let client = Client::registered(&address);
    client.claim(&stream);
    puppet.order("claim");
    puppet.order("offer");
    let mut file: Option<OwnedFd> = None;
    let offer = loop {
        let mut mail = client.mail();
        match mail.message {
            ToProcess::LinkMade { .. } => file = mail.descriptors.pop(),
            ToProcess::Offer { .. } => break client.take_offer(mail.message),
            _ => {}
        }
    };
    let file = file.expect("memory");
    let link = Link::map(&file).expect("a link");
    Pair { puppet, client, link, file, offer, listener, _stream: stream }
}

/// Takes mail until this message comes.
pub(crate) fn hear(client: &Client, mut wanted: impl FnMut(&ToProcess) -> bool) {
    while !wanted(&client.mail().message) {}
}

#[test]
fn a_link_ends_with_the_other_process_and_the_own_end() {
    let daemon = Running::new();
    let Pair { puppet, client, link, offer, .. } = pair(&daemon);
    puppet.kill();
    hear(&client, |mail| matches!(mail, ToProcess::PeerGone { member: 0, .. }));
    let direction = &link.channel(offer.1).expect("a channel").directions[usize::from(1 - offer.2)];
    let flags = direction.producer.flags.load(Ordering::Acquire);
    assert_eq!(flags & RESET, 0, "the FIN of the kernel's socket says it");
    client.close(offer);
    hear(&client, |mail| *mail == ToProcess::LinkGone { link: offer.0 });
}

#[test]
fn a_link_whose_ends_are_closed_ends_with_the_other_process() {
    let daemon = Running::new();
    let Pair { mut puppet, client, offer, .. } = pair(&daemon);
    client.close(offer);
    puppet.order("close");
    puppet.kill();
    hear(&client, |mail| *mail == ToProcess::LinkGone { link: offer.0 });
}

/// Kills the other end while this process sleeps until there is room in what it sends.
fn die_before(flag: u16, prepare: impl FnOnce(&mut Puppet, &Direction)) {
    let daemon = Running::new();
    let Pair { mut puppet, client, link, offer, .. } = pair(&daemon);
    let channel = link.channel(offer.1).expect("a channel");
    let (own, other) = (usize::from(offer.2), usize::from(1 - offer.2));
    prepare(&mut puppet, &channel.directions[own]);
    let me = WaiterName { member: 0, line: 0 };
    channel.directions[own].legs.waiter.store(me.to_word(), Ordering::SeqCst);
    client.status.page().0[0].asleep.store(1, Ordering::SeqCst);
    puppet.kill();
    assert!(is_readable(&client.bell, HANG));
    hear(&client, |mail| matches!(mail, ToProcess::PeerGone { .. }));
    let flags = channel.directions[other].producer.flags.load(Ordering::Acquire);
    assert_eq!(flags & (RESET | KILLED), flag);
}

#[test]
fn death_behind_a_final_octet_resets_the_other_direction_and_wakes() {
    die_before(RESET, |puppet, _| puppet.order("final"));
}

#[test]
fn death_before_octets_in_the_ring_is_told_and_wakes() {
    die_before(KILLED, |_, own| {
        let ring = RingPlace::new(64, 16).expect("a place");
        own.legs.leg.store(Leg { number: 1, carrier: Carrier::Ring(ring) }.to_word(), Ordering::Release);
        own.producer.tail.store(8, Ordering::Release);
    });
}

#[test]
fn a_relative_without_a_port_keeps_the_end_until_it_ends() {
    let daemon = Running::new();
    let Pair { mut puppet, client, offer: (link, channel, party), .. } = pair(&daemon);
    // It may outlive a failure of the test: it must not keep its output open.
    let mut relative = std::process::Command::new("sleep");
    let relative = relative.arg("1000").stdout(Stdio::null()).stderr(Stdio::null());
    let mut relative = relative.spawn().expect("a process");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", relative.id())).expect("the kernel's text");
    let started = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(20)).expect("a field");
    puppet.order(&format!("relative {} {started}", relative.id()));
    puppet.kill();
    hear(&client, |mail| matches!(mail, ToProcess::PeerGone { .. }));
    client.close((link, channel, party));
    // The channel is there still.
    client.send(ToDaemon::WantRing { link, channel, party, log2: 16 }, &[]);
    hear(&client, |mail| matches!(mail, ToProcess::RingMade { .. }));
    relative.kill().expect("a process");
    relative.wait().expect("an end");
    hear(&client, |mail| *mail == ToProcess::LinkGone { link });
}

#[test]
fn a_child_that_was_never_forked_keeps_nothing() {
    let daemon = Running::new();
    let Pair { mut puppet, client, offer: (link, channel, party), .. } = pair(&daemon);
    let parent = puppet.pid().as_raw_nonzero();
    puppet.order(&format!("relative {parent} 0"));
    puppet.kill();
    client.close((link, channel, party));
    hear(&client, |mail| *mail == ToProcess::LinkGone { link });
}

#[test]
fn a_child_that_does_not_run_yet_keeps_the_end() {
    let daemon = Running::new();
    let Pair { mut puppet, client, listener, offer: (link, channel, party), .. } = pair(&daemon);
    let mut child = std::process::Command::new("sleep");
    let mut child = child.arg("1000").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process");
    puppet.order(&format!("relative {} 0", child.id()));
    puppet.kill();
    client.close((link, channel, party));
    // The daemon looks at the child several times before it drops a claim.
    let lonely = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    client.claim(&lonely);
    hear(&client, |mail| {
        assert_ne!(*mail, ToProcess::LinkGone { link });
        matches!(mail, ToProcess::Dropped { .. })
    });
    child.kill().expect("a process");
    child.wait().expect("an end");
    hear(&client, |mail| *mail == ToProcess::LinkGone { link });
}

/// A program may write any processes into its slab.
#[test]
fn places_of_children_that_never_come_are_not_kept_without_limit() {
    let daemon = Running::new();
    let Pair { client, offer, .. } = pair(&daemon);
    let places = client.slab.header().members.iter().skip(1).take(300);
    places.clone().for_each(|place| place.pid.store(std::process::id(), Ordering::Release));
    assert!(client.slab.end(0).expect("an end").holders.add(1));
    client.close(offer);
    let kept = || places.clone().filter(|place| place.pid.load(Ordering::Acquire) != 0).count();
    wait_until(|| kept() == 256);
}

#[test]
fn a_stopped_process_holds_nobody_up() {
    let daemon = Running::new();
    let Pair { puppet, client, offer, .. } = pair(&daemon);
    puppet.signal(Signal::STOP);
    client.send(ToDaemon::WantRing { link: offer.0, channel: offer.1, party: offer.2, log2: 16 }, &[]);
    hear(&client, |mail| matches!(mail, ToProcess::RingMade { .. }));
}

#[test]
fn a_claim_ends_with_its_process() {
    let daemon = Running::new();
    let Pair { mut puppet, client, listener, .. } = pair(&daemon);
    puppet.order(&format!("connect {}", listener.local_addr().expect("an address")));
    let (stream, _) = listener.accept().expect("a connection");
    puppet.order("claim");
    puppet.kill();
    hear(&client, |mail| matches!(mail, ToProcess::PeerGone { .. }));
    client.claim(&stream);
    // The other end is closed: this claim cannot match, and no offer comes.
    hear(&client, |mail| match mail {
        ToProcess::Dropped { .. } => true,
        ToProcess::Offer { .. } => panic!("an offer for a dead end"),
        _ => false,
    });
}

#[test]
fn many_ports_of_processes_that_die_leave_nothing() {
    let daemon = DaemonProcess::new();
    let folder = format!("/proc/{}/fd", daemon.pid());
    let descriptors = || std::fs::read_dir(&folder).expect("descriptors").count();
    // All that is closed was taken once the daemon answers a process that came later.
    let settle = || drop(Client::registered(&daemon.address));
    settle();
    let before = descriptors();
    let mut puppets: Vec<_> = (0..4).map(|_| Puppet::new(&daemon.address)).collect();
    puppets.iter_mut().for_each(|puppet| puppet.order("ports 250"));
    assert!(descriptors() >= before + 1000);
    puppets.into_iter().for_each(Puppet::kill);
    wait_until(|| {
        settle();
        descriptors() <= before
    });
}
