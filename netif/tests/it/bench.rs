//! Two stacks on one wire and one virtual clock, and octets to send between them.

use weft_netif::{
    ConnectionId, Duration, Impairment, ImpairmentConfig, Instant, Stack, StackConfig, Tcp, Wire, pair,
};

/// Two stacks, the time, and the seed, which failures print.
pub(crate) struct Bench {
    pub(crate) stacks: [Stack; 2],
    pub(crate) now: Instant,
    seed: u64,
}

pub(crate) const PORT: u16 = 4791;
pub(crate) const V4: [&str; 2] = ["10.0.0.1/24", "10.0.0.2/24"];
pub(crate) const V6: [&str; 2] = ["fd00::1/64", "fd00::2/64"];

impl Bench {
    pub(crate) fn new(addresses: [&str; 2]) -> Self {
        Self::with(addresses, 1, |_, _| {}, |_, wire| wire)
    }

    /// `configure` changes the setting of each side, and `wrap` its wire.
    pub(crate) fn with(
        addresses: [&str; 2],
        seed: u64,
        configure: impl Fn(usize, &mut StackConfig),
        wrap: impl Fn(usize, Wire) -> Wire,
    ) -> Self {
        let (left, right) = pair(65_535);
        let mut wires = [Some(left), Some(right)];
        let stacks = std::array::from_fn(|side| {
            let mut config = StackConfig::new(addresses[side].parse().unwrap());
            config.seed = seed * 2 + side as u64;
            configure(side, &mut config);
            let wire = wrap(side, wires[side].take().unwrap());
            Stack::new(wire, config, Instant::ZERO)
        });
        Self { stacks, now: Instant::ZERO, seed }
    }

    pub(crate) fn impaired(addresses: [&str; 2], config: &ImpairmentConfig) -> Self {
        let wrap = |side: usize, wire: Wire| {
            let seed = config.seed * 2 + side as u64;
            wire.with_impairment(Impairment::new(ImpairmentConfig { seed, ..config.clone() }))
        };
        Self::with(addresses, config.seed, |_, _| {}, wrap)
    }

    /// Lets both stacks work once, then jumps to the next time with work. Returns false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        for stack in &mut self.stacks {
            stack.ingress(self.now);
            stack.egress(self.now);
        }
        let next = self.stacks.iter().filter_map(|stack| stack.poll_at(self.now)).min();
        self.now = self.now.max(next.unwrap_or(self.now));
        next.is_some()
    }

    /// Steps until `done` returns true. Gives up after ten minutes of virtual time.
    pub(crate) fn drive(&mut self, mut done: impl FnMut(&mut [Stack; 2]) -> bool) {
        let limit = self.now + Duration::from_secs(600);
        for _ in 0..2_000_000 {
            if done(&mut self.stacks) {
                return;
            }
            let is_alive = self.step() || done(&mut self.stacks);
            let Self { stacks, now, seed } = self;
            assert!(is_alive && *now < limit, "nothing more happens at {now}, seed {seed}: {stacks:?}");
        }
        panic!("no end at {}, seed {}", self.now, self.seed);
    }

    /// Runs until the clock has advanced by `span`.
    pub(crate) fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while self.now < until {
            let stayed = self.now;
            if !self.step() || self.now > until {
                self.now = until;
            }
            assert!(self.now >= stayed);
        }
        self.stacks.iter_mut().for_each(|stack| {
            stack.ingress(until);
            stack.egress(until);
        });
    }

    /// Connects the left stack to the right one and returns both ends.
    pub(crate) fn connect(&mut self) -> [ConnectionId; 2] {
        let remote = (self.stacks[1].ip().address, PORT).into();
        if self.stacks[1].listen(PORT).is_err() {
            assert_eq!(self.stacks[1].next_accepted(), None);
        }
        let id = self.stacks[0].connect(remote, None, self.now).unwrap();
        let mut accepted = None;
        self.drive(|stacks| {
            accepted = accepted.or_else(|| stacks[1].next_accepted());
            accepted.is_some()
        });
        let (peer, listener) = accepted.unwrap();
        assert_eq!(listener.port(), PORT);
        [id, peer]
    }
}

/// Returns the octets of TCP options in each segment of a stack: the own TCP sends timestamps.
pub(crate) fn options(stack: &Stack) -> usize {
    match stack.config().tcp {
        Tcp::Smoltcp => 0,
        Tcp::Own => 12,
    }
}

/// Returns the octet of a stream at a place. Tests check received octets against it.
pub(crate) fn pattern(salt: usize, offset: usize) -> u8 {
    u8::try_from((offset.wrapping_mul(31) ^ (offset >> 8) ^ salt) % 251).unwrap()
}

/// Sends a pattern one way and checks the pattern of the other way.
#[derive(Debug, Default)]
pub(crate) struct Talker {
    pub(crate) salt: usize,
    pub(crate) peer_salt: usize,
    pub(crate) len: usize,
    pub(crate) sent: usize,
    pub(crate) received: usize,
}

impl Talker {
    pub(crate) fn pair(len: usize) -> [Self; 2] {
        let talker = |salt, peer_salt| Self { salt, peer_salt, len, ..Self::default() };
        [talker(1, 2), talker(2, 1)]
    }

    /// Sends and receives as much as possible now. Returns true when both directions are complete.
    pub(crate) fn talk(&mut self, stack: &mut Stack, id: ConnectionId) -> bool {
        let mut llp = stack.llp(id).unwrap();
        while self.sent < self.len {
            let Self { salt, len, sent, .. } = *self;
            let written = llp.transmit(1, |room| {
                let step = room.len().min(len - sent);
                room[..step]
                    .iter_mut()
                    .enumerate()
                    .for_each(|(index, octet)| *octet = pattern(salt, sent + index));
                (step, step)
            });
            match written {
                None | Some(0) => break,
                Some(step) => self.sent += step,
            }
        }
        loop {
            let octets = llp.readable();
            if octets.is_empty() {
                break;
            }
            for (index, octet) in octets.iter().enumerate() {
                assert_eq!(
                    *octet,
                    pattern(self.peer_salt, self.received + index),
                    "at {}",
                    self.received + index
                );
            }
            let step = octets.len();
            llp.consume(step);
            self.received += step;
        }
        self.sent == self.len && self.received == self.len
    }
}
