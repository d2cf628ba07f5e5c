//! Throughput under loss, in virtual time.

use weft_netif::{Duration, Impairment, ImpairmentConfig, StackConfig, Tcp, Wire};

use crate::bench::{Bench, Talker, V4};

const LEN: usize = 4 << 20;

/// Returns the octets in a second of a stream of [`LEN`] octets in one direction, over a wire with a delay of 1 ms
/// each way.
fn rate(tcp: Tcp, loss: f64) -> f64 {
    let configure = |_: usize, config: &mut StackConfig| config.tcp = tcp;
    let wrap = |side: usize, wire: Wire| {
        let (seed, delay) = (side as u64 + 7, Duration::from_millis(1));
        wire.with_impairment(Impairment::new(ImpairmentConfig {
            seed,
            loss,
            delay,
            ..ImpairmentConfig::default()
        }))
    };
    let mut bench = Bench::with(V4, 3, configure, wrap);
    let ids = bench.connect();
    let begin = bench.now;
    let mut sender = Talker { salt: 1, len: LEN, ..Talker::default() };
    let mut received = 0;
    bench.drive(|stacks| {
        sender.talk(&mut stacks[0], ids[0]);
        let mut llp = stacks[1].llp(ids[1]).unwrap();
        received += llp.unread(usize::MAX);
        llp.consume(usize::MAX);
        received == LEN
    });
    LEN as f64 * 1e6 / (bench.now - begin).total_micros() as f64
}

/// The own TCP repairs a loss within a round trip. smoltcp's waits a second for it.
#[test]
fn losses_cost_the_own_tcp_little() {
    let losses = [0.0, 0.001, 0.01, 0.05];
    let [own, other] = [Tcp::Own, Tcp::Smoltcp].map(|tcp| losses.map(|loss| rate(tcp, loss)));
    let mega = |rates: [f64; 4]| rates.map(|rate| (rate / 1e5).round() / 10.0);
    println!("MB/s at a loss of 0, 0.1, 1 and 5 %: own {:?}, smoltcp {:?}", mega(own), mega(other));
    let least = [40e6, 20e6, 4e6, 0.5e6];
    assert!(own.iter().zip(least).all(|(rate, least)| *rate >= least), "{own:?}");
    assert!(own[1..].iter().zip(&other[1..]).all(|(own, other)| own > other), "{own:?} {other:?}");
}
