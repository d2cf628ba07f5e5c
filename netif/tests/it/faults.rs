use weft_netif::{Duration, Impairment, ImpairmentConfig, Instant, LlpState, Wire};

use crate::bench::{Bench, Talker, V4, V6};

/// Streams `len` octets both ways and closes; the virtual time and the wire counters are the run's fingerprint.
fn run(addresses: [&str; 2], config: &ImpairmentConfig, len: usize) -> (Instant, Vec<u64>) {
    let mut bench = Bench::impaired(addresses, config);
    let ids = bench.connect();
    let mut talkers = Talker::pair(len);
    bench.drive(|stacks| {
        let [left, right] = stacks;
        let done = [talkers[0].talk(left, ids[0]), talkers[1].talk(right, ids[1])];
        done == [true, true]
    });
    for side in 0..2 {
        bench.stacks[side].llp(ids[side]).unwrap().shutdown();
    }
    bench.drive(|stacks| (0..2).all(|side| stacks[side].llp(ids[side]).unwrap().state() == LlpState::Closed));
    let mut print = Vec::new();
    for stack in &bench.stacks {
        let (wire, stack_counters) = (stack.wire().counters(), stack.counters());
        print.extend([wire.sent, wire.received, stack_counters.frames_in, stack_counters.frames_out]);
        print.extend(stack.wire().impairment().map(Impairment::counts).unwrap());
    }
    (bench.now, print)
}

#[test]
fn loss_duplication_and_reordering_lose_nothing_and_repeat_by_seed() {
    for addresses in [V4, V6] {
        for seed in [1, 2, 77] {
            let config = ImpairmentConfig {
                seed,
                loss: 0.02,
                duplicate: 0.02,
                reorder: 0.02,
                delay: Duration::from_micros(200),
                jitter: Duration::from_micros(100),
                ..ImpairmentConfig::default()
            };
            let first = run(addresses, &config, 1 << 20);
            assert!(first.1[4] > 0 && first.1[5] > 0 && first.1[6] > 0, "seed {seed}: {first:?}");
            assert_eq!(first, run(addresses, &config, 1 << 20), "seed {seed}");
        }
        let config = |seed| ImpairmentConfig { seed, loss: 0.02, ..ImpairmentConfig::default() };
        assert_ne!(run(addresses, &config(1), 1 << 18), run(addresses, &config(2), 1 << 18));
    }
}

#[test]
fn damaged_frames_are_dropped_by_their_checksums() {
    for addresses in [V4, V6] {
        for seed in [3, 4] {
            let config = ImpairmentConfig { seed, corrupt: 0.05, ..ImpairmentConfig::default() };
            let (_, print) = run(addresses, &config, 1 << 19);
            assert!(print[7] > 10, "seed {seed}: {print:?}");
        }
    }
}

#[test]
fn a_cut_of_the_link_is_survived() {
    let down = Some(Instant::from_millis(1)..Instant::from_secs(9));
    let config = ImpairmentConfig { delay: Duration::from_millis(1), down, ..ImpairmentConfig::default() };
    let (end, _) = run(V4, &config, 1 << 18);
    assert!(end > Instant::from_secs(9), "{end}");
}

#[test]
fn a_link_that_stays_down_ends_both_sides() {
    let down = Some(Instant::from_secs(1)..Instant::from_secs(100_000));
    let wrap = move |_, wire: Wire| {
        wire.with_impairment(Impairment::new(ImpairmentConfig { down: down.clone(), ..ImpairmentConfig::default() }))
    };
    let mut bench = Bench::with(V4, 5, |_, _| {}, wrap);
    let ids = bench.connect();
    bench.pass(Duration::from_secs(2));
    for side in 0..2 {
        bench.stacks[side].llp(ids[side]).unwrap().send_slice(b"lost");
    }
    bench.drive(|stacks| (0..2).all(|side| stacks[side].llp(ids[side]).unwrap().state() == LlpState::Reset));
    for side in 0..2 {
        bench.stacks[side].remove(ids[side]);
    }
    bench.pass(Duration::from_secs(200));
    for stack in &bench.stacks {
        assert_eq!(stack.counters().connections, 0);
        assert_eq!(stack.poll_at(bench.now), None);
    }
}

#[test]
fn zz_sweep() {
    let mut bad = Vec::new();
    for addresses in [V4, V6] {
        for seed in 0..400 {
            for loss in [0.02, 0.1] {
            let config = ImpairmentConfig { seed, loss, duplicate: 0.02, reorder: 0.02, corrupt: 0.01,
                delay: Duration::from_micros(200), jitter: Duration::from_micros(100), ..ImpairmentConfig::default() };
            if std::panic::catch_unwind(|| run(addresses, &config, 1 << 18)).is_err() { bad.push((seed, loss)); }
            }
        }
    }
    println!("bad: {:?}", bad.iter().filter(|b| b.1 < 0.05).collect::<Vec<_>>());
}

#[test]
fn zz_trace() {
    let seed: u64 = std::env::var("S").map_or(77, |s| s.parse().unwrap());
    let loss: f64 = std::env::var("L").map_or(0.1, |s| s.parse().unwrap());
    let addresses = if std::env::var("V").is_ok() { V6 } else { V4 };
    let config = ImpairmentConfig { seed, loss, duplicate: 0.02, reorder: 0.02, corrupt: 0.01,
                delay: Duration::from_micros(200), jitter: Duration::from_micros(100), ..ImpairmentConfig::default() };
    let wrap = |side: usize, wire: Wire| {
        let seed = config.seed * 2 + side as u64;
        let wire = wire.with_impairment(Impairment::new(ImpairmentConfig { seed, ..config.clone() }));
        let f = std::fs::File::create(format!("/tmp/trace{side}.pcap")).unwrap();
        wire.with_capture(weft_netif::Capture::new(f))
    };
    let mut bench = Bench::with(addresses, seed, |_, _| {}, wrap);
    let ids = bench.connect();
    let mut talkers = Talker::pair(1<<18);
    for _ in 0..20000 {
        let [left, right] = &mut bench.stacks;
        if left.llp(ids[0]).unwrap().state() == LlpState::Reset { println!("left {:?}", left.llp(ids[0]).unwrap().cause()); break }
        if right.llp(ids[1]).unwrap().state() == LlpState::Reset { println!("right {:?}", right.llp(ids[1]).unwrap().cause()); break }
        talkers[0].talk(left, ids[0]); talkers[1].talk(right, ids[1]);
        bench.step();
    }
    println!("{:?} {}", talkers, bench.now);
    for s in &mut bench.stacks { s.wire_mut().take_capture().unwrap().finish().unwrap(); }
}
