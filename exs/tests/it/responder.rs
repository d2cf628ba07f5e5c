//! A scripted peer that accepts.

use std::net::SocketAddr;
use std::time::Duration;

use weft_exs::{Context, Error, Fault, Messages, Options, Socket, Stream};
use weft_netif::Instant;
use weft_rnic::{Clock, CmEvent, Config, Device, DisconnectReason, Progress, Status};

use crate::faults::{ACK, CREDIT, DATA, MSG, OPTIONS, SHUTDOWN, Said, hello, inline};
use crate::script::{Fields, Script};
use crate::world::{LOCAL, PATIENCE, context};

/// Has a socket connect to a script with this hello, which hears the greeting.
fn accept<K: Said>(context: &Context, script: &Script, hello: &[u8], options: &Options) -> Socket<K> {
    let listener = script.listen(SocketAddr::new(LOCAL, 0));
    let connecting = context.connect::<K>(listener.local_addr(), options);
    let theirs = script.accept(hello);
    assert_eq!((&theirs[..9], theirs.len()), (&b"weft-exs\x01"[..], 40));
    let socket = connecting.wait_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(Fields::read(&script.next().unwrap()).kind, CREDIT.kind, "the initiator speaks first");
    socket
}

fn blame<K: Said>(messages: &[Vec<u8>], fault: Fault) {
    let (context, script) = (context(1), Script::new());
    let socket = accept::<K>(&context, &script, &hello(K::IS_STREAM), &OPTIONS);
    messages.iter().for_each(|message| script.send(message));
    let abort = core::iter::from_fn(|| script.next()).map(|octets| Fields::read(&octets)).last();
    let abort = abort.expect("there is an ABORT");
    assert_eq!((abort.kind, abort.id), (0x31, fault.code()), "{messages:02x?}");
    let (outcome, _) = socket.recv(context.buffer(10).unwrap(), ..).wait_timeout(PATIENCE).unwrap();
    assert_eq!(outcome, Err(Error::Protocol(fault)), "{messages:02x?}");
}

#[test]
fn a_responder_that_breaks_the_rules_hears_of_it() {
    blame::<Messages>(&[inline(Fields { id: 1, ..MSG })], Fault::OutOfOrder);
    blame::<Messages>(&[CREDIT.octets(), ACK.octets()], Fault::NotOut);
    blame::<Messages>(&[SHUTDOWN.octets(), SHUTDOWN.octets()], Fault::AfterShutdown);
    blame::<Messages>(&[vec![0x10; 31]], Fault::Malformed);
    blame::<Stream>(&[inline(Fields { a: 1, ..DATA })], Fault::OutOfOrder);
    blame::<Stream>(&[Fields { flags: 0x02, len: 4097, ..DATA }.octets()], Fault::RingOverfilled);
    blame::<Stream>(&[Fields { kind: 0x23, id: 1, ..CREDIT }.octets()], Fault::OutOfOrder);
}

/// A peer that never tells that it has taken anything.
#[test]
fn a_peer_that_grants_nothing_gets_its_window_and_a_credit_and_no_more() {
    let (context, script) = (context(1), Script::new());
    let mut hello = hello(false);
    // It takes 40 messages, in a window of 16.
    hello[13] = 40;
    let options = Options { send_credits: 40, ..OPTIONS };
    let socket = accept::<Messages>(&context, &script, &hello, &options);
    let sends: Vec<_> = (0..30).map(|_| socket.send(context.buffer(1).unwrap(), ..)).collect();
    // The greeting was the first of 16, and the last is for CREDIT.
    for id in 0..14 {
        let message = Fields::read(&script.next().unwrap());
        assert_eq!((message.kind, message.id), (MSG.kind, id));
    }
    script.silence(Duration::from_millis(50));
    // The socket owes word after half of its window, and has the last place for it.
    (0..4).for_each(|_| script.send(&CREDIT.octets()));
    let credit = Fields::read(&script.next().unwrap());
    assert_eq!((credit.kind, credit.limit), (CREDIT.kind, 8 + 4));
    (0..4).for_each(|_| script.send(&CREDIT.octets()));
    script.silence(Duration::from_millis(50));
    // A grant brings the rest.
    script.send(&Fields { limit: 16 + 16, ..CREDIT }.octets());
    for id in 14..29 {
        let message = Fields::read(&script.next().unwrap());
        assert_eq!((message.kind, message.id, message.limit), (MSG.kind, id, 8 + 9));
    }
    script.send(&Fields { limit: 16 + 31, ..CREDIT }.octets());
    assert_eq!(Fields::read(&script.next().unwrap()).id, 29);
    script.send(&Fields { limit: 16 + 32, id: 29, ..ACK }.octets());
    assert!(sends.into_iter().all(|op| op.wait_timeout(PATIENCE).unwrap().0.is_ok()));
}

/// A context and a script on virtual time, over a wire.
struct Apart {
    context: Context,
    script: Script,
    clock: Clock,
    now: Instant,
}

impl Apart {
    fn new() -> Self {
        let (left, right) = weft_netif::pair(1500);
        let clock = Clock::virtual_time();
        let device = |wire, ip: &str, seed| {
            let mut config =
                Config { progress: Progress::External, ..Config::new(ip.parse().unwrap(), seed) };
            config.clock = clock.clone();
            Device::open(wire, config).unwrap()
        };
        let context = Context::stepped(&device(left, "10.0.0.1/24", 1)).unwrap();
        let script = Script::on(device(right, "10.0.0.2/24", 2));
        Self { context, script, clock, now: Instant::ZERO }
    }

    /// Lets a millisecond go by: for the context, and for the script if it hears.
    fn step(&mut self, hears: bool) {
        self.clock.set(self.now);
        self.context.drive(self.now);
        if hears {
            self.script.device.poll(self.now);
        }
        self.now += weft_netif::Duration::from_millis(1);
    }

    fn until<T>(&mut self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        for _ in 0..10_000 {
            if let Some(found) = look(self) {
                return found;
            }
            self.step(true);
        }
        panic!("it does not come")
    }
}

/// The responder owes word when the initiator's SHUTDOWN and FIN are on their way.
#[test]
fn a_message_that_crosses_the_initiators_fin_does_not_make_the_close_a_reset() {
    let mut world = Apart::new();
    let _listener = world.script.listen(5000);
    let mut connecting = Some(world.context.connect::<Messages>(world.script.device.address(5000), &OPTIONS));
    world.until(|world| world.script.try_accept(&hello(false)));
    let mut end = |world: &Apart| match connecting.take()?.wait_timeout(Duration::ZERO) {
        Ok(outcome) => {
            let _looked = world;
            Some(outcome.unwrap())
        }
        Err(op) => {
            connecting = Some(op);
            None
        }
    };
    let socket = world.until(&mut end);
    world.script.send(&CREDIT.octets());
    world.script.send(&SHUTDOWN.octets());
    (0..10).for_each(|_| world.step(true));
    while world.script.try_done().is_some() {}
    let closing = socket.close();
    (0..10).for_each(|_| world.step(false));
    // The initiator has sent all that it ever sends, and nobody has heard of it.
    world.script.send(&Fields { limit: 18, ..CREDIT }.octets());
    assert_eq!(world.until(|world| world.script.try_done()), Status::Success);
    let reason = world.until(|world| match world.script.events.next()? {
        CmEvent::Disconnected { reason, .. } => Some(reason),
        _ => None,
    });
    assert_eq!(reason, DisconnectReason::Peer);
    assert_eq!(closing.wait_timeout(Duration::ZERO).unwrap(), Ok(()));
    drop(socket);
    world.until(|world| (world.context.sockets() == 0).then_some(()));
}
