//! A Send from one RDMAP endpoint to another, over DDP and marked MPA, and two TCP connections, without std and without
//! an allocator.
//!
//! The library builds, which is the proof. A C program can be linked with it alone and call [`weft_loopback`] and [`tcp::weft_tcp_pair`].

#![no_std]

mod tcp;

use core::panic::PanicInfo;

use weft_ddp::Receiver;
use weft_mpa::{Config, Crc32c, Deframer, Framer, Initiator, Outcome, Responder};
use weft_rdmap::{Body, Endpoint, Inbound, Kind, Message, OutstandingRequest, PendingRequest, Token};

/// Sends a message to itself through all three layers. Returns 0 if it arrived unchanged, else the step that failed.
#[unsafe(no_mangle)]
pub extern "C" fn weft_loopback() -> u32 {
    match loopback() {
        Ok(()) => 0,
        Err(step) => step as u32,
    }
}

/// The step at which the round trip ended.
#[derive(Clone, Copy)]
enum Step {
    Startup = 1,
    Start,
    Segment,
    Frame,
    Deframe,
    Place,
    Accept,
    Content,
}

fn loopback() -> Result<(), Step> {
    let (sending, receiving) = startup()?;
    let mut sender = endpoint();
    let message = Message {
        token: Token(1),
        len: GREETING.len() as u32,
        kind: Kind::Send { solicited: false, invalidate: None },
    };
    sender.start(message).map_err(|_| Step::Start)?;

    let mut wire = [0; 256];
    let mut framer = Framer::new(Some(Crc32c::default()), sending);
    let outbound = sender.poll_segment(framer.room(wire.len())).ok_or(Step::Segment)?;
    let Body::Message { offset: 0, .. } = outbound.body else { return Err(Step::Segment) };
    let ulpdu = framer.ulpdu_mut(&mut wire, outbound.ulpdu_len());
    outbound.header.emit(ulpdu);
    ulpdu[outbound.header.len()..].copy_from_slice(GREETING);
    let len = framer.seal(&mut wire, outbound.ulpdu_len());

    // The FPDU comes in two parts, so that the staging is used too.
    let (mut first, mut second) = wire.get(..len).ok_or(Step::Frame)?.split_at(len / 2);
    let mut deframer = Deframer::new(Some(Crc32c::default()), receiving, [0; 256]);
    if deframer.next(&mut first) != Ok(None) {
        return Err(Step::Deframe);
    }
    let ulpdu = deframer.next(&mut second).ok().flatten().ok_or(Step::Deframe)?;
    let segment = Receiver::new(3).accept(ulpdu).map_err(|_| Step::Place)?;
    match endpoint().accept(segment).map_err(|_| Step::Accept)? {
        Inbound::Send { offset: 0, payload: GREETING, last: Some(_) } => Ok(()),
        _ => Err(Step::Content),
    }
}

/// Agrees on Markers and CRC. Returns whether the Initiator sends Markers, and whether the Responder receives them.
fn startup() -> Result<(bool, bool), Step> {
    let initiator = Initiator::new(Config::default());
    let responder = Responder::new(Config { markers: true, ..Config::default() });
    let request = initiator.request(b"").map_err(|_| Step::Startup)?;
    let offer = responder.handle_request(&request).map_err(|_| Step::Startup)?;
    let (reply, theirs) = offer.accept(b"").map_err(|_| Step::Startup)?;
    match initiator.handle_reply(&reply) {
        Ok(Outcome::Established(ours)) => Ok((ours.send_markers, theirs.receive_markers)),
        _ => Err(Step::Startup),
    }
}

fn endpoint() -> Endpoint<[OutstandingRequest; 2], [PendingRequest; 2]> {
    Endpoint::new(Default::default(), Default::default())
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// The precompiled `core` names this symbol in its unwind tables, although nothing unwinds with `panic = "abort"`.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

const GREETING: &[u8] = b"hello without std";
