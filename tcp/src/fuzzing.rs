//! The bodies of the fuzz targets. Plain tests run them as well. They panic if an invariant breaks.
//!
//! `life.rs` has the body of `tcp_segment`.

mod life;

use smoltcp::wire::TcpOption;

use crate::{
    Config, Flags, Interval, Micros, Options, SackBlocks, Secret, Segment, Seq, SynCookies, Timestamps, Tuple,
};

pub use life::segment;

/// Reads any octets as options, and writes what was read. Compares with smoltcp as far as that reads without an error.
///
/// # Panics
/// If something is read that is written otherwise, or smoltcp reads something else.
pub fn options(octets: &[u8]) {
    let octets = octets.get(..octets.len().min(Options::MAX_LEN)).unwrap_or_default();
    let read = Options::parse(octets);
    let mut written = [0; Options::MAX_LEN];
    let len = read.emit(&mut written);
    assert_eq!(len, Some(read.len()));
    let again = Options::parse(written.get(..read.len()).unwrap_or_default());
    let fitting = again.sack.as_slice().len();
    assert_eq!(Some(again.sack.as_slice()), read.sack.as_slice().get(..fitting));
    assert_eq!(Options { sack: read.sack, ..again }, read);
    if let Some(theirs) = by_smoltcp(octets) {
        let mut ours = read;
        ours.sack = SackBlocks::NONE;
        for &block in read.sack.as_slice().iter().take(3) {
            ours.sack.push(block);
        }
        assert_eq!(ours, theirs);
    }
}

/// Takes octets as a SYN, as the time, and as an ACK that says that it answers the cookie.
///
/// # Panics
/// If the true answer is refused, or opens a connection of other numbers, or a false one is taken.
pub fn cookie(octets: &[u8]) {
    let Some((&[a, b, c, d, e, f, g, h], options)) = octets.split_first_chunk::<8>() else { return };
    let config = Config::new(1500, false);
    let tuple = Tuple { local: ([10, 0, 0, 1], 80).into(), remote: ([10, 0, 0, 2], 9).into() };
    let secret = Secret::new([7; 16]);
    let key = (&secret, &tuple);
    let now = Micros::from_millis(u64::from(u16::from_be_bytes([a, b])));
    let mut syn = Segment { flags: Flags::SYN, ..Segment::new(Seq(u32::from_be_bytes([c, d, e, f])), None) };
    syn.options = Options::parse(options);
    let mut cookies = SynCookies::new();
    let Some(answer) = cookies.answer(&config, key, &syn, now) else { return };
    let mut ack = Segment::new(syn.seq + 1, Some(answer.seq + 1));
    ack.options.timestamps =
        answer.options.timestamps.map(|stamps| Timestamps { value: stamps.echo, echo: stamps.value });
    let half = cookies.check(&config, key, &ack, now);
    assert_eq!(half.map(|half| half.numbers()), Some((answer.seq, syn.seq)));
    let forged = Segment { ack: Some(answer.seq + 1 + (1 << (g % 32))), ..ack };
    assert_eq!(cookies.check(&config, key, &forged, now), None);
    let late = now + Micros::from_secs(128 + u64::from(h));
    assert_eq!(cookies.check(&config, key, &ack, late), None);
}

/// Returns what smoltcp reads, which has no more than three blocks of SACK, or nothing after an error.
fn by_smoltcp(mut octets: &[u8]) -> Option<Options> {
    let mut options = Options::default();
    while !octets.is_empty() {
        let (rest, option) = TcpOption::parse(octets).ok()?;
        match option {
            TcpOption::EndOfList => break,
            TcpOption::MaxSegmentSize(mss) => options.mss = Some(mss),
            TcpOption::WindowScale(shift) => {
                options.window_scale = Some(shift.min(Options::MAX_WINDOW_SCALE))
            }
            TcpOption::SackPermitted => options.sack_permitted = true,
            TcpOption::SackRange(ranges) => {
                options.sack = SackBlocks::NONE;
                for (start, end) in ranges.into_iter().flatten() {
                    options.sack.push(Interval::new(Seq(start), Seq(end)));
                }
            }
            TcpOption::TimeStamp { tsval, tsecr } => {
                options.timestamps = Some(Timestamps { value: tsval, echo: tsecr });
            }
            TcpOption::NoOperation | TcpOption::Unknown { .. } => {}
        }
        octets = rest;
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_octets_are_options(octets in proptest::collection::vec(any::<u8>(), 0..44)) {
            options(&octets);
        }

        #[test]
        fn any_octets_are_a_syn(octets in proptest::collection::vec(any::<u8>(), 0..48)) {
            cookie(&octets);
        }
    }

    #[test]
    fn lives_of_connections_break_nothing_and_reach_every_state() {
        let (mut random, mut reached, mut octets) = (1_u64, [0_u32; 10], [0; 600]);
        for seed in 0..4000_u64 {
            random = random.wrapping_add(seed);
            for octet in &mut octets {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *octet = random.to_be_bytes()[0];
            }
            let result = std::panic::catch_unwind(|| segment(&octets));
            let states = result.unwrap_or_else(|_| panic!("seed {seed}"));
            for (count, state) in reached.iter_mut().zip(states) {
                *count += u32::from(state);
            }
        }
        assert!(reached.iter().all(|&count| count > 20), "{reached:?}");
    }
}
