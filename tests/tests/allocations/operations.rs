//! The operations that are repeated.

use weft_rnic::{
    Access, Bind, Completion, Data, FastMr, FastRegister, Mr, Mw, RecvWr, SendOpcode, SendWr, Status,
    WindowType,
};
use weft_tests::{Pair, PairConfig, Side};

/// Two connected queue pairs and their memory.
pub(crate) struct World {
    pair: Pair,
    near: Mr,
    far: Mr,
    /// Objects of `b`, for registration on the send queue, and a window over `far`.
    fast: FastMr,
    window: Mw,
}

/// A name, and one round of the operation. Its argument is the number of the round.
type Operation = (&'static str, fn(&mut World, u64));

pub(crate) const ALL: [Operation; 10] = [
    ("Send", send),
    ("inline Sends with one doorbell", inline_sends),
    ("Write", write),
    ("Write with Immediate", write_immediate),
    ("Read", read),
    ("FetchAdd", fetch_add),
    ("CompareSwap", compare_swap),
    ("Immediate", immediate),
    ("fast registration and Send with Invalidate", send_invalidate),
    ("bind and invalidate", bind),
];

impl World {
    pub(crate) fn new(host: bool) -> Self {
        let pair = Pair::connected(&PairConfig { peer_to_peer: true, host, ..PairConfig::default() });
        let far = pair.b.pd.register(LEN, Access::ALL | Access::MW_BIND).expect("memory");
        let near = pair.a.memory(LEN);
        let fast = pair.b.pd.alloc_fast_mr_for(&pair.b.qp, LEN).expect("memory");
        let window = pair.b.pd.alloc_mw(WindowType::Type2B).expect("a window");
        Self { pair, near, far, fast, window }
    }

    /// Posts a request of `a` with these octets of its memory, and waits until it is done.
    fn request(&mut self, opcode: SendOpcode, len: u32) -> Completion {
        let sges = [self.near.sge(0, len)];
        let data = if len == 0 { Data::Sges(&[]) } else { Data::Sges(&sges) };
        self.pair.a.qp.post_send(&SendWr { signaled: true, data, ..SendWr::new(opcode) }).expect("room");
        let Self { pair, .. } = self;
        done(pair, |pair| &pair.a)
    }

    /// Posts a receive of `len` octets at `b`.
    fn receive(&self, len: u32) {
        let sges = [self.far.sge(0, len)];
        self.pair.b.qp.post_recv(&RecvWr { wr_id: 7, sges: &sges }).expect("room");
    }

    /// Posts a request of `b` about its own memory.
    fn own(&mut self, opcode: SendOpcode) {
        self.pair.b.qp.post_send(&SendWr { signaled: true, ..SendWr::new(opcode) }).expect("room");
        done(&mut self.pair, |pair| &pair.b);
    }

    fn place(&self) -> (weft_rnic::Stag, u64) {
        (self.far.rkey(), self.far.addr())
    }
}

/// Returns the next completion of one side, which must be a success.
fn done(pair: &mut Pair, side: impl Fn(&Pair) -> &Side) -> Completion {
    let cq = side(pair).cq.clone();
    let completion = pair.wait(|| cq.poll_one()).expect("a completion");
    assert_eq!(completion.status, Status::Success);
    completion
}

fn send(world: &mut World, _: u64) {
    world.receive(SEVERAL_SEGMENTS);
    world.request(SendOpcode::Send, SEVERAL_SEGMENTS);
    assert_eq!(done(&mut world.pair, |pair| &pair.b).byte_len, SEVERAL_SEGMENTS);
}

fn inline_sends(world: &mut World, _: u64) {
    let quiet = SendWr { data: Data::Inline(b"8 octets"), ..SendWr::new(SendOpcode::Send) };
    let mut wrs = [quiet; 8];
    wrs[7].signaled = true;
    wrs.iter().for_each(|_| world.receive(8));
    world.pair.a.qp.post_sends(&wrs).expect("room");
    done(&mut world.pair, |pair| &pair.a);
    wrs.iter().for_each(|_| assert_eq!(done(&mut world.pair, |pair| &pair.b).byte_len, 8));
}

fn write(world: &mut World, _: u64) {
    let (stag, to) = world.place();
    world.request(SendOpcode::Write { stag, to }, SEVERAL_SEGMENTS);
}

fn write_immediate(world: &mut World, _: u64) {
    let (stag, to) = world.place();
    world.receive(0);
    world.request(SendOpcode::WriteImmediate { stag, to, immediate: *b"imm!" }, SEVERAL_SEGMENTS);
    assert_eq!(done(&mut world.pair, |pair| &pair.b).byte_len, SEVERAL_SEGMENTS);
}

fn read(world: &mut World, _: u64) {
    let (stag, to) = world.place();
    world.request(SendOpcode::Read { stag, to }, SEVERAL_SEGMENTS);
}

fn fetch_add(world: &mut World, _: u64) {
    let (stag, to) = world.place();
    world.request(SendOpcode::FetchAdd { stag, to, add: 1, mask: 0 }, 8);
}

fn compare_swap(world: &mut World, round: u64) {
    let (stag, to) = world.place();
    let all = u64::MAX;
    let swap = round + 1;
    world.request(
        SendOpcode::CompareSwap { stag, to, swap, swap_mask: all, compare: round, compare_mask: all },
        8,
    );
}

fn immediate(world: &mut World, round: u64) {
    world.receive(0);
    world.request(SendOpcode::Immediate { data: round.to_ne_bytes() }, 0);
    assert_eq!(done(&mut world.pair, |pair| &pair.b).immediate, Some(round.to_ne_bytes()));
}

fn send_invalidate(world: &mut World, round: u64) {
    let stag = world.fast.stag(round.to_le_bytes()[0]);
    let access = Access::ALL;
    world.own(SendOpcode::FastRegister(FastRegister { stag, offset: 0, iova: 0, length: 64, access }));
    world.receive(8);
    world.request(SendOpcode::SendInvalidate { stag }, 8);
    assert_eq!(done(&mut world.pair, |pair| &pair.b).invalidated, Some(stag.0));
}

fn bind(world: &mut World, round: u64) {
    let window = world.window.stag(round.to_le_bytes()[0]);
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    let (region, addr) = world.place();
    world.own(SendOpcode::BindWindow(Bind { window, region, addr, length: 64, access }));
    world.request(SendOpcode::Write { stag: window, to: addr }, 8);
    // A Read behind the Write shows that the Write is placed.
    world.request(SendOpcode::Read { stag: window, to: addr }, 8);
    world.own(SendOpcode::LocalInvalidate { stag: window });
}

const LEN: usize = 8192;
/// More octets than a segment of Ethernet's size holds.
const SEVERAL_SEGMENTS: u32 = 5_000;
