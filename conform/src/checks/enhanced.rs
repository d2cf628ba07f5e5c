//! The enhanced startup of RFC 6581: its frames, and IRD and ORD.

use std::time::Duration;

use crate::check::Check;
use crate::finding::Stop;
use crate::octets::pattern;
use crate::ping::Client;
use crate::probe::DEPTH;
use crate::segment::{Segment, opcode};
use crate::startup::{C, M, R, Reply, Request, S};
use crate::stream::{Missing, Stream};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "enhanced-startup",
        title: "an enhanced Request for the client-server model is answered by an enhanced Reply",
        ids: &[
            "6581-6-1",
            "6581-6-2",
            "6581-6-4",
            "6581-6-7",
            "6581-6-8",
            "6581-9-1",
            "6581-9.2-13",
            "6581-9.2-14",
            "6581-10-1",
            "6581-10-5",
        ],
        run: enhanced_startup,
    },
    Check {
        name: "unenhanced-revision-2",
        title: "a Request of revision 2 with S=0 has nothing but the ULP's private data",
        ids: &["6581-6-1", "6581-10-2", "6581-10-6"],
        run: unenhanced_revision_2,
    },
    Check {
        name: "enhanced-at-unenhanced",
        title: "a target without the enhanced startup closes the connection at an enhanced Request",
        ids: &["6581-10-7"],
        run: enhanced_at_unenhanced,
    },
    Check {
        name: "enhanced-private-data-sizes",
        title: "enhanced Requests with up to 508 octets of the ULP's private data, and one octet more",
        ids: &["5044-7.1.2-22", "5044-7.1.2-23", "6581-6-7"],
        run: private_data_sizes,
    },
    Check {
        name: "enhanced-reserved-bits",
        title: "an enhanced Request with all reserved bits",
        ids: &["6581-6-2", "6581-6-3"],
        run: reserved_bits,
    },
    Check {
        name: "enhanced-without-data",
        title: "S=1 and less than four octets of private data",
        ids: &["6581-6-8", "6581-12-1"],
        run: without_data,
    },
    Check {
        name: "depths",
        title: "the target's ORD stays below the Initiator's IRD, which may be 0",
        ids: &["6581-9.1-3", "6581-9.1-5"],
        run: depths,
    },
    Check {
        name: "depths-left-to-the-ulp",
        title: "IRD or ORD 0x3FFF is answered by 0x3FFF",
        ids: &["6581-9.1-13", "6581-9.1-15"],
        run: depths_left_to_the_ulp,
    },
    Check {
        name: "depths-immense",
        title: "IRD and ORD of 0x3FFE are taken or refused, and break nothing",
        ids: &["6581-12-1"],
        run: depths_immense,
    },
    Check {
        name: "rtr-bits-without-peer-to-peer",
        title: "with A=0 the bits B, C and D are ignored",
        ids: &["6581-9-3", "6581-9.2-13", "6581-9.2-14", "6581-9.2-15"],
        run: bits_without_peer_to_peer,
    },
];

fn enhanced_startup(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    let request = Request::enhanced(DEPTH, DEPTH).with_private_data(b"data of the ULP");
    let answered = &["6581-10-1", "6581-10-5"];
    let (mut stream, reply) = trial.ask(answered, &request)?;
    trial.judge(answered, &stream, reply.has(S), ("a Reply with S=1", &reply));
    let reserved = reply.flags & !(M | C | R | S);
    trial.judge(&["6581-6-2"], &stream, reserved == 0, ("reserved bits of zero", &reply));
    if !reply.has(S) {
        return Err(Stop::Judged);
    }
    let is_new = reply.revision >= 2;
    trial.judge(&["6581-6-4"], &stream, is_new, ("revision 2 or higher, as S is 1", &reply));
    let begins = &["6581-6-1", "6581-6-7", "6581-6-8"];
    let Some((ird, ord)) = reply.enhanced() else {
        trial.judge(begins, &stream, false, ("four octets of private data at least", &reply));
        return Err(Stop::Judged);
    };
    trial.judge(&["6581-6-1", "6581-6-8"], &stream, true, ("IRD and ORD", &reply));
    let model = &["6581-9.2-13"];
    trial.judge(model, &stream, ird & A == 0, ("A=0", &reply));
    let bits = (ird & B, ord & (WRITE | READ));
    trial.judge(&["6581-9.2-14"], &stream, ird & A != 0 || bits == (0, 0), ("B, C and D of zero", &reply));
    if reply.has(R) {
        return Err(Stop::Unsuited(format!("the target rejects the Request: {reply}")));
    }
    // In the wrong octet order the number would be 256.
    let expected = format!("an ORD of {DEPTH} at most, in network order");
    trial.judge(&["6581-9-1"], &stream, ord & MASK <= DEPTH, (expected, &reply));
    trial.enter(&mut stream, &request, &reply);
    trial.expect_understood(&["6581-6-7"], &mut stream)
}

fn unenhanced_revision_2(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    let ids = &["6581-6-1", "6581-10-2", "6581-10-6"];
    // As enhanced data these octets would ask for the peer-to-peer start.
    let octets = [0xC0, 0x01, 0xC0, 0x01, 0x00];
    let request = Request { revision: 2, ..Request::plain() }.with_private_data(&octets);
    let (mut stream, reply) = trial.ask_in(ids, &request)?;
    trial.judge(ids, &stream, !reply.has(S), ("a Reply with S=0", &reply));
    trial.expect_understood(&["6581-6-1"], &mut stream)
}

fn enhanced_at_unenhanced(trial: &mut Trial<'_>) -> Result<(), Stop> {
    if trial.need_enhanced().is_ok() {
        return Err(Stop::Unsuited("the target knows the enhanced startup".to_owned()));
    }
    trial.expect_refusal(&["6581-10-7"], &Request::enhanced(DEPTH, DEPTH).emit())
}

fn private_data_sizes(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    for (len, ids) in [(0, &["6581-6-7"]), (1, &["6581-6-7"]), (508, &["5044-7.1.2-23"])] {
        let request = Request::enhanced(DEPTH, DEPTH).with_private_data(&pattern(len));
        let (mut stream, _) = trial.ask_in(ids, &request)?;
        trial.expect_understood(ids, &mut stream)?;
    }
    let request = Request::enhanced(DEPTH, DEPTH).with_private_data(&pattern(509));
    trial.expect_refusal(&["5044-7.1.2-22", "6581-6-7"], &request.emit())
}

fn reserved_bits(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    let ignored = &["6581-6-3"];
    let request = Request::enhanced(DEPTH, DEPTH);
    let request = Request { flags: request.flags | 0x0F, ..request };
    let (mut stream, reply) = trial.ask_in(ignored, &request)?;
    trial.judge(ignored, &stream, reply.has(S), ("a Reply with S=1", &reply));
    let reserved = reply.flags & !(M | C | R | S);
    trial.judge(&["6581-6-2"], &stream, reserved == 0, ("reserved bits of zero", &reply));
    trial.expect_understood(ignored, &mut stream)
}

/// S announces data that is missing. No rule says how to refuse it, so that a rejection is as good as a close.
fn without_data(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    let ids = &["6581-6-8", "6581-12-1"];
    for len in 0..4 {
        let request = Request { private_data: vec![0; len], ..Request::enhanced(DEPTH, DEPTH) };
        let mut stream = trial.dial()?;
        stream.send(&request.emit());
        let expected = "a Reply with R=1, or the end of the connection";
        match trial.read_reply(&mut stream) {
            Ok(reply) => trial.judge(ids, &stream, reply.has(R), (expected, &reply)),
            Err(Missing::Silence) => return Err(trial.fail(ids, &stream, expected, Missing::Silence)),
            Err(end) => trial.judge(ids, &stream, true, (expected, end)),
        }
    }
    Ok(())
}

fn depths(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    let bounded = &["6581-9.1-3", "6581-9.1-5"];
    for ird in [0, 1, 2, 300] {
        let request = Request::enhanced(ird, DEPTH);
        let (mut stream, reply) = trial.ask(bounded, &request)?;
        let Some((_, ord)) = accepted(&reply)? else { continue };
        trial.enter(&mut stream, &request, &reply);
        trial.judge(bounded, &stream, ord & MASK <= ird, (format!("an ORD of {ird} at most"), &reply));
        if ird == 0 {
            expect_no_read(trial, &mut stream);
        }
    }
    Ok(())
}

/// A server of rping would read the advertised buffer. With the tester's IRD of 0 it must not.
fn expect_no_read(trial: &mut Trial<'_>, stream: &mut Stream) {
    let mut client = Client::new(64);
    let place = client.source;
    client.advertise(stream, place);
    let (octets, _) = stream.listen(QUIET);
    let is_read = octets
        .get(2..)
        .and_then(Segment::parse)
        .is_some_and(|segment| !segment.is_tagged() && segment.opcode() == opcode::READ_REQUEST);
    let observed = if is_read { "a Read Request" } else { "none" };
    trial.judge(&["6581-9.1-5"], stream, !is_read, ("no Read Request, as the tester's IRD is 0", observed));
}

fn depths_left_to_the_ulp(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    for (ird, ord) in [(DEPTH, MASK), (MASK, DEPTH), (MASK, MASK)] {
        let of_ird: &[&str] = if ord == MASK { &["6581-9.1-13"] } else { &[] };
        let of_ord: &[&str] = if ird == MASK { &["6581-9.1-15"] } else { &[] };
        let request = Request::enhanced(ird, ord);
        let (mut stream, reply) = trial.ask(&[of_ird, of_ord].concat(), &request)?;
        let Some((reply_ird, reply_ord)) = accepted(&reply)? else { continue };
        trial.judge(of_ird, &stream, reply_ird & MASK == MASK, ("the IRD 0x3FFF", &reply));
        trial.judge(of_ord, &stream, reply_ord & MASK == MASK, ("the ORD 0x3FFF", &reply));
        trial.enter(&mut stream, &request, &reply);
        trial.expect_understood(&[of_ird, of_ord].concat(), &mut stream)?;
    }
    Ok(())
}

fn depths_immense(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    let ids = &["6581-12-1"];
    let request = Request::enhanced(MASK - 1, MASK - 1);
    let mut stream = trial.dial()?;
    stream.send(&request.emit());
    let expected = "a Reply, or the end of the connection";
    match trial.read_reply(&mut stream) {
        Err(Missing::Silence) => return Err(trial.fail(ids, &stream, expected, Missing::Silence)),
        Ok(reply) if !reply.has(R) => {
            trial.enter(&mut stream, &request, &reply);
            trial.expect_understood(ids, &mut stream)?;
        }
        _ => {}
    }
    drop(stream);
    // Whether or not the target took that connection, it has to serve the next one.
    let (mut stream, _) = trial.ask_in(ids, &Request::enhanced(DEPTH, DEPTH))?;
    trial.expect_understood(ids, &mut stream)
}

fn bits_without_peer_to_peer(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    let ids = &["6581-9-3", "6581-9.2-13", "6581-9.2-14", "6581-9.2-15"];
    let request = Request::enhanced(B | DEPTH, WRITE | READ | DEPTH);
    let (mut stream, reply) = trial.ask(ids, &request)?;
    let Some((ird, ord)) = accepted(&reply)? else {
        return Err(Stop::Unsuited(format!("the target rejects the Request: {reply}")));
    };
    let model = &["6581-9-3", "6581-9.2-13", "6581-9.2-15"];
    trial.judge(model, &stream, ird & A == 0, ("A=0", &reply));
    let bits = (ird & B, ord & (WRITE | READ));
    trial.judge(&["6581-9.2-14", "6581-9.2-15"], &stream, bits == (0, 0), ("B, C and D of zero", &reply));
    trial.enter(&mut stream, &request, &reply);
    trial.expect_understood(&["6581-9.2-15"], &mut stream)
}

/// Returns IRD and ORD of an accepting Reply, with their flags. Returns `None` if the target rejects, which it may.
fn accepted(reply: &Reply) -> Result<Option<(u16, u16)>, Stop> {
    if reply.has(R) {
        return Ok(None);
    }
    let depths = reply.enhanced();
    depths.map(Some).ok_or_else(|| Stop::Unsuited(format!("the Reply is not enhanced: {reply}")))
}

/// Bits of the first half: peer-to-peer model, zero-length Send.
pub(super) const A: u16 = 0x8000;
pub(super) const B: u16 = 0x4000;
/// Bits of the second half, C and D: zero-length Write, zero-length Read.
pub(super) const WRITE: u16 = 0x8000;
pub(super) const READ: u16 = 0x4000;
/// The bits of the depth. All of them set leave the depth to the ULP.
pub(super) const MASK: u16 = 0x3FFF;
const QUIET: Duration = Duration::from_millis(300);
