//! The gates, the switch from TCP to a ring, and the legs that follow.

use loom::sync::Mutex;

use super::*;
use crate::Gate;

/// A direction, and the kernel's stream beside it.
#[derive(Debug)]
struct Connection {
    world: Arc<World>,
    tcp: Mutex<Vec<u8>>,
}

/// What the switch leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    Nothing,
    /// It does not close the gate.
    Gate,
    /// It does not wait until the reader has attached.
    Attach,
}

impl Connection {
    fn new() -> Arc<Self> {
        Arc::new(Self { world: World::on_tcp(), tcp: Mutex::new(vec![]) })
    }

    fn gate(&self) -> Gate<'_> {
        Gate::new(&self.world.outbound.inside, false)
    }

    /// Sends an octet by TCP, if the gate is open, else by the ring.
    fn send(&self, octet: u8) {
        if self.gate().enter() {
            self.tcp.lock().unwrap().push(octet);
            self.world.outbound.count(1);
            self.gate().leave();
        } else {
            assert_eq!(self.world.outbound().write(&[octet]), Ok(1));
        }
    }

    /// Switches if the reader has attached and no thread is inside the gate.
    fn switch(&self, left_out: LeftOut) {
        let outbound = self.world.outbound();
        let is_attached = left_out == LeftOut::Attach || outbound.is_attached() == Some(true);
        if is_attached && (left_out == LeftOut::Gate || self.gate().try_close()) {
            assert_eq!(outbound.begin_leg(ring(0)), Ok(true));
        }
    }

    /// Receives what is there.
    fn receive(&self, received: &mut Vec<u8>) {
        let inbound = self.world.inbound();
        match inbound.source().expect("model: a sender that keeps the rules") {
            Source::Ring { .. } => {
                let mut octets = [0; 4];
                let len = inbound.read(&mut octets).expect("model: a sender that keeps the rules");
                received.extend(&octets[..len]);
            }
            Source::Tcp { left } => {
                let mut tcp = self.tcp.lock().unwrap();
                let len = left.map_or(tcp.len(), |left| tcp.len().min(left as usize));
                received.extend(tcp.drain(..len));
                self.world.inbound.count(len as u64);
            }
        }
    }
}

/// A reader that attaches beside two threads that send. One of them switches.
fn an_attach_beside_a_switch(left_out: LeftOut) {
    let connection = Connection::new();
    let spawn = |act: fn(&Connection, LeftOut)| {
        let connection = Arc::clone(&connection);
        loom::thread::spawn(move || act(&connection, left_out))
    };
    let switching = spawn(|connection, left_out| {
        connection.send(1);
        connection.switch(left_out);
        if connection.gate().is_closed() {
            connection.send(2);
        }
    });
    let sending = spawn(|connection, _| {
        if connection.gate().enter() {
            connection.tcp.lock().unwrap().push(3);
            connection.world.outbound.count(1);
            connection.gate().leave();
        }
    });
    connection.world.inbound().attach();
    let mut received = vec![];
    connection.receive(&mut received);
    switching.join().unwrap();
    sending.join().unwrap();
    for _ in 0..3 {
        connection.receive(&mut received);
    }
    assert!(connection.tcp.lock().unwrap().is_empty(), "model: all of TCP's octets");
    let written = connection.world.outbound.accepted();
    assert_eq!(received.len() as u64, written, "model: all octets");
    let of = |octet| received.iter().position(|other| *other == octet);
    assert!(of(2).is_none_or(|second| of(1) < Some(second)), "model: the octets in their order");
}

#[test]
fn a_switch_beside_an_attach_loses_nothing() {
    check_within(Some(2), &[], || an_attach_beside_a_switch(LeftOut::Nothing));
    find(|| an_attach_beside_a_switch(LeftOut::Gate));
}

/// A sender that switches beside the reader's receives. Without the reader's consent, nobody reads the ring.
fn a_switch_beside_receives(left_out: LeftOut) {
    let connection = Connection::new();
    let sending = {
        let connection = Arc::clone(&connection);
        loom::thread::spawn(move || {
            connection.send(1);
            connection.switch(left_out);
            connection.send(2);
        })
    };
    let mut received = vec![];
    let reader = Gate::new(&connection.world.inbound.inside, false);
    if reader.enter() {
        received.append(&mut connection.tcp.lock().unwrap());
        connection.world.inbound.count(received.len() as u64);
        reader.leave();
    }
    let is_attached = !received.is_empty() && reader.try_close();
    if is_attached {
        connection.world.inbound().attach();
        connection.receive(&mut received);
    }
    sending.join().unwrap();
    for _ in 0..3 {
        if is_attached {
            connection.receive(&mut received);
        } else {
            received.append(&mut connection.tcp.lock().unwrap());
        }
    }
    assert_eq!(received, [1, 2], "model: the octets of the stream, in order");
}

#[test]
fn a_reader_goes_on_in_the_ring_behind_the_last_octet_of_tcp() {
    check(&[Weakened::Acquire, Weakened::Release], || a_switch_beside_receives(LeftOut::Nothing));
    find(|| a_switch_beside_receives(LeftOut::Attach));
}

/// From a ring to another one and to TCP, as far as the reader follows.
#[test]
fn legs_are_adopted_at_their_start() {
    check_within(Some(2), &[Weakened::Acquire, Weakened::Release], || {
        let world = World::ringed();
        let sender = beside(&world, |world| {
            let mut sent = world.send(2);
            assert_eq!(world.outbound().begin_leg(ring(1)), Ok(true));
            sent += world.send(3);
            _ = world.outbound().begin_leg(Carrier::Tcp).expect("model: a reader that keeps the rules");
            sent
        });
        let mut received = world.receive(1) + world.receive(4) + world.receive(4);
        let sent = sender.join().unwrap();
        for _ in 0..3 {
            received += world.receive(4);
        }
        assert_eq!(received, sent, "model: all octets");
        let is_tcp = world.outbound.leg().carrier == Carrier::Tcp;
        let expected = if is_tcp { Source::Tcp { left: None } } else { Source::Ring { available: 0 } };
        assert_eq!(world.inbound().source(), Ok(expected), "model: the reader is in the sender's leg");
    });
}
