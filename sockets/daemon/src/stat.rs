//! What `weft stat sockets` tells.

use core::net::SocketAddr;
use std::os::unix::fs::MetadataExt;

use serde_json::{Map, Value, json};
use weft_sockets::end::{FAR, Phase};
use weft_sockets::layout::{End, Totals};
use weft_sockets::sync::Ordering;
use weft_sockets::{Carrier, Leg};

use crate::address::Address;
use crate::hosts::why::Why;
use crate::hosts::{Contact, Host};
use crate::link::Channel;
use crate::state::{Family, State};
use crate::sums::Sums;

/// Returns the section `sockets`: where the daemon listens, the number of its network namespace, a line for each
/// connection with a channel, one for each family of processes, one for each remote host, and the sums since the daemon
/// began.
pub(crate) fn tell(state: &State, address: &Address) -> Value {
    let mut sums = state.sums.clone();
    let families: Vec<Value> = state
        .families
        .iter()
        // A remote host has a family without processes.
        .filter(|(name, _)| !state.is_host(**name))
        .map(|(_, family)| {
            let mut own = Sums::default();
            for totals in [&family.slab.header().totals, &living(family)] {
                own.add(totals);
                sums.add(totals);
            }
            let mut line = object(&own);
            line.insert("pids".into(), json!(pids(state, family)));
            line.insert("uid".into(), json!(family.uid));
            Value::Object(line)
        })
        .collect();
    let channels = state.links.iter().flat_map(|(name, link)| {
        let families = link.families.map(|family| match state.families.get(&family) {
            Some(_) if state.is_host(family) => Party::Host,
            Some(family) => Party::Processes(family),
            None => Party::Unknown,
        });
        link.channels.iter().map(move |(number, channel)| (*name, *number, families, (&link.memory, channel)))
    });
    let connections: Vec<Value> = channels
        .map(|(link, number, families, channel)| connection(state, (link, number), families, channel))
        .collect();
    let hosts: Option<Vec<Value>> = state.hosts.as_ref().map(|hosts| hosts.known().map(tell_host).collect());
    let namespace = std::fs::metadata("/proc/self/ns/net").ok().map(|namespace| namespace.ino());
    json!({
        "address": address.to_string(),
        "network_namespace": namespace,
        "processes": families,
        "connections": connections,
        "hosts": hosts,
        "waiting_claims": state.claims.len(),
        "ports": state.ports.len(),
        "links": state.links.len(),
        "sums": object(&sums),
    })
}

/// Returns the section `device`: where the daemon listens, and how many connections share memory.
pub(crate) fn summary(state: &State, address: &Address) -> Value {
    let connections: usize = state.links.values().map(|link| link.channels.len()).sum();
    json!({ "address": address.to_string(), "connections": connections })
}

/// The owner of an end of a channel.
#[derive(Clone, Copy)]
enum Party<'a> {
    Processes(&'a Family),
    /// A program of a remote host.
    Host,
    /// A family that has not shown a link of an earlier daemon.
    Unknown,
}

/// What the ends of a family have done that are not closed.
fn living(family: &Family) -> Totals {
    let totals = Totals::default();
    for (_, end) in family.slab.ends() {
        if matches!(end.state().phase, Phase::Plain | Phase::Claimed | Phase::Offered) {
            totals.add(end);
        }
    }
    totals
}

fn object(sums: &Sums) -> Map<String, Value> {
    let reasons: Map<String, Value> =
        sums.reasons().map(|(reason, count)| (reason.name().to_owned(), json!(count))).collect();
    let mut object: Map<String, Value> =
        sums.counts().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    object.insert("tcp_by_reason".into(), Value::Object(reasons));
    object
}

fn pids(state: &State, family: &Family) -> Vec<i32> {
    family.members.values().filter_map(|id| state.ports.get(id)).map(|port| port.pid).collect()
}

fn connection(
    state: &State,
    (link, number): (u64, u32),
    families: [Party<'_>; 2],
    (memory, channel): (&weft_sockets::Link, &Channel),
) -> Value {
    let addresses = [channel.tuple.map(|tuple| tuple.local), channel.tuple.map(|tuple| tuple.peer)];
    let ends = [0, 1].map(|party: usize| match (families[party], channel.ends[party]) {
        (Party::Processes(family), Some(end)) => family.slab.end(end.slot).map_or(Value::Null, |words| {
            let members = words.holders.members().filter_map(|place| family.members.get(&place));
            let ports = members.filter_map(|id| state.ports.get(id));
            let pids: Vec<i32> = ports.map(|port| port.pid).collect();
            let mut told = tell_end(words, (family.uid, pids), addresses[party]);
            let head = memory.channel(number).map(|words| &words.directions[party].consumer.head);
            let head = head.map_or(0, |head| head.load(Ordering::Relaxed));
            if let (Some(window), Some(sent)) = (told["window"].as_u64(), told["sent"].as_u64()) {
                // A peer may have written anything there.
                told["unread"] = json!(sent.saturating_sub(head).min(window));
            }
            told
        }),
        (Party::Host, Some(_)) => json!({
            "address": addresses[party].map(|address| address.to_string()),
            "is_remote": true,
        }),
        _ => Value::Null,
    });
    json!({ "link": link, "channel": number, "ends": ends })
}

fn tell_end(end: &End, (uid, pids): (u32, Vec<i32>), address: Option<SocketAddr>) -> Value {
    let load = |word: &weft_sockets::sync::AtomicU64| word.load(Ordering::Relaxed);
    let (out, counts) = (&end.outbound, &end.counts);
    let (written, consumed) = (load(&out.written), load(&end.inbound.consumed));
    let (out_ring, in_ring) = (load(&counts.out_ring), load(&counts.in_ring));
    let is_far = end.has(FAR);
    let (sends_by, window) = carrier(load(&out.leg), is_far);
    let (reads_by, _) = carrier(load(&end.inbound.leg), is_far);
    json!({
        "address": address.map(|address| address.to_string()),
        "uid": uid,
        "pids": pids,
        "sends_by": sends_by,
        "reads_by": reads_by,
        "sent": written,
        "sent_by_memory": out_ring,
        "read": consumed,
        "read_by_memory": in_ring,
        "window": window,
        "spins": load(&counts.spins),
        "yields": load(&counts.yields),
        "sleeps": load(&counts.sleeps),
        "wakes": load(&counts.wakes),
        "reason": end.reason().map(|reason| reason.name()),
    })
}

/// Returns the name of what carries a direction, and the octets of its ring.
fn carrier(leg: u64, is_far: bool) -> (&'static str, u64) {
    match Leg::from_word(leg).map(|leg| leg.carrier) {
        Some(Carrier::Ring(place)) => (if is_far { "rdma" } else { "memory" }, place.len()),
        _ => ("tcp", 0),
    }
}

/// What is known of a remote host.
fn tell_host(host: &Host) -> Value {
    let state = match host.contact {
        Contact::Up(_) => "up",
        Contact::Opening(_) => "opening",
        Contact::None(_) => "none",
    };
    json!({
        "address": host.remote.to_string(),
        "local": host.local.to_string(),
        "state": state,
        "reason": host.why.map(Why::name),
        "channels": host.channels.len(),
        "faults": host.faults,
    })
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use rustix::event::epoll;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use weft_rnic::CmEvent;
    use weft_sockets::end::allocate;
    use weft_sockets::{Claim, Claimant, Digests, Hello, Proof, Slab, Status, Tuple, VERSION};

    use super::*;
    use crate::foreign::Foreign;
    use crate::hosts::Hosts;
    use crate::hosts::rnic::Way;
    use crate::lanes::Lanes;
    use crate::remote::greeting::tests::hello;
    use crate::rules::Rules;

    /// A daemon with lanes, which is asked for the other end of this connection. No host has the addresses.
    fn asked(tuple: (&str, &str)) -> (State, Tuple) {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        let mut state = State::new(1000, Rules::default(), epoll).expect("a state");
        let free = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = free.local_addr().expect("a port").port();
        drop(free);
        let networks = "198.51.100.0/24".parse().expect("networks");
        let hosts = Hosts::start(&Lanes { port, networks, ..Lanes::default() }, 1).expect("a device");
        state.hosts = Some(hosts);
        let (local, peer) = tuple;
        let namespace = crate::kernel::namespace().expect("a namespace");
        let address = |text: &str| text.parse().expect("an address");
        let tuple = Tuple::new(namespace, address(local), address(peer));
        let digests = Digests::default();
        let (window_scales, options, is_far) = ((7, 7), 0, false);
        let claim = Claim { tuple, window_scales, options, written: 1, consumed: 1, digests, is_far };
        state.ask_host(Claimant { process: 1, slot: 0, generation: 0 }, &claim, Duration::from_secs(1));
        (state, tuple)
    }

    fn section(state: &State) -> Value {
        tell(state, &"@x".parse().expect("an address"))
    }

    #[test]
    fn a_remote_host_is_listed_and_is_no_family_of_processes() {
        let (state, _) = asked(("198.51.100.1:80", "198.51.100.2:5000"));
        let told = section(&state);
        let host = &told["hosts"][0];
        assert_eq!((&host["address"], &host["local"]), (&json!("198.51.100.2"), &json!("198.51.100.1")));
        assert!(["opening", "none"].contains(&host["state"].as_str().expect("a word")), "{host}");
        assert_eq!((&host["channels"], told["hosts"].as_array().map(Vec::len)), (&json!(0), Some(1)));
        assert_eq!(told["processes"], json!([]));
        let (state, _) = asked(("198.51.100.1:80", "192.0.2.1:5000"));
        assert_eq!(section(&state)["hosts"], json!([]), "lanes lead to other networks");
    }

    #[test]
    fn a_host_tells_why_there_is_no_lane() {
        let (mut state, _) = asked(("198.51.100.1:80", "198.51.100.2:5000"));
        let (fine, other) = (hello_of(VERSION, "198.51.100.1"), hello_of(VERSION + 1, "198.51.100.1"));
        let elsewhere = hello_of(VERSION, "198.51.100.9");
        for (refusal, why) in
            [(fine, "key"), (other, "version"), (elsewhere, "addresses"), (Vec::new(), "refused")]
        {
            let hosts = state.hosts.as_mut().expect("lanes");
            let name = hosts.known().next().expect("a host").name;
            hosts.by_qp.insert((Way::Kernel, 77), name);
            let event = CmEvent::Rejected { qp_num: 77, private_data: refusal.into(), peer_depths: None };
            state.handle_lane_event(Way::Kernel, event, Duration::from_secs(2));
            assert_eq!(section(&state)["hosts"][0]["reason"], why);
        }
    }

    /// The hello of the host 198.51.100.2, which knows this one by the address `remote`.
    fn hello_of(version: u16, remote: &str) -> Vec<u8> {
        let [local, remote] = ["198.51.100.2", remote].map(|ip| ip.parse().expect("an address"));
        Hello { oldest: version, newest: version, local, remote, ..hello(Proof::Wanted, 0) }.encode()
    }

    #[test]
    fn a_daemon_without_lanes_knows_no_hosts() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        let state = State::new(1000, Rules::default(), epoll).expect("a state");
        assert_eq!(section(&state)["hosts"], Value::Null);
    }

    /// A process that comes to a daemon, with an end that it has claimed.
    fn claimant(state: &mut State) -> Claimant {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (port, _other) = pair.expect("a pair");
        assert!(state.accept(port, 1000, 7));
        let process = *state.ports.last_key_value().expect("a port").0;
        let memory = Slab::create().expect("a slab");
        let (slot, end) = allocate(&Slab::map(&memory).expect("a slab"), 0).expect("a place");
        let life = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("an eventfd");
        let (page, _status) = Status::create().expect("a page");
        let memory = [life, page, memory].map(Foreign::harmless);
        state.register(process, (VERSION, VERSION, 0), memory, Duration::ZERO).expect("a member");
        Claimant { process, slot, generation: end.generation }
    }

    #[test]
    fn an_offer_that_a_host_never_answers_is_given_up() {
        let (mut state, tuple) = asked(("198.51.100.1:80", "198.51.100.2:5000"));
        let host = state.hosts.as_ref().and_then(|hosts| hosts.known().next()).expect("a host").name;
        let me = claimant(&mut state);
        let since = Duration::from_secs(3);
        state.join_host(me, (host, 1), tuple, since);
        let channels = |state: &State| state.links.values().map(|link| link.channels.len()).sum::<usize>();
        let end = state.halves_deadline().expect("a time");
        state.expire_halves(end - Duration::from_millis(1));
        assert_eq!((end - since, channels(&state)), (Duration::from_secs(10), 1));
        state.expire_halves(end);
        assert_eq!((state.halves_deadline(), channels(&state)), (None, 0), "its rings are free");
    }

    #[test]
    fn what_goes_to_another_host_goes_by_rdma() {
        let (mut state, tuple) = asked(("198.51.100.1:80", "198.51.100.2:5000"));
        let host = state.hosts.as_ref().and_then(|hosts| hosts.known().next()).expect("a host").name;
        let me = claimant(&mut state);
        state.join_host(me, (host, 1), tuple, Duration::ZERO);
        let (link, channel, party) = {
            let (name, link) = state.links.first_key_value().expect("a link");
            let party = usize::from(link.families[0] == host);
            (*name, *link.channels.first_key_value().expect("a channel").0, party)
        };
        let ring = state.links.get(&link).and_then(|link| link.ring(channel, party)).expect("a ring");
        let family = state.member(me.process).expect("a member").family;
        let words = state.families.get(&family).and_then(|family| family.slab.end(me.slot)).expect("an end");
        let leg = Leg { number: 1, carrier: Carrier::Ring(ring) };
        words.outbound.leg.store(leg.to_word(), Ordering::Relaxed);
        words.identity.flags.fetch_or(FAR, Ordering::Relaxed);
        let told = section(&state);
        let ends = &told["connections"][0]["ends"];
        let (own, far) = (&ends[party], &ends[1 - party]);
        assert_eq!((&own["sends_by"], &own["reads_by"]), (&json!("rdma"), &json!("tcp")));
        let remote = json!({ "address": "198.51.100.2:5000", "is_remote": true });
        assert_eq!((&own["address"], far), (&json!("198.51.100.1:80"), &remote));
        words.identity.flags.fetch_and(!FAR, Ordering::Relaxed);
        assert_eq!(section(&state)["connections"][0]["ends"][party]["sends_by"], "memory");
    }
}
