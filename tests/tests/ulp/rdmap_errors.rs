//! Errors of an RDMAP stream: the Terminate on the wire, and the events of the ULP.

use weft_conform::octets::{
    Place, bare_terminate, fpdu, hex, read_request, send, send_invalidate, tagged, terminate, terminate_read,
    write,
};
use weft_netif::LlpState;
use weft_rdmap::{AtomicOp, Error};
use weft_rnic::ulp::{PostError, RdmapEvent, RdmapStream, Source};
use weft_rnic::{Access, Cause, Stag, Status};

use crate::line::contents;
use crate::peer::Scripted;

fn world() -> Scripted<RdmapStream> {
    Scripted::initiator(true, false)
}

const fn ended(id: u64, status: Status) -> RdmapEvent {
    RdmapEvent::Completed { id, status, original: None }
}

/// The peer sends this and gets this Terminate and FIN. The ULP gets this error, then all its requests back, and then
/// the end.
#[track_caller]
fn expect_refused(world: &mut Scripted<RdmapStream>, ulpdu: &[u8], error: impl Into<Error>, answer: &[u8]) {
    world.take_octets();
    world.send(ulpdu);
    world.expect(&fpdu(answer));
    assert_eq!(world.state(), LlpState::PeerClosed);
    let events = world.end.take();
    assert_eq!(events.first(), Some(&RdmapEvent::Failed(Cause::Peer(error.into()))));
    let is_flush = |event: &RdmapEvent| match event {
        RdmapEvent::Completed { status, .. } => *status == Status::WorkRequestFlushed,
        event => matches!(event, RdmapEvent::Returned { .. }),
    };
    assert!(events[1..].iter().all(is_flush), "{events:?}");
    world.line.llp(1).shutdown();
    world.settle();
    assert_eq!(world.end.take(), [RdmapEvent::Closed]);
    assert_eq!(world.end.stream.send(1, b"", false, None), Err(PostError::Closed));
    assert_eq!(world.end.stream.post_buffer(1, Vec::new()), Err(PostError::Closed));
}

// Covers 5040-3.2-3, 5041-7.1-3, 5041-7.1-9.
#[test]
fn sends_without_a_receive_are_refused() {
    let ulpdu = send(1, b"hello");
    expect_refused(&mut world(), &ulpdu, weft_ddp::Error::NoBuffer, &terminate("1202", &ulpdu));
    let mut world = world();
    world.end.stream.post_buffer(4, vec![0; 4]).unwrap();
    world.end.stream.send(7, b"done before", false, None).unwrap();
    world.settle();
    assert_eq!(world.end.take(), [ended(7, Status::Success)]);
    expect_refused(&mut world, &ulpdu, weft_ddp::Error::TooLong, &terminate("1205", &ulpdu));
}

// Covers 5040-3.2-6, 5040-3.2-9, 5041-7.1-12, 5041-7.1-15.
#[test]
fn writes_and_reads_without_memory_are_refused() {
    let mut world = world();
    let memory = world.end.register(16, 0x1000, Access::ALL);
    let ulpdu = write(memory.stag.0, 0x1009, b"12345678");
    expect_refused(&mut world, &ulpdu, weft_ddp::Error::BaseOrBounds, &terminate("1101", &ulpdu));
    assert_eq!(contents(&memory), [0; 16]);

    let ulpdu = write(0xDEAD_BEEF, 0x1000, b"12345678");
    expect_refused(&mut self::world(), &ulpdu, weft_ddp::Error::InvalidStag, &terminate("1100", &ulpdu));

    let mut world = self::world();
    let memory = world.end.register(16, 0x1000, Access::LOCAL_WRITE);
    let read = read_request(1, Place(5, 0), 4, Place(memory.stag.0, 0x1000));
    expect_refused(&mut world, &read, Error::AccessRights, &terminate_read("0102", &read));
}

/// An STag of another stream is not invalidated, and the message is not delivered.
// Covers 5040-5.3-15.
#[test]
fn an_invalidation_without_the_right_is_refused() {
    let mut world = world();
    world.end.stream.post_buffer(1, vec![0; 8]).unwrap();
    let ulpdu = send_invalidate(1, 0x77, b"hello");
    expect_refused(&mut world, &ulpdu, Error::CannotInvalidate, &terminate("0109", &ulpdu));
}

/// The ULP ends the stream itself, with an error of its choice. All its requests come back.
// Covers 5040-5.4-8, 5040-5.4-9.
#[test]
fn the_ulp_may_terminate() {
    let mut world = world();
    let sink = world.end.register(8, 0, Access::LOCAL_WRITE);
    world.end.stream.read(1, (sink.stag, 0), (Stag(5), 0), 8).unwrap();
    world.take_octets();
    world.end.stream.send(2, b"too late", false, None).unwrap();
    world.end.stream.post_buffer(3, vec![7; 2]).unwrap();
    world.end.stream.terminate(Error::RemoteOperation);
    let mut expected = bare_terminate("02FF");
    expected[20] = 0;
    world.expect(&fpdu(&expected));
    assert_eq!(world.state(), LlpState::PeerClosed);
    let returned = RdmapEvent::Returned { id: 3, buffer: vec![7; 2] };
    let flushed = Status::WorkRequestFlushed;
    assert_eq!(world.end.take(), [ended(1, flushed), ended(2, flushed), returned]);
}

/// The request that the peer's Terminate names has failed, all others are flushed, and TCP is closed.
// Covers 5040-5.4-6, 5040-6.2.1-2.
#[test]
fn a_terminate_of_the_peer() {
    let mut world = world();
    let sink = world.end.register(8, 0, Access::LOCAL_WRITE);
    for id in 1..=2 {
        world.end.stream.read(id, (sink.stag, 0), (Stag(5), 0), 8).unwrap();
    }
    world.end.stream.post_buffer(3, vec![7; 2]).unwrap();
    world.take_octets();
    let second = read_request(2, Place(sink.stag.0, 0), 8, Place(5, 0));
    world.send(&terminate_read("0100", &second));
    world.expect(b"");
    assert_eq!(world.state(), LlpState::PeerClosed);
    let events = world.end.take();
    let [RdmapEvent::Terminated(terminate), rest @ ..] = &events[..] else { panic!("{events:?}") };
    assert_eq!((terminate.layer, terminate.etype, terminate.code), (0, 1, 0));
    let returned = RdmapEvent::Returned { id: 3, buffer: vec![7; 2] };
    let expected = [ended(1, Status::WorkRequestFlushed), ended(2, Status::RemoteAccess), returned];
    assert_eq!(rest, expected);
}

/// Our own memory is missing. The Terminate to the peer blames no message.
// Covers 5040-7.1-2.
#[test]
fn a_missing_source_or_sink_blames_no_message() {
    let mut world = world();
    let memory = Source::Memory { stag: Stag(0xBAD), to: 0, len: 1 };
    world.end.stream.send(1, memory, false, None).unwrap();
    world.end.stream.send(2, b"behind", false, None).unwrap();
    let mut expected = bare_terminate("0000");
    expected[20] = 0;
    world.expect(&fpdu(&expected));
    let failed = RdmapEvent::Failed(Cause::Local(Status::LocalProtection));
    let flushed = ended(2, Status::WorkRequestFlushed);
    assert_eq!(world.end.take(), [failed, ended(1, Status::LocalProtection), flushed]);

    let mut world = self::world();
    let sink = world.end.register(8, 0, Access::LOCAL_WRITE);
    world.end.stream.read(1, (sink.stag, 0), (Stag(5), 0), 8).unwrap();
    world.take_octets();
    assert!(world.end.memory.deregister(sink.stag).is_some());
    let response = tagged("C142", sink.stag.0, 0, b"12345678");
    world.send(&response);
    world.expect(&fpdu(&terminate("1100", &response)));
    let failed = RdmapEvent::Failed(Cause::Peer(weft_ddp::Error::InvalidStag.into()));
    assert_eq!(world.end.take(), [failed, ended(1, Status::LocalProtection)]);
}

// Covers 5044-8-1.
#[test]
fn a_connection_that_is_lost_or_cut() {
    for cut in [false, true] {
        let mut world = world();
        world.end.stream.post_buffer(3, vec![7; 2]).unwrap();
        if cut {
            world.send_octets(&hex("0017 41"));
            world.line.llp(1).shutdown();
        } else {
            world.line.llp(1).abort();
        }
        world.settle();
        let returned = RdmapEvent::Returned { id: 3, buffer: vec![7; 2] };
        let failed = RdmapEvent::Failed(Cause::Mpa(weft_mpa::Error::Closed));
        assert_eq!(world.end.take(), [failed, returned, RdmapEvent::Closed]);
    }
}

#[test]
fn an_abort_resets_the_connection() {
    let mut world = world();
    world.end.stream.send(1, b"lost", false, None).unwrap();
    world.end.stream.abort(&mut world.line.llp(0));
    world.expect(b"");
    assert_eq!(world.state(), LlpState::Reset);
    assert_eq!(world.end.take(), [ended(1, Status::WorkRequestFlushed), RdmapEvent::Closed]);
    let add = AtomicOp::FetchAdd { add: 1, mask: 0 };
    assert_eq!(world.end.stream.atomic(2, add, (Stag(1), 0)), Err(PostError::Closed));
}

/// A damaged FPDU: the Terminate names MPA, and later octets are ignored.
// Covers 5040-7.1-1.
#[test]
fn a_damaged_fpdu() {
    let mut world = world();
    world.end.stream.post_buffer(1, vec![0; 8]).unwrap();
    let mut octets = fpdu(&send(1, b"damaged"));
    octets[22] ^= 0x10;
    octets.extend(fpdu(&send(1, b"behind")));
    world.send_octets(&octets);
    let mut expected = bare_terminate("2002");
    expected[20] = 0;
    world.expect(&fpdu(&expected));
    let events = world.end.take();
    assert!(
        matches!(events[..], [RdmapEvent::Failed(Cause::Mpa(_)), RdmapEvent::Returned { id: 1, .. }]),
        "{events:?}"
    );
}
