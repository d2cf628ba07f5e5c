//! An established connection with requests of every kind in progress, and one step that must end it.

use weft_rnic::{
    Access, Cause, ConnParam, Data, DisconnectReason, Mr, Qp, QpState, RecvWr, SendOpcode, SendWr, Stag,
    Status,
};
use weft_tests::{PairConfig, RawPeer};

use crate::octets::{
    Place, bare_terminate, fpdu, read_request, send, terminate, terminate_read, vector, write,
};
use crate::world::{FILL, Role, World, content, exchange, filled, whole, work};

/// Two receives (1 and 2) of 16 octets, a Read (3) that the peer has not answered, and a Send (4) that waits for the
/// Read.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) peer: RawPeer,
    pub(crate) role: Role,
    /// 64 octets that the peer may read, write and invalidate.
    pub(crate) target: Mr,
    /// 64 octets that the peer may only write.
    pub(crate) write_only: Mr,
    /// 64 octets that the peer may only read.
    pub(crate) read_only: Mr,
    /// 64 octets without any right for the peer.
    pub(crate) local: Mr,
    /// 64 octets with all rights, of another protection domain.
    pub(crate) foreign: Mr,
    /// The memory of the two receives.
    pub(crate) inbox: Mr,
    /// The sink of the Read.
    pub(crate) sink: Option<Mr>,
    pub(crate) sink_place: Place,
    /// Another connection of the device.
    bystander: (Qp, RawPeer),
}

/// A segment that must be refused, and the consequences.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    good: Vec<Vec<u8>>,
    bad: Vec<u8>,
    answer: Answer,
    error: weft_rdmap::Error,
    receives: [Status; 2],
    inbox: Vec<u8>,
}

/// The content of a Terminate. The digits are layer, type and code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Bare(&'static str),
    Ddp(&'static str),
    Read(&'static str),
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        bad: Vec<u8>,
        answer: Answer,
        error: impl Into<weft_rdmap::Error>,
    ) -> Self {
        let receives = [Status::WorkRequestFlushed; 2];
        Self { name, good: Vec::new(), bad, answer, error: error.into(), receives, inbox: Vec::new() }
    }

    /// Adds a segment that is accepted before.
    pub(crate) fn after(mut self, good: Vec<u8>) -> Self {
        self.good.push(good);
        self
    }

    /// Sets the results of the two receives.
    pub(crate) fn receives(self, receives: [Status; 2]) -> Self {
        Self { receives, ..self }
    }

    /// Sets the octets at the start of the receive buffers at the end.
    pub(crate) fn inbox(self, octets: &[u8]) -> Self {
        Self { inbox: octets.to_vec(), ..self }
    }
}

impl Scene {
    pub(crate) fn new(role: Role) -> Self {
        Self::with(role, &PairConfig::default(), ConnParam::default())
    }

    pub(crate) fn with(role: Role, config: &PairConfig, param: ConnParam<'_>) -> Self {
        let world = World::with(config);
        let other = world.new_qp();
        let other_peer = world.establish_with(Role::Passive, &other, ConnParam::default());
        let peer = world.establish_with(role, &world.side.qp, param);
        peer.send(&vector("write0"));
        let side = &world.side;
        let region = |access| {
            let memory = side.pd.register(64, access).expect("memory");
            memory.write(0, &[FILL; 64]).expect("inside the region");
            memory
        };
        let foreign = side.device.alloc_pd().register(64, Access::ALL).expect("memory");
        foreign.write(0, &[FILL; 64]).expect("inside the region");
        let target = side.own_memory(64);
        target.write(0, &[FILL; 64]).expect("inside the region");
        let (inbox, sink) = (filled(side, 32), filled(side, 8));
        side.post_recv(1, inbox.sge(0, 16));
        side.post_recv(2, inbox.sge(16, 16));
        let read = SendOpcode::Read { stag: Stag(0x100), to: 0x1000 };
        side.qp.post_send(&work(3, read, Data::Sges(&[whole(&sink)]))).expect("room");
        let fenced = SendWr { fence: true, ..work(4, SendOpcode::Send, Data::Inline(b"fenced")) };
        side.qp.post_send(&fenced).expect("room");
        let sink_place = Place(sink.lkey().0, sink.addr());
        peer.expect(&fpdu(&read_request(1, sink_place, 8, Place(0x100, 0x1000))));
        Self {
            role,
            target,
            write_only: region(Access::LOCAL_WRITE | Access::REMOTE_WRITE),
            read_only: region(Access::LOCAL_WRITE | Access::REMOTE_READ),
            local: region(Access::LOCAL_WRITE),
            foreign,
            inbox,
            sink: Some(sink),
            sink_place,
            peer,
            bystander: (other, other_peer),
            world,
        }
    }

    /// The peer sends the segments of `row` and, at the same time, a good Write that comes too late.
    pub(crate) fn run(self, row: &Row) {
        let flushed = Status::WorkRequestFlushed;
        // A Read or Atomic Response that RDMAP refuses fails the Read.
        let is_answer = match row.bad[..] {
            // In an untagged segment DDP checks more than the version, whatever the opcode.
            [0x80..=0xFF, 0x42 | 0x4B, ..] => row.bad[0] & 0x03 == 1,
            [_, 0x42 | 0x4B, ..] => !matches!(row.error, weft_rdmap::Error::Ddp(_)),
            _ => false,
        };
        let read = if is_answer { Status::BadResponse } else { flushed };
        let expected = [(1, row.receives[0]), (2, row.receives[1]), (3, read), (4, flushed)];
        let good: Vec<_> = row.good.iter().flat_map(|ulpdu| fpdu(ulpdu)).collect();
        let answer = match row.answer {
            Answer::Bare(code) => bare_terminate(code),
            Answer::Ddp(code) => terminate(code, &row.bad),
            Answer::Read(code) => terminate_read(code, &row.bad),
        };
        println!("{} ({:?})", row.name, self.role);
        let octets = [good, fpdu(&row.bad)].concat();
        self.end(
            &octets,
            &fpdu(&answer),
            Cause::Peer(row.error),
            &Outcome { expected: &expected, inbox: &row.inbox },
        );
    }

    /// The peer sends `octets`, and gets `answer` and a FIN. No octet is placed from then on.
    pub(crate) fn end(&self, octets: &[u8], answer: &[u8], cause: Cause, outcome: &Outcome<'_>) {
        let side = &self.world.side;
        let late = fpdu(&write(self.target.rkey().0, self.target.addr(), b"too late"));
        self.peer.send(&[octets, &late].concat());
        self.peer.expect(answer);
        self.peer.expect_fin();
        assert_eq!(side.qp.state(), QpState::Terminate);
        assert_eq!(self.world.disconnected(), DisconnectReason::LocalTerminate(cause));
        assert_eq!(self.world.all_completions(), outcome.expected);
        // This request is posted too late, and is flushed at once.
        side.qp.post_send(&work(8, SendOpcode::Send, Data::Inline(b"late"))).expect("room");
        side.qp.post_recv(&RecvWr { wr_id: 9, sges: &[] }).expect("room");
        let flushed = Status::WorkRequestFlushed;
        assert_eq!(self.world.all_completions(), [(8, flushed), (9, flushed)]);
        self.peer.send(&late);
        self.peer.close();
        self.world.expect_no_news();
        assert_eq!(side.qp.state(), QpState::Error);
        self.expect_untouched(outcome.inbox);
        let (qp, peer) = &self.bystander;
        exchange(&self.world, qp, peer, 1);
    }

    fn expect_untouched(&self, inbox: &[u8]) {
        for memory in [&self.target, &self.write_only, &self.read_only, &self.local, &self.foreign] {
            assert_eq!(content(memory), [FILL; 64]);
        }
        if let Some(sink) = &self.sink {
            assert_eq!(content(sink), [FILL; 8]);
        }
        let mut expected = vec![FILL; 32];
        expected[..inbox.len()].copy_from_slice(inbox);
        assert_eq!(content(&self.inbox), expected);
    }

    /// Answers the Read and takes the Send behind it, so that only the receives are left.
    pub(crate) fn finish_sends(&self) {
        let Place(stag, to) = self.sink_place;
        self.peer.send(&fpdu(&crate::octets::tagged("C142", stag, to, &[FILL; 8])));
        self.peer.expect(&fpdu(&send(1, b"fenced")));
        assert_eq!(self.world.all_completions(), [(3, Status::Success), (4, Status::Success)]);
    }
}

/// The device's state at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome<'a> {
    /// All completions.
    pub(crate) expected: &'a [(u64, Status)],
    /// The octets at the start of the receive buffers.
    pub(crate) inbox: &'a [u8],
}

impl Outcome<'_> {
    /// Nothing was placed, everything is flushed.
    pub(crate) const ALL_FLUSHED: Self = Self {
        expected: &[
            (1, Status::WorkRequestFlushed),
            (2, Status::WorkRequestFlushed),
            (3, Status::WorkRequestFlushed),
            (4, Status::WorkRequestFlushed),
        ],
        inbox: &[],
    };
}

/// Runs every row in both roles, each in a scene of its own.
pub(crate) fn run_all(rows: &[fn(&Scene) -> Row]) {
    for row in rows {
        for role in [Role::Passive, Role::Active] {
            let scene = Scene::new(role);
            let row = row(&scene);
            scene.run(&row);
        }
    }
}
