//! The bodies of the fuzz targets `group_message` and `group_control`.
//!
//! `group_message` has a replica on one device, and on another one a client with which OUT of the replica is connected, too.
//! Both share a wire in memory and a virtual clock. The input is what the client sends:
//!
//! ```text
//! octet 0       bit 0: the replica is the head of a chain of two, else a chain of its own
//! then steps    octet 0, low two bits: what to send
//!               0  a good message, with octets changed: their number, then for each a place (2) and a value
//!               1  a message of any octets: their number (2), then the octets
//!               2  a Write: place (2, signed), number of octets (2), and nothing more, since the octets do not matter
//!               3  nothing
//!               bit 2: all comes to rest before the next step
//! ```

use core::net::SocketAddr;
use std::sync::Arc;

use weft_netif::Duration;
use weft_rnic::{
    Access, Clock, CmEvent, Config, ConnParam, CqInit, Data, Device, EventChannel, Listener, Lockstep, Mr,
    Progress, Qp, QpCapacity, QpInit, QpState, RecvWr, Region, SendOpcode, SendWr, Stag,
};

use crate::control::{Answer, Request};
use crate::greeting::Greeting;
use crate::message::{MAX_MESSAGE, Name, encode};
use crate::op::{Copy, Op, Replicas, Swap};
use crate::replica::{Replica, Shape};

/// Reads any octets as messages of the control plane and as private data.
///
/// # Panics
/// If a message is read and cannot be written again.
pub fn control(octets: &[u8]) {
    if let Ok(request) = Request::parse(octets) {
        assert_eq!(Request::parse(&request.encode()), Ok(request));
    }
    if let Ok(answer) = Answer::parse(octets) {
        assert_eq!(Answer::parse(&answer.encode()), Ok(answer));
    }
    if let Some(greeting) = Greeting::parse(octets) {
        assert_eq!(greeting.encode(), octets);
    }
    let _message = crate::message::decode(octets);
}

/// Sends what the input says to a replica, and returns how many messages its OUT has sent.
///
/// # Panics
/// If an octet outside of the range changes, or the devices do not come to rest.
pub fn message(octets: &[u8]) -> usize {
    let mut input = Input(octets);
    let is_head = input.octet() & 1 == 1;
    let mut world = World::new(if is_head { 2 } else { 1 });
    for number in 0..MAX_STEPS {
        if input.0.is_empty() || world.client.state() != QpState::Rts {
            break;
        }
        let how = input.octet();
        match how & 3 {
            0 => world.send(&changed(&mut input, number, world.replicas)),
            1 => {
                let len = usize::from(input.short()) % (2 * MAX_MESSAGE);
                world.send(input.take(len));
            }
            2 => {
                let place = i16::from_be_bytes([input.octet(), input.octet()]);
                world.write(i64::from(place).cast_unsigned(), usize::from(input.short()) % (2 * LEN));
            }
            _ => {}
        }
        if how & 4 != 0 {
            world.rest();
        }
    }
    world.rest();
    world.check();
    world.arrived()
}

/// Returns a good message with some octets changed.
fn changed(input: &mut Input<'_>, number: u64, replicas: usize) -> Vec<u8> {
    let op = Op {
        write: Some(0..64),
        copy: Some(Copy { from: 0, to: 128, len: 64 }),
        swap: Some(Swap { at: 256, compare: 0, swap: 1, on: Replicas::ALL }),
        flush: Some(0..64),
        ..Op::default()
    };
    let mut octets = vec![0; MAX_MESSAGE];
    let len = encode(&op, &Name { number, epoch: 1, session: 2 }, replicas, &mut octets).unwrap_or(0);
    octets.truncate(len);
    for _ in 0..input.octet() % 32 {
        let (at, octet) = (usize::from(input.short()) % len.max(1), input.octet());
        if let Some(place) = octets.get_mut(at) {
            *place = octet;
        }
    }
    octets
}

/// What is left of the input. Behind its end are zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn octet(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.octet(), self.octet()])
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A replica and a client.
struct World {
    replicas: usize,
    memory: Arc<Region>,
    replica: Replica,
    client: Qp,
    /// What OUT is connected to.
    _next: Qp,
    received: weft_rnic::Cq,
    outgoing: Mr,
    sent: usize,
    lockstep: Lockstep,
    _next_memory: Mr,
    _inbox: Mr,
    _listeners: [Listener; 2],
}

/// One of the two devices.
struct End {
    device: Device,
    events: EventChannel,
    listener: Listener,
}

impl World {
    fn new(replicas: usize) -> Self {
        let (left, right) = weft_netif::pair(1500);
        let clock = Clock::virtual_time();
        let [a, b] =
            [(left, "10.0.0.1/24"), (right, "10.0.0.2/24")].map(|(wire, ip)| End::new(wire, ip, &clock));
        let mut lockstep = Lockstep::new(clock, &[&a.device, &b.device]);
        let memory = Arc::new(good(Region::owned(LEN + 2 * EDGE).ok_or("no memory")));
        assert!(memory.copy_in(0, &[FENCE; EDGE]) && memory.copy_in(EDGE + LEN, &[FENCE; EDGE]));
        let shape = Shape { index: 0, replicas, window: WINDOW, range: EDGE..EDGE + LEN };
        let replica = good(Replica::new(&a.device, &memory, shape));
        let pd = b.device.alloc_pd();
        let sent = good(b.device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(64) }));
        let received = good(b.device.create_cq(256, None));
        let qp = |recv_wr| {
            let capacity = QpCapacity { send_wr: 64, recv_wr, send_sge: 1, recv_sge: 1, inline: 0 };
            good(b.device.create_qp(&pd, &QpInit { capacity, ..QpInit::new(&sent, &received) }))
        };
        let (client, next) = (qp(1), qp(128));
        let (outgoing, inbox) = (
            good(pd.register(1 << 16, Access::LOCAL_WRITE)),
            good(pd.register(1 << 16, Access::LOCAL_WRITE)),
        );
        let next_memory = good(pd.register_at(good(Region::owned(LEN).ok_or("no memory")), Access::ALL, 0));
        for slot in 0..128 {
            good(next.post_recv(&RecvWr { wr_id: slot, sges: &[inbox.sge(0, 1 << 16)] }));
        }
        connect(&mut lockstep, (&b, &next), (&a, replica.outward()));
        let target: Option<Stag> = (replicas > 1).then(|| next_memory.rkey());
        good(replica.begin(target));
        connect(&mut lockstep, (&b, &client), (&a, replica.inward()));
        Self {
            replicas,
            memory,
            replica,
            client,
            _next: next,
            received,
            outgoing,
            sent: 0,
            lockstep,
            _next_memory: next_memory,
            _inbox: inbox,
            _listeners: [a.listener, b.listener],
        }
    }

    fn send(&mut self, octets: &[u8]) {
        // The octets of an earlier message may not be in TCP yet.
        let at = self.sent % 16 * 4096;
        self.sent += 1;
        good(self.outgoing.write(at, octets));
        self.post(SendOpcode::Send, at, octets.len());
    }

    fn write(&self, to: u64, len: usize) {
        self.post(SendOpcode::Write { stag: self.replica.data_in(), to }, 0, len);
    }

    fn post(&self, opcode: SendOpcode, at: usize, len: usize) {
        let sges = [self.outgoing.sge(at, u32::try_from(len).unwrap_or(0))];
        // A full queue or a stream that has ended: the message is left out.
        let _refused = self.client.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(opcode) });
    }

    /// Lets all happen that follows from what was sent.
    fn rest(&mut self) {
        let deadline = self.lockstep.now() + Duration::from_secs(1);
        let mut turns = 0;
        let _idle = self.lockstep.run_until(deadline, || {
            turns += 1;
            (turns > MAX_TURNS).then_some(())
        });
        assert!(turns <= MAX_TURNS, "the devices do not come to rest");
        self.check();
    }

    fn check(&self) {
        for edge in [0, EDGE + LEN] {
            let mut octets = [0; EDGE];
            assert!(self.memory.copy_out(edge, &mut octets));
            assert_eq!(octets, [FENCE; EDGE], "octets outside of the range have changed");
        }
    }

    /// Takes the messages that OUT has sent.
    fn arrived(&self) -> usize {
        std::iter::from_fn(|| self.received.poll_one())
            .filter(|completion| completion.status == weft_rnic::Status::Success)
            .count()
    }
}

impl End {
    fn new(wire: weft_netif::Wire, ip: &str, clock: &Clock) -> Self {
        let config = Config::new(good(ip.parse()), 1);
        let config = Config { clock: clock.clone(), progress: Progress::External, ..config };
        let device = good(Device::open(wire, config));
        let events = good(device.create_event_channel());
        let listener = good(device.listen(&events, PORT));
        Self { device, events, listener }
    }
}

/// Connects a queue pair of one device to one of the other.
fn connect(lockstep: &mut Lockstep, (from, qp): (&End, &Qp), (end, target): (&End, &Qp)) {
    let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::NONE };
    let remote: SocketAddr = end.device.address(PORT);
    good(from.device.connect(&from.events, qp, remote, param));
    let event = |lockstep: &mut Lockstep, end: &End| {
        let deadline = lockstep.now() + Duration::from_secs(60);
        lockstep.run_until(deadline, || end.events.next())
    };
    let Some(CmEvent::ConnectRequest(request)) = event(lockstep, end) else { panic!("no connect request") };
    good(end.device.accept(request.id, target, ConnParam::NONE));
    for end in [from, end] {
        assert!(matches!(event(lockstep, end), Some(CmEvent::Established { .. })), "no connection");
    }
}

/// What cannot fail here: there is room for all objects.
fn good<T, E: core::fmt::Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("the world cannot be set up: {error:?}"))
}

const LEN: usize = 4096;
/// Octets before and behind the range.
const EDGE: usize = 64;
const FENCE: u8 = 0xEE;
const WINDOW: u32 = 4;
const PORT: u16 = 7471;
const MAX_STEPS: u64 = 48;
/// A session that works for ever makes more turns within a second than this.
const MAX_TURNS: u32 = 50_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Good messages, and the rest of the chain gets them.
    #[test]
    fn good_messages_go_on() {
        for head in [0, 1] {
            let steps = [0b100, 0].repeat(20);
            assert_eq!(message(&[&[head][..], &steps].concat()), 20);
        }
    }

    /// Writes that begin or end around the ends of the range.
    #[test]
    fn writes_stay_inside_of_the_range() {
        for place in [-65_i16, -9, -8, -1, 0, 1, 4031, 4088, 4095, 4096, 4160] {
            for len in [0_u16, 1, 8, 65, 4096, 4097] {
                let write = [&[1, 0b110][..], &place.to_be_bytes(), &len.to_be_bytes()].concat();
                message(&[&write[..], &[0b100, 0]].concat());
            }
        }
    }

    /// Every octet of a message in turn has another value: opcodes all that there are, and some that are none. A fault ends the
    /// session, so that each value has one of its own.
    #[test]
    fn every_octet_of_a_message_may_be_anything() {
        let opcodes: Vec<u8> = (0..=0x1F).chain([0x40, 0x80, 0xFF]).collect();
        for (replicas, head) in [(1, 0), (2, 1)] {
            let len = u16::try_from(crate::message::message_len(0, replicas)).unwrap();
            for at in 0..len {
                let [high, low] = at.to_be_bytes();
                let values = if at < 4 { &opcodes[..] } else { &[1, 0x10, 0x80, 0xFF] };
                for value in values {
                    let step = [0b100, 1, high, low, *value];
                    message(&[&[head][..], &step, &[0b100, 0].repeat(5)].concat());
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
        #[test]
        fn no_input_breaks_a_replica(octets in prop::collection::vec(any::<u8>(), 0..600)) {
            message(&octets);
            control(&octets);
        }
    }
}
