//! One end of a lane while its work is drawn.

use weft_rnic::QpCapacity;

use super::layout::{Layout, Place, Role, WORD};
use super::plan::HostPlan;
use super::random::Random;
use super::request::{Op, Receive, Request};

/// The octets that a run may still move, and the sizes at which its layers cut.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
    cuts: Vec<usize>,
}

impl Budget {
    pub(crate) fn new(random: &mut Random, hosts: &[HostPlan]) -> Self {
        // Small segments and small windows cost more time for each octet.
        let slow = hosts.iter().any(|host| host.mtu < 1000 || host.tcp_buffer < 5000);
        let most = if slow { 400_000 } else { 3_000_000 };
        let cuts = hosts.iter().flat_map(|host| [host.mtu - 60, host.mtu, host.tcp_buffer]).collect();
        Self { left: random.between(20_000, most), cuts }
    }

    pub(super) fn size(&mut self, random: &mut Random) -> usize {
        let size = match random.below(12) {
            0 => 0,
            1 => 1,
            2 => random.below(9),
            3 | 4 => random.below(65),
            5 => random.pick(&[255, 256, 511, 512, 1024, 4095, 4096, 65_535, 65_536, 65_537]),
            6 => (random.pick(&self.cuts) + random.below(70)).saturating_sub(64),
            7 | 8 => random.below(2500),
            9 | 10 => random.below(20_000),
            _ => random.below(400_000),
        };
        let size = if size > self.left { random.below(200) } else { size };
        self.left = self.left.saturating_sub(size);
        size
    }
}

/// One end while its work is drawn.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) layout: Layout,
    pub(super) requests: Vec<Request>,
    pub(super) receives: Vec<Receive>,
    pub(super) words: Vec<(Place, Vec<u64>)>,
    /// Receives from this one on are never posted, since a Send is to find none.
    pub(super) receives_end: Option<usize>,
    pub(super) capacity: QpCapacity,
    pub(super) may_fetch: bool,
    pub(super) signal_all: bool,
    pub(super) quota: [usize; 2],
    pub(super) unsignaled: usize,
}

impl Draft {
    pub(super) fn new(random: &mut Random) -> Self {
        let capacity = QpCapacity {
            send_wr: u32::try_from(random.pick(&[1, 2, 3, 8, 32, 128])).unwrap_or(1),
            recv_wr: u32::try_from(random.pick(&[1, 2, 5, 16, 128])).unwrap_or(1),
            send_sge: random.pick(&[1, 1, 2, 4, 8, 32]),
            recv_sge: random.pick(&[1, 2, 4, 8]),
            inline: random.pick(&[0, 16, 64, 256, 1024]),
        };
        let mut quota = |most: u32| random.between(1, most as usize);
        let quota = [quota(capacity.send_wr), quota(capacity.recv_wr)];
        let mut layout = Layout::new();
        layout.take(Role::Foreign, 300, random);
        layout.take(Role::Bound, 100, random);
        layout.take(Role::Exposed, 1, random);
        layout.take(Role::Readable, 1, random);
        layout.take(Role::Words, WORD, random);
        let signal_all = random.percent(25);
        Self {
            layout,
            requests: Vec::new(),
            receives: Vec::new(),
            words: Vec::new(),
            receives_end: None,
            capacity,
            may_fetch: true,
            signal_all,
            quota,
            unsignaled: 0,
        }
    }

    /// Takes `len` octets in one to `most` pieces.
    pub(super) fn pieces(&mut self, random: &mut Random, role: Role, len: usize, most: usize) -> Vec<Place> {
        let count = if random.percent(50) { 1 } else { random.between(1, most) };
        if len == 0 && random.percent(50) {
            return Vec::new();
        }
        let mut cuts: Vec<usize> = (1..count).map(|_| random.below(len + 1)).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        cuts.windows(2)
            .map(|cut| {
                let role = if random.percent(20) { Role::Mixed } else { role };
                self.layout.take(role, cut[1] - cut[0], random)
            })
            .collect()
    }

    fn gather(&self, places: &[Place]) -> Vec<u8> {
        places.iter().flat_map(|place| self.layout.contents(place)).copied().collect()
    }

    /// Draws a source of about `len` octets. It is a fresh place, or the sink of an earlier Read, which takes a
    /// fence, or inline.
    pub(super) fn source(&mut self, random: &mut Random, len: usize) -> Source {
        if len <= self.capacity.inline && random.percent(40) {
            return Source { inline: true, data: random.octets(len), ..Source::default() };
        }
        let good_read = |earlier: &&Request| {
            matches!(earlier.op, Op::Read { .. }) && earlier.bad.is_none() && !earlier.data.is_empty()
        };
        let read = self.requests.iter().rev().find(good_read).filter(|_| random.percent(25));
        if let Some(Request { local, data, .. }) = read {
            return Source { local: local.clone(), data: data.clone(), fence: true, ..Source::default() };
        }
        let local = self.pieces(random, Role::Source, len, self.capacity.send_sge);
        Source { data: self.gather(&local), local, scribble: random.percent(40), ..Source::default() }
    }

    pub(super) fn push(&mut self, random: &mut Random, mut request: Request) {
        let due = self.unsignaled + 1 >= self.quota[0];
        request.signaled = due || random.percent(60);
        self.unsignaled = if request.signaled || self.signal_all { 0 } else { self.unsignaled + 1 };
        request.fence |= random.percent(8);
        self.requests.push(request);
    }
}

/// The octets of a Send or Write.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) local: Vec<Place>,
    pub(super) inline: bool,
    pub(super) data: Vec<u8>,
    pub(super) fence: bool,
    pub(super) scribble: bool,
}
