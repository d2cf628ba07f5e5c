//! Scripted peers that break a rule or lose segments, where smoltcp alone would fail.

use weft_netif::{
    CloseCause, ConnectionId, Duration, Instant, Llp, LlpState, Stack, StackConfig, Tcp, Wire, pair,
};

use crate::bench::{PORT, pattern};

/// A segment without the ports. Sequence numbers count from the sender's SYN, acknowledgements from the other side's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    window: u16,
    octets: Vec<u8>,
}

/// One stack with one connection, whose other end is scripted.
struct Script {
    stack: Stack,
    wire: Wire,
    now: Instant,
    id: Option<ConnectionId>,
    /// The sequence number of the stack's SYN.
    start: u32,
    /// The peer's SYN has the option of window scale.
    is_scaled: bool,
}

impl Script {
    /// Opens a connection from the script to a stack. The peer takes segments of 1000 octets and `window` in all.
    fn new(seed: u64, window: u16) -> Self {
        Self::with(seed, window, false)
    }

    fn with(seed: u64, window: u16, is_scaled: bool) -> Self {
        let (left, wire) = pair(1500);
        let config = StackConfig { seed, ..StackConfig::new("10.0.0.1/24".parse().unwrap()) };
        let mut stack = Stack::new(left, config, Instant::ZERO);
        stack.listen(PORT).unwrap();
        let mut script = Self { stack, wire, now: Instant::ZERO, id: None, start: 0, is_scaled };
        script.tell_address();
        script.say(Said { flags: SYN, window, ..Said::default() });
        let answer = script.heard().pop().unwrap();
        assert_eq!((answer.flags, answer.acknowledged), (SYN | ACK, 1));
        script.start = answer.sequence;
        script.acknowledge(1, window);
        script.id = script.stack.next_accepted().map(|(id, _)| id);
        script
    }

    /// A stack whose first octets are before the wrap of its sequence numbers, and the later ones behind it.
    fn before_the_wrap(window: u16) -> Self {
        let script = Self::new(WRAPPING_SEEDS[usize::from(is_own())], window);
        assert!(script.start > u32::MAX - 4000, "find another seed: {:#x}", script.start);
        script
    }

    /// Queues octets of the pattern.
    fn queue(&mut self, range: std::ops::Range<usize>) {
        let octets = octets(range);
        assert_eq!(self.llp().send_slice(&octets), octets.len());
        self.work();
    }

    fn acknowledge(&mut self, acknowledged: u32, window: u16) {
        self.say(Said { flags: ACK, sequence: 1, acknowledged, window, ..Said::default() });
    }

    fn say(&mut self, said: Said) {
        let mut tcp = Vec::new();
        tcp.extend([0x12, 0x34]);
        tcp.extend(PORT.to_be_bytes());
        tcp.extend(PEER_START.wrapping_add(said.sequence).to_be_bytes());
        tcp.extend(self.start.wrapping_add(said.acknowledged).to_be_bytes());
        let options: &[u8] = match (said.flags & SYN != 0, self.is_scaled) {
            (true, true) => &[2, 4, 0x03, 0xE8, 1, 3, 3, 0],
            (true, false) => &[2, 4, 0x03, 0xE8],
            (false, _) => &[],
        };
        tcp.extend([u8::try_from((20 + options.len()) * 4).unwrap(), said.flags]);
        tcp.extend(said.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.extend(&said.octets);
        let len = u16::try_from(tcp.len()).unwrap().to_be_bytes();
        let sum = checksum(&[&PEER, &OWN, &[0, 6], &len, &tcp]);
        tcp[16..18].copy_from_slice(&sum);
        let len = u16::try_from(20 + tcp.len()).unwrap().to_be_bytes();
        let mut ip = [&[0x45, 0][..], &len, &[0, 0, 0x40, 0, 64, 6, 0, 0], &PEER, &OWN].concat();
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum);
        self.put(&[&self.stack.config().mac[..], &PEER_MAC, &[0x08, 0x00], &ip, &tcp].concat());
    }

    /// Asks for the stack's MAC address, by which the stack learns the peer's.
    fn tell_address(&mut self) {
        let request = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &PEER_MAC, &PEER, &[0; 6], &OWN].concat();
        self.put(&[&[0xFF; 6][..], &PEER_MAC, &[0x08, 0x06], &request].concat());
    }

    fn put(&mut self, frame: &[u8]) {
        self.wire.send(self.now, frame);
        self.work();
    }

    fn work(&mut self) {
        self.stack.ingress(self.now);
        self.stack.egress(self.now);
    }

    /// Advances the time by `span`.
    fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(next) = self.stack.poll_at(self.now).filter(|next| *next <= until) {
            self.now = next.max(self.now);
            self.work();
        }
        self.now = until;
        self.work();
    }

    /// Returns the next segment, within the time between two probes of a closed window.
    fn next_heard(&mut self) -> Vec<Said> {
        let until = self.now + LONGEST_PAUSE;
        loop {
            let heard = self.heard();
            let next = self.stack.poll_at(self.now).filter(|next| *next <= until);
            let (true, Some(next)) = (heard.is_empty(), next) else { return heard };
            self.now = next.max(self.now);
            self.work();
        }
    }

    /// Returns the segments that have come since the last call.
    fn heard(&mut self) -> Vec<Said> {
        let (mut all, mut frame) = (Vec::new(), Vec::new());
        while self.wire.receive(self.now, &mut frame) {
            if frame[12..14] != [0x08, 0x00] {
                if frame[20..22] == [0, 1] {
                    self.tell_address();
                }
                continue;
            }
            let len = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            let tcp = &frame[34..14 + len];
            let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
            all.push(Said {
                flags: tcp[13],
                sequence: word(4).wrapping_sub(self.start),
                acknowledged: word(8).wrapping_sub(PEER_START),
                window: u16::from_be_bytes([tcp[14], tcp[15]]),
                octets: tcp[usize::from(tcp[12] >> 4) * 4..].to_vec(),
            });
        }
        all
    }

    /// Acknowledges all that comes, under a wide window, until the stream has `end` octets. The octets before `begin`
    /// have come already.
    fn take_rest(&mut self, begin: usize, end: usize) {
        let mut taken = octets(0..begin);
        for _ in 0..20 {
            if taken.len() == end {
                break;
            }
            for said in self.heard() {
                let at = said.sequence as usize - 1;
                if at <= taken.len() && at + said.octets.len() > taken.len() {
                    taken.truncate(at);
                    taken.extend(said.octets);
                }
            }
            self.acknowledge(u32::try_from(taken.len()).unwrap() + 1, 60_000);
        }
        assert!(taken == octets(0..end), "{} octets of {end}", taken.len());
    }

    /// Sends octets of the pattern until less than `room` is left in the window. Returns how many were sent, and where
    /// the window ends.
    fn fill(&mut self, room: usize) -> (usize, usize) {
        let shift = if self.is_scaled { SHIFTS[usize::from(is_own())] } else { 0 };
        let (mut sent, mut window_end) = (0, room);
        while window_end - sent >= room {
            self.send(sent..sent + 1000, 0);
            sent += 1000;
            self.pass(Duration::from_millis(500));
            let told = self.heard().pop().unwrap();
            window_end = told.acknowledged as usize - 1 + (usize::from(told.window) << shift);
        }
        (sent, window_end)
    }

    /// Sends octets of the pattern, and an acknowledgement.
    fn send(&mut self, range: std::ops::Range<usize>, flags: u8) {
        let sequence = u32::try_from(range.start).unwrap() + 1;
        let octets = octets(range);
        self.say(Said { flags: flags | ACK, sequence, acknowledged: 1, window: 60_000, octets });
    }

    /// Takes all octets that have come.
    fn received(&mut self) -> Vec<u8> {
        let (mut received, mut llp) = (Vec::new(), self.llp());
        while !llp.readable().is_empty() {
            let len = llp.readable().len();
            received.extend(llp.readable());
            llp.consume(len);
        }
        received
    }

    fn llp(&mut self) -> Llp<'_> {
        self.stack.llp(self.id.unwrap()).unwrap()
    }

    fn state(&self) -> Option<LlpState> {
        self.stack.state(self.id.unwrap())
    }
}

/// Returns true if the stacks use the own TCP.
fn is_own() -> bool {
    StackConfig::new("10.0.0.1/24".parse().unwrap()).tcp == Tcp::Own
}

fn octets(range: std::ops::Range<usize>) -> Vec<u8> {
    range.map(|at| pattern(3, at)).collect()
}

fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let octets: Vec<u8> = parts.concat();
    let sum: u32 =
        octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    (!u16::try_from((folded & 0xFFFF) + (folded >> 16)).unwrap()).to_be_bytes()
}

/// smoltcp takes such an acknowledgement for one of queued octets, and drops these.
#[test]
fn octets_that_were_never_sent_cannot_be_acknowledged() {
    for mut script in [Script::new(1, 300), Script::before_the_wrap(300)] {
        script.queue(0..5000);
        // The own TCP waits a while for a window that takes a whole segment.
        script.pass(Duration::from_secs(1));
        assert_eq!(script.heard().first().map(|said| said.octets.clone()), Some(octets(0..300)));
        for ahead in [302, 400, 3500, 5001, 5002, 1_000_000, 1 << 30] {
            script.pass(Duration::from_secs(2));
            script.heard();
            script.acknowledge(ahead, 60_000);
            let answers = script.heard();
            assert_eq!(answers.len(), 1, "{ahead}: {answers:?}");
            let Said { flags, sequence, acknowledged, .. } = answers[0];
            assert_eq!((flags, sequence, acknowledged), (ACK, 301, 1), "{ahead}");
            assert!(answers[0].octets.is_empty(), "its window is ignored, too");
        }
        assert_eq!(script.stack.tcp_counters().acknowledged_unsent, 7);
        script.acknowledge(301, 60_000);
        script.take_rest(300, 5000);
        assert_eq!(script.stack.tcp_counters().acknowledged_unsent, 7);
        assert_eq!(script.state(), Some(LlpState::Established));
    }
}

/// The same with a FIN: the peer cannot have octets or a FIN that were never sent.
#[test]
fn a_fin_that_was_never_sent_cannot_be_acknowledged() {
    for mut script in [Script::new(1, 300), Script::before_the_wrap(300)] {
        script.queue(0..5000);
        script.llp().shutdown();
        script.pass(Duration::from_secs(1));
        let last = script.heard().pop().unwrap();
        assert_eq!((last.flags & FIN, last.sequence), (0, 1));
        for ahead in [302, 5001, 5002, 5003] {
            script.acknowledge(ahead, 60_000);
            script.say(Said { flags: FIN | ACK, sequence: 1, acknowledged: ahead, ..Said::default() });
            assert_eq!(script.state(), Some(LlpState::Established), "{ahead}");
        }
        script.acknowledge(301, 60_000);
        script.heard();
        script.pass(Duration::from_secs(2));
        script.take_rest(300, 5000);
        script.pass(Duration::from_secs(10));
        let last = script.heard().pop().unwrap();
        assert_eq!((last.flags & FIN, last.sequence), (FIN, 5001), "the FIN is what is left");
        assert_eq!(script.stack.tcp_counters().acknowledged_unsent, 8);
        script.say(Said { flags: FIN | ACK, sequence: 1, acknowledged: 5002, ..Said::default() });
        assert_eq!(script.state(), Some(LlpState::Closed));
        assert_eq!(script.stack.tcp_counters().acknowledged_unsent, 8);
    }
}

/// The highest number sent counts, and not the number at which smoltcp goes on after a timeout.
#[test]
fn octets_sent_before_a_timeout_can_be_acknowledged_after_it() {
    for mut script in [Script::new(1, 60_000), Script::before_the_wrap(60_000)] {
        script.queue(0..2000);
        assert_eq!(script.heard().iter().map(|said| said.octets.len()).sum::<usize>(), 2000);
        script.pass(Duration::from_millis(1500));
        let again = script.heard();
        assert_eq!((again[0].sequence, again[0].octets.len()), (1, 1000));
        script.acknowledge(2001, 60_000);
        script.queue(2000..4000);
        script.take_rest(2000, 4000);
        assert_eq!(script.stack.tcp_counters().acknowledged_unsent, 0);
    }
}

/// A peer may take the octet of a probe.
#[test]
fn the_octet_of_a_probe_can_be_acknowledged() {
    let mut script = Script::new(1, 0);
    script.queue(0..100);
    script.acknowledge(1, 0);
    script.pass(Duration::from_secs(2));
    let probe = script.heard().pop().unwrap();
    assert_eq!((probe.sequence, probe.octets), (1, octets(0..1)));
    script.acknowledge(2, 60_000);
    script.take_rest(1, 100);
    assert_eq!(script.stack.tcp_counters().acknowledged_unsent, 0);
}

/// The stack asks until it hears that the window is open. Then it sends the rest, and is silent.
fn expect_questions(mut script: Script, begin: usize, end: usize) {
    for _ in 0..8 {
        assert!(!script.next_heard().is_empty());
        script.acknowledge(u32::try_from(begin).unwrap() + 1, 0);
    }
    // The peer's news of its window is lost, until the stack asks.
    assert!(!script.next_heard().is_empty());
    script.acknowledge(u32::try_from(begin).unwrap() + 1, 60_000);
    script.take_rest(begin, end);
    script.heard();
    script.pass(Duration::from_secs(200));
    assert_eq!(script.heard(), [], "no octets are left, so no question comes");
    assert_eq!(script.state(), Some(LlpState::Established));
}

/// smoltcp turns its timer off when it expires under a closed window. Then neither side would ever send again.
#[test]
fn a_stack_asks_again_after_a_timeout_under_a_closed_window() {
    for mut script in [Script::new(1, 1000), Script::before_the_wrap(1000)] {
        script.queue(0..1500);
        script.acknowledge(1, 0);
        script.heard();
        expect_questions(script, 0, 1500);
    }
}

/// The same if no octets are under way when the window closes.
#[test]
fn octets_that_are_queued_under_a_closed_window_are_not_forgotten() {
    for mut script in [Script::new(1, 1000), Script::before_the_wrap(1000)] {
        script.queue(0..1000);
        script.acknowledge(1001, 0);
        script.heard();
        script.pass(Duration::from_secs(100));
        assert_eq!(script.heard(), []);
        script.queue(1000..1500);
        expect_questions(script, 1000, 1500);
    }
}

#[test]
fn a_peer_that_is_silent_under_a_closed_window_is_given_up() {
    let mut script = Script::new(1, 1000);
    script.queue(0..1500);
    script.acknowledge(1, 0);
    let patience = script.stack.config().timeout.unwrap();
    script.pass(patience / 2);
    assert_eq!(script.state(), Some(LlpState::Established));
    script.pass(patience * 2);
    assert_eq!(script.state(), Some(LlpState::Reset));
    assert_eq!(script.llp().cause(), Some(CloseCause::TimedOut));
}

/// smoltcp cuts off the octets for which the window has no room, and takes the FIN behind them all the same.
#[test]
fn a_fin_behind_octets_beyond_the_window_is_not_taken_yet() {
    for is_scaled in [false, true] {
        let mut script = Script::with(1, 60_000, is_scaled);
        let (sent, window_end) = script.fill(1000);
        let end = window_end + 1;
        for (begin, is_whole) in [(sent, false), (sent - 100, false), (end, false), (sent, true)] {
            if is_whole {
                assert!(script.received() == octets(0..window_end), "all but the last octet has come");
                script.work();
            }
            script.send(begin..end, FIN);
            let state = if is_whole { LlpState::PeerClosed } else { LlpState::Established };
            assert_eq!(script.state(), Some(state), "from {begin} to {end}, window to {window_end}");
        }
        assert_eq!(script.received(), octets(window_end..end));
    }
}

/// The stack reads its own windows by the scale that both sides have agreed on.
#[test]
fn a_fin_inside_a_scaled_window_is_taken_at_once() {
    let mut script = Script::with(1, 60_000, true);
    let (sent, window_end) = script.fill(3000);
    assert!(window_end - sent > 2000);
    script.send(sent..sent + 1000, FIN);
    assert_eq!(script.state(), Some(LlpState::PeerClosed));
    assert!(script.received() == octets(0..sent + 1000));
}

/// A process that has closed may end at any moment, and then cannot answer its peer's last segment.
#[test]
fn after_its_fin_a_stack_acknowledges_at_once() {
    let mut script = Script::new(1, 60_000);
    script.send(0..8, 0);
    assert_eq!(script.heard(), [], "before that an acknowledgement waits for data to go with");
    script.llp().shutdown();
    script.work();
    let last = script.heard().pop().unwrap();
    assert_eq!((last.flags & FIN, last.acknowledged), (FIN, 9));
    script.acknowledge(2, 60_000);
    assert!(!script.stack.is_settled());
    let (window, octets) = (60_000, octets(0..28));
    script.say(Said { flags: FIN | ACK, sequence: 9, acknowledged: 2, window, octets });
    assert_eq!(script.heard().pop().map(|said| said.acknowledged), Some(9 + 28 + 1));
    assert!(script.stack.is_settled());
}

const OWN: [u8; 4] = [10, 0, 0, 1];
const PEER: [u8; 4] = [10, 0, 0, 9];
const PEER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 9];
/// The peer's first sequence number: its numbers wrap, too.
const PEER_START: u32 = 0xFFFF_FFFF;
/// With these seeds the numbers of a stack on smoltcp's TCP, and on the own one, begin shortly before the wrap.
const WRAPPING_SEEDS: [u64; 2] = [1_231_224, 11_967_732];
/// The window scales of such stacks with the default settings, 256 KiB of buffers.
const SHIFTS: [usize; 2] = [2, 3];
/// The interval between probes of a closed window grows to a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(61);
const SYN: u8 = 0x02;
const FIN: u8 = 0x01;
const ACK: u8 = 0x10;
