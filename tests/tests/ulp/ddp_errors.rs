//! Errors of the peer that a DDP stream reports to its ULP, and their effect on the peer.

use weft_conform::octets::{Framing, hex, join};
use weft_ddp::Error;
use weft_netif::LlpState;
use weft_rnic::ulp::{Association, DdpCause, DdpError, DdpEvent, DdpStream, PostError};
use weft_rnic::{Access, Stag};
use weft_verbs::{Region, Registration};

use crate::line::contents;
use crate::peer::Scripted;

fn untagged([queue, msn, mo]: [u32; 3], payload: &[u8]) -> Vec<u8> {
    join("41 00 00000000", &[&queue.to_be_bytes(), &msn.to_be_bytes(), &mo.to_be_bytes(), payload])
}

fn tagged(stag: Stag, to: u64, payload: &[u8]) -> Vec<u8> {
    join("C1 00", &[&stag.0.to_be_bytes(), &to.to_be_bytes(), payload])
}

fn world() -> Scripted<DdpStream> {
    Scripted::initiator(true, false)
}

/// The stream fails with this error and these numbers. The report has the segment's header, and the buffers come back
/// unchanged.
#[track_caller]
fn expect_refused(world: &mut Scripted<DdpStream>, ulpdu: &[u8], error: Error, code: (u8, u8)) {
    world.send(ulpdu);
    let events = world.end.take();
    let [DdpEvent::Failed(report), returned @ ..] = &events[..] else { panic!("{events:?}") };
    assert_eq!((report.cause, report.code()), (DdpCause::Ddp(error), code));
    assert_eq!(report.segment_len, Some(ulpdu.len()));
    let readable = !matches!(error, Error::TaggedVersion | Error::UntaggedVersion | Error::Runt);
    assert_eq!(report.header.is_some(), readable);
    if let Some(header) = report.header {
        let mut octets = vec![0; header.len()];
        header.emit(&mut octets);
        assert_eq!(octets, ulpdu[..header.len()]);
    }
    for event in returned {
        let DdpEvent::Returned { buffer, .. } = event else { panic!("{events:?}") };
        assert!(buffer.iter().all(|octet| *octet == 0xEE));
    }
    assert_eq!(world.state(), LlpState::Established, "it is the ULP that ends the stream");
}

// Covers 5041-7.1-3, 5041-7.1-4, 5041-7.1-18, 5041-7.2-1.
#[test]
fn untagged_segments_without_a_buffer() {
    let cases: [([u32; 3], &[u8], Error, u8); 7] = [
        ([6, 1, 0], b"x", Error::InvalidQueue, 0x01),
        ([u32::MAX, 1, 0], b"x", Error::InvalidQueue, 0x01),
        ([1, 1, 0], b"x", Error::NoBuffer, 0x02),
        ([1, 1, 0], b"", Error::NoBuffer, 0x02),
        ([0, 2, 0], b"x", Error::MsnRange, 0x03),
        ([0, 1, 4], b"x", Error::InvalidMo, 0x04),
        ([0, 1, 0], b"longer than eight", Error::TooLong, 0x05),
    ];
    for (place, payload, error, code) in cases {
        let mut world = world();
        world.end.stream.post_buffer(0, 0, vec![0xEE; 8]).unwrap();
        expect_refused(&mut world, &untagged(place, payload), error, (0x2, code));
    }
}

/// The second segment does not fit. The octets of the first one stay in place.
// Covers 5041-7.1-9, 5041-7.1-17.
#[test]
fn a_message_that_grows_too_long() {
    let mut world = world();
    world.end.stream.post_buffer(0, 5, vec![0xEE; 8]).unwrap();
    let mut first = untagged([0, 1, 0], b"12345");
    first[0] = 0x01;
    world.send(&first);
    world.send(&untagged([0, 1, 5], b"6789"));
    let header = weft_ddp::Header::Untagged { last: true, control: 0, word: 0, queue: 0, msn: 1, mo: 5 };
    let error =
        DdpError { cause: DdpCause::Ddp(Error::TooLong), header: Some(header), segment_len: Some(22) };
    let returned = DdpEvent::Returned { id: 5, queue: 0, buffer: b"12345\xEE\xEE\xEE".to_vec() };
    assert_eq!(world.end.take(), [DdpEvent::Failed(error), returned]);
}

// Covers 5041-7.1-13, 5041-7.1-14, 5041-7.1-16, 5041-8.2-3.
#[test]
fn tagged_segments_without_a_buffer() {
    type Aim = fn(&Places) -> (Stag, u64);
    let cases: [(Aim, Error, u8); 8] = [
        (|_| (Stag(0xDEAD_BEEF), 0x1000), Error::InvalidStag, 0x00),
        (|places| (places.read_only, 0x1000), Error::InvalidStag, 0x00),
        (|places| (places.deregistered, 0x1000), Error::InvalidStag, 0x00),
        (|places| (places.whole, 0x0FFF), Error::BaseOrBounds, 0x01),
        (|places| (places.whole, 0x1039), Error::BaseOrBounds, 0x01),
        (|places| (places.foreign_stream, 0x1000), Error::WrongStream, 0x02),
        (|places| (places.foreign_pd, 0x1000), Error::WrongStream, 0x02),
        (|places| (places.whole, u64::MAX - 3), Error::ToWrap, 0x03),
    ];
    for (aim, error, code) in cases {
        let mut world = world();
        let places = Places::new(&mut world);
        let (stag, to) = aim(&places);
        expect_refused(&mut world, &tagged(stag, to, b"12345678"), error, (0x1, code));
        assert!(contents(&places.memory).iter().all(|octet| *octet == 0), "something was placed");
    }
}

/// Memory of 64 octets from tagged offset 0x1000 on, of all kinds.
struct Places {
    memory: std::sync::Arc<weft_verbs::MemoryRegion>,
    whole: Stag,
    read_only: Stag,
    deregistered: Stag,
    foreign_stream: Stag,
    foreign_pd: Stag,
}

impl Places {
    fn new(world: &mut Scripted<DdpStream>) -> Self {
        let end = &mut world.end;
        let memory = end.register(64, 0x1000, Access::ALL);
        let read_only = end.register(64, 0x1000, Access::REMOTE_READ).stag;
        let gone = end.register(64, 0x1000, Access::ALL).stag;
        assert!(end.memory.deregister(gone).is_some());
        let other = Association::new(end.association.pd);
        let mut register = |pd, stream| {
            let region = Region::owned(64).expect("memory for a test");
            let registration = Registration { pd, stream, access: Access::ALL, iova: 0x1000, region };
            end.memory.register(registration).expect("an STag").stag
        };
        let foreign_stream = register(other.pd, Some(other.stream));
        let foreign_pd = register(weft_verbs::PdId(2), None);
        Self { whole: memory.stag, memory, read_only, deregistered: gone, foreign_stream, foreign_pd }
    }
}

// Covers 5041-6.2.2-3, 5041-7.2-1.
#[test]
fn headers_that_cannot_be_read() {
    expect_refused(
        &mut world(),
        &hex("80 00 00000001 0000000000000000 AA"),
        Error::TaggedVersion,
        (0x1, 0x04),
    );
    expect_refused(
        &mut world(),
        &hex("40 00 00000000 00000000 00000001 00000000"),
        Error::UntaggedVersion,
        (0x2, 0x06),
    );
    expect_refused(&mut world(), &hex("41 00 00"), Error::Runt, (0x0, 0x00));
}

/// After an error the stream takes no more segments. But this end still sends, and the stream stays until its ULP
/// ends it.
// Covers 5041-6.2-1, 5041-6.2.2-5, 5041-6.2.2-6, 5041-7.1-19.
#[test]
fn after_an_error_the_ulp_ends_the_stream() {
    let mut world = world();
    world.send(&untagged([0, 1, 0], b"no buffer"));
    assert!(matches!(world.end.take()[..], [DdpEvent::Failed(_)]));
    assert_eq!(world.end.stream.post_buffer(0, 1, vec![0; 8]), Err(PostError::Closed));
    world.send(&untagged([1, 1, 0], b"dropped"));
    world.send_octets(b"not even an FPDU");
    assert_eq!(world.end.take(), []);
    world.end.stream.send_untagged(2, 5, [0; 5], b"syndrome").unwrap();
    world.expect(&Framing::new(true, false).fpdu(&untagged([5, 1, 0], b"syndrome")));
    assert_eq!(world.end.take(), [DdpEvent::Sent { id: 2 }]);
    assert_eq!(world.state(), LlpState::Established);
    world.end.stream.shutdown();
    world.settle();
    assert_eq!(world.state(), LlpState::PeerClosed, "FIN, behind the last message");
    world.line.llp(1).shutdown();
    world.settle();
    assert_eq!(world.end.take(), [DdpEvent::Closed]);
}

/// DDP has no message that ends a stream. The peer gets a reset of its TCP connection.
// Covers 5041-6.2-2, 5041-6.2.2-4, 5041-3-10, 5041-3-13.
#[test]
fn an_abort_resets_the_connection_and_returns_all_messages() {
    let mut world = world();
    let stream = &mut world.end.stream;
    for id in 0..3 {
        stream.post_buffer(id, u64::from(id), vec![0xEE; 4]).unwrap();
    }
    stream.send_untagged(7, 0, [0; 5], b"never sent").unwrap();
    stream.abort(&mut world.line.llp(0));
    assert_eq!(stream.send_untagged(8, 0, [0; 5], b"x"), Err(PostError::Closed));
    assert_eq!(stream.post_buffer(0, 8, vec![]), Err(PostError::Closed));
    world.expect(b"");
    assert_eq!(world.state(), LlpState::Reset);
    let returned = |id| DdpEvent::Returned { id: u64::from(id), queue: id, buffer: vec![0xEE; 4] };
    let events = world.end.take();
    assert_eq!(events, [returned(0), returned(1), returned(2), DdpEvent::Unsent { id: 7 }, DdpEvent::Closed]);
}

// Covers 5041-6.2.2-1, 5041-6.2.2-4.
#[test]
fn a_lost_connection_is_a_fatal_error() {
    let mut world = world();
    world.end.stream.post_buffer(0, 1, vec![0; 4]).unwrap();
    world.line.llp(1).abort();
    world.settle();
    let events = world.end.take();
    let [DdpEvent::Failed(error), DdpEvent::Returned { id: 1, .. }, DdpEvent::Closed] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(
        (error.cause, error.code()),
        (DdpCause::Lost(Some(weft_netif::CloseCause::Reset)), (0x3, 0x01))
    );
}

/// An error of MPA is reported with its own code, in DDP's type for the LLP.
// Covers 5041-6.2.2-2, 5041-3-7.
#[test]
fn errors_of_mpa_are_reported() {
    let mut world = world();
    let mut fpdu = world.framing.fpdu(&untagged([0, 1, 0], b"damaged"));
    fpdu[25] ^= 1;
    world.send_octets(&fpdu);
    let events = world.end.take();
    let [DdpEvent::Failed(error)] = &events[..] else { panic!("{events:?}") };
    assert!(matches!(error.cause, DdpCause::Mpa(weft_mpa::Error::Crc { .. })), "{error}");
    assert_eq!((error.code(), error.header), ((0x3, 0x02), None));
}

// Covers 5044-8-1.
#[test]
fn a_fin_inside_an_fpdu_is_an_error() {
    let mut world = world();
    let fpdu = world.framing.fpdu(&untagged([0, 1, 0], b"cut short"));
    world.send_octets(&fpdu[..20]);
    world.line.llp(1).shutdown();
    world.settle();
    let closed = DdpError::from(DdpCause::Mpa(weft_mpa::Error::Closed));
    assert_eq!(world.end.take(), [DdpEvent::Failed(closed)]);
}

/// Memory is deregistered while a message is read from it: the rest of the message can never be sent.
#[test]
fn a_deregistered_source_is_a_local_catastrophe() {
    let mut world = world();
    let source = world.end.register(1_000_000, 0, Access::LOCAL_READ);
    let memory = weft_rnic::ulp::Source::Memory { stag: source.stag, to: 0, len: 1_000_000 };
    world.end.stream.send_untagged(1, 0, [0; 5], memory).unwrap();
    world.end.stream.send_untagged(2, 0, [0; 5], b"behind it").unwrap();
    // The line does not move, so that only one send buffer is filled.
    let event = world.end.stream.poll(&mut world.line.llp(0), &world.end.memory);
    assert_eq!(event, None);
    assert!(world.end.memory.deregister(source.stag).is_some());
    world.settle();
    let error = DdpError::from(DdpCause::Ddp(Error::LocalCatastrophic));
    assert_eq!(error.code(), (0x0, 0x00));
    let unsent = |id| DdpEvent::Unsent { id };
    assert_eq!(world.end.take(), [DdpEvent::Failed(error), unsent(1), unsent(2)]);
    assert_eq!(world.end.stream.send_untagged(3, 0, [0; 5], b"x"), Err(PostError::Closed));
}

/// A responder may send only after the initiator's first FPDU. If the initiator ends without one, the messages come
/// back.
#[test]
fn a_responder_that_may_never_send_gets_its_messages_back() {
    let mut world =
        Scripted::<DdpStream>::responder(crate::line::plain(true, false), &hex(crate::peer::REQUEST));
    world.end.stream.send_untagged(1, 0, [0; 5], b"mine").unwrap();
    world.end.stream.shutdown();
    world.expect(b"");
    assert_eq!((world.end.take(), world.state()), (Vec::new(), LlpState::Established));
    world.line.llp(1).shutdown();
    world.expect(b"");
    assert_eq!(world.end.take(), [DdpEvent::PeerClosed, DdpEvent::Unsent { id: 1 }, DdpEvent::Closed]);
    assert_eq!(world.state(), LlpState::Closed);
}
