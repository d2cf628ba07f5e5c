//! Daemons of two hosts that speak no version in common.

use std::io::{Read, Write};

use weft_daemon::Lanes;
use weft_rnic::{CmEvent, Config, Device, Ground, Progress};
use weft_sockets::{Hello, VERSION};

use crate::client::HANG;
use crate::lanes::lanes;
use crate::space::{Space, tcp_between};
use crate::stranger::{Stranger, hello};
use crate::told::Told;

/// The daemon that is asked refuses. The connection stays on TCP with all its octets, and `weft stat sockets` says why.
#[test]
fn a_connection_with_a_daemon_of_another_version_stays_on_tcp() {
    let Some([space, _other]) = Space::two() else { return };
    let far = space.stranger();
    let mut host = Told::new(&space, lanes(), "version");
    let ip = far.ip.parse().expect("an address");
    let config = Config { progress: Progress::Thread, ..Config::host(ip, 7) };
    let device = far.run(|| Device::open(Ground::Host, config)).expect("a device");
    let events = device.create_event_channel().expect("a channel");
    let _listener = far.run(|| device.listen(&events, Lanes::PORT)).expect("a listener");
    let (mut first, mut second) = tcp_between(&space, &far);
    host.host.client.claim(&first);
    let asked = events.wait(Some(HANG)).expect("a daemon that asks");
    let CmEvent::ConnectRequest(request) = asked else { panic!("{asked:?}") };
    let theirs = Hello::decode(&request.private_data).expect("a hello");
    assert_eq!((theirs.oldest, theirs.newest), (VERSION, VERSION));
    let next = Hello { oldest: VERSION + 1, newest: VERSION + 2, ..hello() };
    device.reject(request.id, &next.encode()).expect("a refusal");
    assert!(host.host.offer().is_none(), "an offer without a lane");
    assert_eq!(host.reason(), "version");
    let octets: Vec<u8> = (0..60_000_u32).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect();
    for _ in 0..2 {
        first.write_all(&octets).expect("sent");
        let mut found = vec![0; octets.len()];
        second.read_exact(&mut found).expect("received");
        assert!(found == octets, "other octets");
        (first, second) = (second, first);
    }
}

/// The control: a newer daemon that also speaks this version has a lane. One that speaks it no more is told which
/// version it would need.
#[test]
fn the_versions_that_both_daemons_speak_decide() {
    let Some([space, _other]) = Space::two() else { return };
    let far = space.stranger();
    let _host = Told::new(&space, lanes(), "versions");
    let newer = Hello { oldest: VERSION - 1, newest: VERSION + 1, ..hello() };
    let stranger = Stranger::new(&far);
    let theirs = stranger.greet(&far, &newer.encode()).expect("a lane");
    assert_eq!(theirs.common_version(&newer), Some(VERSION));
    drop(stranger);
    let next = Hello { oldest: VERSION + 1, newest: VERSION + 1, ..hello() };
    let refusal = Stranger::new(&far).refusal(&far, &next.encode()).expect("a hello that says why");
    assert_eq!((refusal.oldest, refusal.newest, refusal.common_version(&next)), (VERSION, VERSION, None));
}
