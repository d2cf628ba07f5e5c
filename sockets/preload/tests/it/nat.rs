//! Programs behind routers that change addresses. The hosts and the routers are network namespaces.

use crate::spaces::{Spaces, Talk};

/// A server, and two routers with a host behind each. Both hosts have one address.
fn net() -> Option<Spaces> {
    let mut commands = Vec::new();
    for (router, client, outside, gate) in [
        (ROUTERS[0], CLIENTS[0], "10.76.1.2", "10.76.1.1"),
        (ROUTERS[1], CLIENTS[1], "10.76.2.2", "10.76.2.1"),
    ] {
        commands.extend([
            format!("-n {{{router}}} link add outside type veth peer name to-{router} netns {{0}}"),
            format!("-n {{0}} addr add {gate}/24 dev to-{router}"),
            format!("-n {{0}} link set to-{router} up"),
            format!("-n {{{router}}} addr add {outside}/24 dev outside"),
            format!("-n {{{router}}} link set outside up"),
            format!("-n {{{router}}} route add default via {gate}"),
            format!("-n {{{router}}} link add inside type veth peer name wire netns {{{client}}}"),
            format!("-n {{{router}}} addr add 192.168.5.1/24 dev inside"),
            format!("-n {{{router}}} link set inside up"),
            format!("-n {{{client}}} addr add 192.168.5.2/24 dev wire"),
            format!("-n {{{client}}} link set wire up"),
            format!("-n {{{client}}} route add default via 192.168.5.1"),
        ]);
    }
    // An address of the server that both routers reach.
    commands.push("-n {0} addr add 10.76.0.1/32 dev lo".to_owned());
    let net = Spaces::new("nat", 5, &commands)?;
    for router in ROUTERS {
        let rules = "add table ip weft; \
                     add chain ip weft out { type nat hook postrouting priority 100; }; \
                     add rule ip weft out oifname outside masquerade";
        let script = format!("echo 1 > /proc/sys/net/ipv4/ip_forward && nft '{rules}'");
        let done = net.command(router, "sh").args(["-c", &script]).output().expect("a shell");
        if !done.status.success() {
            let reason = String::from_utf8_lossy(&done.stderr).replace('\n', " ");
            println!("skipped: no router that changes addresses: {reason}");
            return None;
        }
    }
    Some(net)
}

/// Both hosts have a daemon, and a connection from the same address and port to the server, at the same time. Both stay
/// on TCP, and each has its own octets. A program that talks to the server without a router between has rings
/// meanwhile.
#[test]
fn programs_behind_routers_talk_by_tcp_and_each_with_its_own_partner() {
    let Some(net) = net() else { return };
    let _daemons =
        [SERVER, ROUTERS[0], CLIENTS[0], CLIENTS[1]].map(|space| net.daemon(space, "10.76.0.0/16"));
    let Some(mut direct) = net.talk([ROUTERS[0], SERVER], "10.76.0.1 7000") else { return };
    direct.come_to_rings();
    let mut talks = [(0, "10.76.0.1 7001 40778"), (1, "10.76.0.1 7002 40778")]
        .map(|(at, place)| net.talk([CLIENTS[at], SERVER], place).expect("Python is there"));
    for _ in 0..TURNS {
        talks.iter_mut().for_each(|talk| assert!(talk.turns() > 0));
        assert!(direct.turns() > 0);
    }
    for talk in &talks {
        assert_eq!(talk.rings(), [[false; 2]; 2], "a ring through a router");
    }
    assert_eq!(direct.rings(), [[true; 2]; 2], "the router's own connection");
    talks.into_iter().chain([direct]).for_each(Talk::end);
}

const SERVER: usize = 0;
const ROUTERS: [usize; 2] = [1, 2];
const CLIENTS: [usize; 2] = [3, 4];
/// Turns of which each has more octets than a program needs for a claim.
const TURNS: usize = 40;
