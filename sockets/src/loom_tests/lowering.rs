//! The way back to TCP, which the reader asks for.

use loom::sync::Mutex;

use super::*;

/// A direction, and the kernel's stream beside it.
#[derive(Debug)]
struct Connection {
    world: Arc<World>,
    tcp: Mutex<Vec<u8>>,
}

/// A step that a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    Nothing,
    /// The reader does not show how far it has read before it asks.
    Republish,
    /// The reader reads on before it has the answer.
    Patience,
    /// The sender does not promise the ring.
    Commit,
}

impl Connection {
    fn new(world: Arc<World>) -> Arc<Self> {
        Arc::new(Self { world, tcp: Mutex::new(vec![]) })
    }

    /// Sends `len` octets by the current carrier.
    fn send(&self, len: u8) {
        let outbound = self.world.outbound();
        if outbound.sink() == crate::Sink::Ring {
            self.world.send(len);
        } else {
            let begin = outbound.own.accepted() as u8;
            self.tcp.lock().unwrap().extend(begin + 1..=begin + len);
            outbound.own.count(len.into());
        }
    }

    /// Goes back if the reader asks for that. What the reader has left in rings goes first.
    fn obey(&self) {
        let (outbound, own) = (self.world.outbound(), &self.world.outbound);
        if outbound.obey().expect("model: a reader that keeps the rules")
            && own.backlog.load(Ordering::Relaxed) != 0
        {
            let (head, end) = (own.head.load(Ordering::Relaxed), own.accepted());
            self.tcp.lock().unwrap().extend(head as u8 + 1..=end as u8);
            outbound.resent((end - head) as usize);
        }
    }

    fn ask_back(&self, left_out: LeftOut) {
        if left_out == LeftOut::Republish {
            self.world.inbound().shared.reader.please.store(1, Ordering::Release);
        } else {
            self.world.inbound().ask_back();
        }
    }

    /// Goes on with TCP if the sender has answered.
    fn look_for_answer(&self) -> bool {
        let inbound = self.world.inbound();
        let is_answered = inbound.is_answered();
        if is_answered {
            inbound.come_back().expect("model: an answer behind its leg");
        }
        is_answered
    }

    /// All that the kernel's stream has.
    fn drain(&self) -> Vec<u8> {
        core::mem::take(&mut *self.tcp.lock().unwrap())
    }
}

/// A reader that is in a ring asks for TCP, while the sender goes on, perhaps in another ring.
fn a_question_beside_sends(grows: bool, left_out: LeftOut) {
    let connection = Connection::new(World::ringed());
    connection.world.inbound().attach();
    assert!(connection.world.outbound().commit());
    let sender = {
        let connection = Arc::clone(&connection);
        loom::thread::spawn(move || {
            connection.send(2);
            if grows {
                let _begun = connection.world.outbound().begin_leg(ring(1)).expect("model: a reader's rules");
            }
            connection.obey();
            connection.send(1);
        })
    };
    let mut taken = connection.world.receive(1);
    connection.ask_back(left_out);
    let mut is_back = connection.look_for_answer();
    if left_out == LeftOut::Patience && !is_back {
        taken += connection.world.receive(1);
    }
    let mut received: Vec<u8> = (1..=taken).collect();
    if is_back {
        received.extend(connection.drain());
    }
    sender.join().unwrap();
    connection.obey();
    is_back |= connection.look_for_answer();
    assert!(is_back, "model: an answer");
    received.extend(connection.drain());
    assert_eq!(received, [1, 2, 3], "model: all octets once");
    assert_eq!(connection.world.outbound.backlog.load(Ordering::Relaxed), 0, "model: nothing is left");
}

#[test]
fn a_reader_that_asks_for_tcp_gets_the_rest_of_the_ring() {
    check_within(Some(2), &[Weakened::Acquire, Weakened::Release], || {
        a_question_beside_sends(false, LeftOut::Nothing);
    });
    find(|| a_question_beside_sends(false, LeftOut::Republish));
    find(|| a_question_beside_sends(false, LeftOut::Patience));
}

#[test]
fn a_reader_that_asks_for_tcp_gets_the_rest_of_two_rings() {
    check_within(Some(2), &[Weakened::Acquire, Weakened::Release], || {
        a_question_beside_sends(true, LeftOut::Nothing);
    });
}

/// A reader that has attached leaves again, while the sender begins to use the ring.
fn a_withdrawal_beside_a_switch(left_out: LeftOut) {
    let connection = Connection::new(World::on_tcp());
    connection.world.inbound().attach();
    let sender = {
        let connection = Arc::clone(&connection);
        loom::thread::spawn(move || {
            let outbound = connection.world.outbound();
            if left_out == LeftOut::Commit || outbound.commit() {
                assert_eq!(outbound.begin_leg(ring(0)), Ok(true));
            }
            connection.send(1);
            connection.obey();
            connection.send(1);
        })
    };
    let mut is_back = connection.world.inbound().withdraw();
    if !is_back {
        connection.ask_back(left_out);
    }
    sender.join().unwrap();
    if !is_back {
        connection.obey();
        is_back = connection.look_for_answer();
    }
    assert!(is_back, "model: an answer");
    assert_eq!(connection.drain(), [1, 2], "model: all octets by TCP");
}

#[test]
fn a_reader_withdraws_or_asks_but_never_misses_a_ring() {
    check(&[], || a_withdrawal_beside_a_switch(LeftOut::Nothing));
    find(|| a_withdrawal_beside_a_switch(LeftOut::Commit));
}
