//! A daemon that is stopped for longer than its sessions wait. The hosts are network namespaces.

use rustix::process::Signal;

use crate::spaces::{Spaces, Talk};

/// Three hosts at one switch: one whose daemon is stopped, one that has nothing to do with it, and the peer of both.
fn hosts() -> Option<Spaces> {
    let mut commands = vec!["-n {2} link add switch type bridge".to_owned()];
    for (at, ip) in [(0, ONE), (1, TWO)] {
        commands.push(format!("-n {{2}} link add to-{at} type veth peer name wire netns {{{at}}}"));
        commands.push(format!("-n {{2}} link set to-{at} master switch up"));
        commands.push(format!("-n {{{at}}} addr add {ip}/24 dev wire"));
        commands.push(format!("-n {{{at}}} link set wire up"));
    }
    commands.push("-n {2} addr add 10.79.0.3/24 dev switch".to_owned());
    commands.push("-n {2} link set switch up".to_owned());
    Spaces::new("stopped", 3, &commands)
}

/// Its connections go back to TCP, and no octet is lost or comes twice. The peer's connection with a third host keeps
/// its rings, and has no longer to wait. When the daemon goes on, new connections have rings.
#[test]
fn a_daemon_that_is_stopped_takes_its_own_connections_to_tcp_alone() {
    let Some(hosts) = hosts() else { return };
    let daemons = [ONE_HOST, TWO_HOST, PEER].map(|host| hosts.daemon(host, "10.79.0.0/24"));
    let Some(mut its) = hosts.talk([PEER, ONE_HOST], &format!("{ONE} 7000")) else { return };
    let mut other = hosts.talk([PEER, TWO_HOST], &format!("{TWO} 7000")).expect("Python is there");
    [&mut its, &mut other].into_iter().for_each(Talk::come_to_rings);
    daemons[0].signal(Signal::STOP);
    its.client.say("turns");
    // While its octets wait for the stopped daemon, the others' go there and back.
    (0..20).for_each(|_| assert!(other.turns() > 0));
    let waited = its.client.line();
    assert!(waited.parse::<u64>().is_ok(), "octets are lost, or come twice");
    assert!(its.turns() > 0);
    assert_eq!(its.rings(), [[false; 2]; 2], "octets by a daemon that is stopped");
    assert_eq!(other.rings(), [[true; 2]; 2]);
    daemons[0].signal(Signal::CONT);
    assert!(its.turns() > 0);
    let mut next = hosts.talk([PEER, ONE_HOST], &format!("{ONE} 7001")).expect("Python is there");
    next.come_to_rings();
    for talk in [&mut its, &mut other, &mut next] {
        assert!(talk.turns() > 0);
    }
    assert_eq!(its.rings(), [[false; 2]; 2], "it stays on TCP");
    [its, other, next].into_iter().for_each(Talk::end);
}

const ONE_HOST: usize = 0;
const TWO_HOST: usize = 1;
const PEER: usize = 2;
const ONE: &str = "10.79.0.1";
const TWO: &str = "10.79.0.2";
