//! What a peer does wrong, and what it cannot reach.

use std::net::SocketAddr;

use weft_exs::{Error, Fault, Kind, Messages, Mode, Options, Socket, Stream};
use weft_rnic::{SendOpcode, Stag, Status};

use crate::script::{Fields, Script};
use crate::world::{LOCAL, PATIENCE, World, octets};

/// The hello of the script: a window of 16, 2 credits or adverts, slots of 256 octets, 4 Reads.
pub(crate) fn hello(is_stream: bool) -> Vec<u8> {
    let mut hello = b"weft-exs\x01".to_vec();
    hello.extend([u8::from(is_stream), 0, 16, 0, 2, 0, 0, 0, 0, 1, 0]);
    hello.extend([0; 16]);
    hello.extend([0, 4, 0, 0]);
    hello
}

/// A kind of socket, and how a hello says it.
pub(crate) trait Said: Kind {
    const IS_STREAM: bool;
}

impl Said for Messages {
    const IS_STREAM: bool = false;
}

impl Said for Stream {
    const IS_STREAM: bool = true;
}

/// Connects a script to a socket.
fn connect<K: Said>(world: &World, script: &Script, options: &Options) -> Socket<K> {
    let listener = world.server.listen::<K>(SocketAddr::new(LOCAL, 0), options).unwrap();
    let accepting = listener.accept();
    let theirs = script.connect(listener.local_addr(), &hello(K::IS_STREAM));
    assert_eq!((&theirs[..9], theirs.len()), (&b"weft-exs\x01"[..], 40));
    accepting.wait_timeout(PATIENCE).unwrap().unwrap()
}

pub(crate) const OPTIONS: Options = Options {
    small_packet_max: 64,
    send_credits: 2,
    recv_credits: 2,
    window: 8,
    adverts: 2,
    ring: 4096,
    direct_min: 65_536,
    linger: std::time::Duration::from_secs(30),
    send_timeout: None,
    recv_timeout: None,
    backlog: 1,
    plain: weft_exs::Plain::Off,
};
pub(crate) const CREDIT: Fields =
    Fields { kind: 0x01, limit: 16, flags: 0, id: 0, len: 0, stag: 0, a: 0, b: 0 };
pub(crate) const MSG: Fields = Fields { kind: 0x10, flags: 0x01, len: 3, ..CREDIT };
pub(crate) const ACK: Fields = Fields { kind: 0x11, ..CREDIT };
pub(crate) const DATA: Fields = Fields { kind: 0x20, flags: 0x03, len: 3, ..CREDIT };
pub(crate) const ADVERT: Fields = Fields { kind: 0x21, id: 1, len: 9, ..CREDIT };
pub(crate) const SHUTDOWN: Fields = Fields { kind: 0x30, ..CREDIT };

pub(crate) fn inline(fields: Fields) -> Vec<u8> {
    [&fields.octets()[..], &b"abc"[..]].concat()
}

/// Sends messages behind the greeting, or without it, and looks for the ABORT and its code.
fn blame<K: Said>(messages: &[Vec<u8>], fault: Fault) {
    let (world, script) = (World::new(), Script::new());
    let socket = connect::<K>(&world, &script, &OPTIONS);
    messages.iter().for_each(|message| script.send(message));
    let abort = loop {
        let message = Fields::read(&script.next().expect("there is an ABORT"));
        if message.kind == 0x31 {
            break message;
        }
    };
    assert_eq!(abort.id, fault.code(), "{messages:02x?}");
    assert!(script.next().is_none(), "nothing follows");
    let (outcome, _) = socket.recv(world.server.buffer(10).unwrap(), ..).wait_timeout(PATIENCE).unwrap();
    assert_eq!(outcome, Err(Error::Protocol(fault)), "{messages:02x?}");
}

#[test]
fn each_fault_in_messages_ends_the_connection_with_its_code() {
    let greeted = |messages: &[Vec<u8>]| [&[CREDIT.octets()], messages].concat();
    let cases: [(&[Vec<u8>], Fault); 11] = [
        (&[vec![0x10; 10]], Fault::Malformed),
        (&[Fields { kind: 0x7F, ..CREDIT }.octets()], Fault::Malformed),
        (&[Fields { flags: 0x80, ..CREDIT }.octets()], Fault::Malformed),
        (&[Fields { len: 4, ..MSG }].map(inline), Fault::Malformed),
        (&[MSG, Fields { id: 1, ..MSG }, Fields { id: 2, ..MSG }].map(inline), Fault::BeyondCredits),
        (&[Fields { id: 5, ..MSG }].map(inline), Fault::OutOfOrder),
        (&[Fields { limit: 18, ..CREDIT }.octets()], Fault::OutOfOrder),
        (&[Fields { a: 3, ..SHUTDOWN }.octets()], Fault::OutOfOrder),
        (&[ACK.octets()], Fault::NotOut),
        (&[SHUTDOWN.octets(), inline(MSG)], Fault::AfterShutdown),
        (&[inline(DATA)], Fault::WrongState),
    ];
    for (messages, fault) in cases {
        blame::<Messages>(&greeted(messages), fault);
    }
    // It has not greeted. The socket is silent until then, and so does not tell.
    let (world, script) = (World::new(), Script::new());
    let socket = connect::<Messages>(&world, &script, &OPTIONS);
    script.send(&inline(MSG));
    while script.next().is_some() {}
    let (outcome, _) = socket.recv(world.server.buffer(10).unwrap(), ..).wait_timeout(PATIENCE).unwrap();
    assert_eq!(outcome, Err(Error::Protocol(Fault::WrongState)));
}

#[test]
fn each_fault_in_a_stream_ends_the_connection_with_its_code() {
    let cases: [(&[Vec<u8>], Fault); 9] = [
        (&[inline(Fields { flags: 0x01, id: 7, ..DATA })], Fault::NoAdvert),
        (&[Fields { flags: 0x02, len: 4097, ..DATA }.octets()], Fault::RingOverfilled),
        (&[inline(Fields { a: 9, ..DATA })], Fault::OutOfOrder),
        (&[Fields { kind: 0x22, a: 1, ..CREDIT }.octets()], Fault::FreedTooMuch),
        (&[Fields { flags: 0x01, ..ADVERT }, ADVERT, ADVERT].map(Fields::octets), Fault::TooManyAdverts),
        (&[Fields { flags: 0x01, b: 5, ..ADVERT }.octets()], Fault::OutOfOrder),
        (&[inline(DATA), Fields { a: 2, ..SHUTDOWN }.octets()], Fault::OutOfOrder),
        (&[SHUTDOWN.octets(), inline(DATA)], Fault::AfterShutdown),
        (&[inline(MSG)], Fault::WrongState),
    ];
    for (messages, fault) in cases {
        blame::<Stream>(&[&[CREDIT.octets()], messages].concat(), fault);
    }
}

#[test]
fn a_message_from_memory_that_is_not_there_ends_the_connection_and_the_buffer_comes_back() {
    let (world, script) = (World::new(), Script::new());
    let socket = connect::<Messages>(&world, &script, &OPTIONS);
    let receiving = socket.recv(world.server.buffer(5000).unwrap(), ..);
    script.send(&CREDIT.octets());
    script.send(&Fields { flags: 0, len: 4000, stag: 0x1234_5678, ..MSG }.octets());
    let (outcome, buf) = receiving.wait_timeout(PATIENCE).unwrap();
    assert_eq!(outcome, Err(Error::Reset));
    assert!(buf.iter().all(|octet| *octet == 0));
}

#[test]
fn a_receive_that_has_completed_is_out_of_reach() {
    let (world, script) = (World::new(), Script::new());
    let socket = connect::<Stream>(&world, &script, &OPTIONS);
    let receiving = socket.recv(world.server.buffer(300).unwrap(), 100..200);
    script.send(&CREDIT.octets());
    let advert = loop {
        let message = Fields::read(&script.next().unwrap());
        if message.kind == 0x21 {
            break message;
        }
    };
    assert_eq!((advert.len, advert.flags, advert.b), (100, 0x01, 0));
    let sink = SendOpcode::Write { stag: Stag(advert.stag), to: advert.a };
    let direct = octets(5, 100);
    script.memory.write(0, &direct).unwrap();
    script.post(sink, 100);
    script.send(&Fields { flags: 0x04, id: advert.id, len: 100, ..DATA }.octets());
    let (outcome, buf) = receiving.wait_timeout(PATIENCE).unwrap();
    assert_eq!(outcome.map(|outcome| (outcome.octets, outcome.mode)), Ok((100, Mode::Direct)));
    assert!(buf[100..200] == direct);
    // The octets of a later Write go nowhere, and the connection ends.
    script.memory.write(0, &[0xEE; 100]).unwrap();
    script.post(sink, 100);
    let next = socket.recv(world.server.buffer(10).unwrap(), ..);
    assert_eq!(next.wait_timeout(PATIENCE).unwrap().0, Err(Error::Reset));
    assert!(buf[100..200] == direct);
    assert!([&buf[..100], &buf[200..]].concat().iter().all(|octet| *octet == 0));
}

#[test]
fn a_write_beyond_an_advert_is_refused() {
    let (world, script) = (World::new(), Script::new());
    let socket = connect::<Stream>(&world, &script, &OPTIONS);
    let receiving = socket.recv(world.server.buffer(300).unwrap(), 100..200);
    script.send(&CREDIT.octets());
    let advert = loop {
        let message = Fields::read(&script.next().unwrap());
        if message.kind == 0x21 {
            break message;
        }
    };
    script.memory.write(0, &[0xEE; 101]).unwrap();
    script.post(SendOpcode::Write { stag: Stag(advert.stag), to: advert.a }, 101);
    let (outcome, buf) = receiving.wait_timeout(PATIENCE).unwrap();
    assert_eq!(outcome, Err(Error::Reset));
    assert!(buf[200..].iter().chain(&buf[..100]).all(|octet| *octet == 0));
}

#[test]
fn a_source_can_be_read_until_its_message_is_acknowledged() {
    let (world, script) = (World::new(), Script::new());
    let socket = connect::<Messages>(&world, &script, &OPTIONS);
    let mut buf = world.server.buffer(3000).unwrap();
    buf.copy_from_slice(&octets(6, 3000));
    let sending = socket.send(buf, 500..2500);
    script.send(&CREDIT.octets());
    assert_eq!(script.done(), Status::Success);
    let msg = loop {
        let message = Fields::read(&script.next().unwrap());
        if message.kind == 0x10 {
            break message;
        }
    };
    assert_eq!((msg.flags, msg.id, msg.len), (0, 0, 2000));
    let source = SendOpcode::Read { stag: Stag(msg.stag), to: msg.a };
    script.post(source, 2000);
    assert_eq!(script.done(), Status::Success);
    let mut read = vec![0; 2000];
    script.memory.read(0, &mut read).unwrap();
    assert!(read == octets(6, 3000)[500..2500]);
    script.send(&ACK.octets());
    assert_eq!(script.done(), Status::Success);
    let (sent, buf) = sending.wait_timeout(PATIENCE).unwrap();
    assert_eq!(sent.map(|outcome| outcome.octets), Ok(2000));
    assert!(buf[..] == octets(6, 3000));
    script.post(source, 2000);
    assert_eq!(script.done(), Status::RemoteAccess);
}
