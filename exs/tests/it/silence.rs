//! A peer that stops.

use std::net::SocketAddr;
use std::time::Duration;

use weft_exs::{Context, Error, Options, Stream};
use weft_netif::Instant;
use weft_rnic::{Config, Ground, Progress};

use crate::world::{LOCAL, PATIENCE};

const MOMENT: Duration = Duration::from_millis(1);

#[test]
fn a_peer_that_stops_in_the_middle_of_a_transfer_is_a_timeout() {
    let brief = Config::host(LOCAL, 1).with_peer_timeout(Duration::from_secs(2));
    let client = Context::open(Ground::Host, brief).unwrap();
    let driven = Config { progress: Progress::External, ..Config::host(LOCAL, 2) };
    let server = Context::open(Ground::Host, driven).unwrap();
    let listener = server.listen::<Stream>(SocketAddr::new(LOCAL, 0), &Options::default()).unwrap();
    let mut connecting = client.connect::<Stream>(listener.local_addr(), &Options::default());
    let mut now = Instant::ZERO;
    let socket = loop {
        now += MOMENT.into();
        server.drive(now);
        match connecting.wait_timeout(MOMENT) {
            Ok(socket) => break socket.unwrap(),
            Err(op) => connecting = op,
        }
    };
    // Nobody drives the server any more. Its system takes some octets, and then no more.
    let sending = socket.send(client.buffer(50_000_000).unwrap(), ..);
    assert_eq!(sending.wait_timeout(PATIENCE).expect("the send ends").0, Err(Error::TimedOut));
    assert_eq!(socket.close().wait(), Ok(()));
}
