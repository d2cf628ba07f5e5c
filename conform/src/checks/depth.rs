//! Several Reads at a time, and more than the target takes (RFC 5040 sections 5.2.1, 5.2.2, 5.5 and 6.1).

use crate::check::Check;
use crate::finding::Stop;
use crate::octets::digits;
use crate::octets::{Place, read_request};
use crate::ping::{Advertisement, Client};
use crate::probe::shown;
use crate::segment::{Header, Segment, opcode};
use crate::startup::Request;
use crate::stream::{Missing, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "reads-in-order",
        title: "as many zero-length Reads at once as the target's IRD allows are answered, in order",
        ids: &["5040-5.2.1-8", "5040-5.2.2-2", "5040-5.2.2-6", "5040-5.5-16", "5040-6.1-2"],
        run: reads_in_order,
    },
    Check {
        name: "reads-of-sizes",
        title: "Reads of 3000, 1, 0 and 500 octets at once are answered in order, one Response after the other",
        ids: &[
            "5040-5.2-1",
            "5040-5.2.1-8",
            "5040-5.2.1-12",
            "5040-5.2.1-16",
            "5040-5.2.2-2",
            "5040-5.2.2-6",
            "5040-5.5-16",
        ],
        run: reads_of_sizes,
    },
    Check {
        name: "reads-too-many",
        title: "more Reads at once than the target's IRD end the stream",
        ids: &["5040-5.2.1-2", "5040-6.1-5", "5042-6.4.3.3-2", "5042-6.4.3.3-3"],
        run: reads_too_many,
    },
];

/// Opens a stream. Returns it with the number of Reads that the target takes at a time.
pub(super) fn open_deep(trial: &mut Trial<'_>) -> Result<(Stream, u16), Stop> {
    trial.need_enhanced()?;
    let (stream, reply) = trial.open_with(&Request::enhanced(DEPTH, DEPTH))?;
    let ird = reply.enhanced().map(|(ird, _)| ird & DEPTH_BITS).filter(|&ird| ird != DEPTH_BITS);
    let ird = ird.ok_or_else(|| Stop::Unsuited("the target does not say its IRD".to_owned()))?;
    Ok((stream, ird))
}

/// Does the same for at least two Reads and at most `DEPTH`.
pub(super) fn open_for_two(trial: &mut Trial<'_>) -> Result<(Stream, u16), Stop> {
    let (stream, ird) = open_deep(trial)?;
    if ird < 2 {
        return Err(Stop::Unsuited(format!("the target takes {ird} Reads at a time")));
    }
    Ok((stream, ird.min(DEPTH)))
}

fn reads_in_order(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, depth) = open_for_two(trial)?;
    let mut burst = Vec::new();
    for msn in 1..=u32::from(depth) {
        let sink = Place(0xCAFE_0000 + msn, 0);
        burst.extend(stream.outgoing.fpdu(&read_request(msn, sink, 0, Place(0, 0))));
    }
    stream.send(&burst);
    for msn in 1..=u32::from(depth) {
        let served = &["5040-5.2.2-2", "5040-6.1-2"];
        let fpdu = trial.expect_fpdu(served, &mut stream, "a Response to each Read")?;
        let observed = digits(&fpdu.ulpdu, 60);
        let segment = Segment::parse(&fpdu.ulpdu).filter(|segment| segment.opcode() == opcode::READ_RESPONSE);
        trial.need(served, &stream, segment.is_some(), ("a Response to each Read", &observed))?;
        let header = segment.map(|segment| segment.header);
        let is_right = matches!(header, Some(Header::Tagged { stag, .. }) if stag == 0xCAFE_0000 + msn);
        let ids = &["5040-5.2.1-8", "5040-5.2.2-6", "5040-5.5-16"];
        trial.judge(ids, &stream, is_right, ("the Response to the Read that is next", &observed));
    }
    Ok(())
}

fn reads_of_sizes(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, depth) = open_for_two(trial)?;
    let mut client = Client::new(4000);
    let buffer = client.learn_buffer(trial, &mut stream)?;
    let reads = [(100, 3000), (17, 1), (0, 0), (3500, 500)];
    let reads = &reads[..reads.len().min(usize::from(depth))];
    let mut burst = Vec::new();
    for (msn, &(offset, size)) in (1..).zip(reads) {
        let read = read_request(msn, Place(0xCAFE_0000 + msn, 0), size, buffer.place(offset));
        burst.extend(stream.outgoing.fpdu(&read));
    }
    stream.send(&burst);
    for (msn, &(offset, size)) in (1..).zip(reads) {
        let (offset, size) = (usize::try_from(offset).unwrap_or(0), size as usize);
        let wanted = &client.content[offset..offset + size];
        take_response(trial, &mut stream, 0xCAFE_0000 + msn, wanted)?;
    }
    Ok(())
}

/// The Response to the Read that named the sink has to come, with those octets and not mixed with another Response.
fn take_response(trial: &mut Trial<'_>, stream: &mut Stream, sink: u32, wanted: &[u8]) -> Result<(), Stop> {
    let mut content: Vec<u8> = Vec::new();
    loop {
        let fpdu = trial.expect_fpdu(&["5040-5.2.2-2"], stream, "a Response to each Read")?;
        let observed = digits(&fpdu.ulpdu, 60);
        let segment = Segment::parse(&fpdu.ulpdu).filter(|segment| segment.opcode() == opcode::READ_RESPONSE);
        let words = ("a Response to each Read", &observed);
        trial.need(&["5040-5.2.2-2"], stream, segment.is_some(), words)?;
        let Some(segment) = segment else { return Err(Stop::Judged) };
        let is_next = matches!(segment.header, Header::Tagged { stag, .. } if stag == sink);
        let ids = &["5040-5.2.1-8", "5040-5.2.2-6", "5040-5.5-16"];
        trial.need(ids, stream, is_next, ("the Response to the Read that is next", &observed))?;
        content.extend(&segment.payload);
        if !segment.is_last() && content.len() <= wanted.len() {
            continue;
        }
        let words = ("one Response, with L=1 behind its last octet", &observed);
        trial.need(&["5040-5.2-1"], stream, segment.is_last(), words)?;
        let id = if wanted.is_empty() { "5040-5.2.1-16" } else { "5040-5.2.1-12" };
        let words = (format!("a Response with the {} octets that were read", wanted.len()), &observed);
        trial.judge(&[id], stream, content == wanted, words);
        return Ok(());
    }
}

fn reads_too_many(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, ird) = open_deep(trial)?;
    if ird > MAX_DEPTH {
        return Err(Stop::Unsuited(format!(
            "the target takes {ird} Reads at a time: too many to exceed them"
        )));
    }
    // If the Reads ask for octets, the target cannot send all Responses, as the tester takes none. Reads of no octets
    // might be answered in time.
    let buffer = Client::new(SIZE as usize).learn_buffer(trial, &mut stream).ok();
    let (stream, count) = match &buffer {
        Some(_) => (stream, u32::from(ird) + 1 + UNTAKEN),
        None => (open_deep(trial)?.0, u32::from(ird) + 24),
    };
    flood(trial, stream, count, buffer.as_ref())
}

fn flood(
    trial: &mut Trial<'_>,
    mut stream: Stream,
    count: u32,
    buffer: Option<&Advertisement>,
) -> Result<(), Stop> {
    let mut burst = Vec::new();
    for msn in 1..=count {
        let (size, source) = buffer.map_or((0, Place(0, 0)), |buffer| (SIZE, buffer.place(0)));
        burst.extend(stream.outgoing.fpdu(&read_request(msn, Place(1, 0), size, source)));
    }
    stream.send(&burst);
    let (is_end, observed) = is_end_of_flood(trial, &mut stream, count);
    if buffer.is_none() && !is_end && observed.starts_with("all") {
        return Err(Stop::Unsuited("the target answers each Read before the next one arrives".to_owned()));
    }
    let ids = &["5040-5.2.1-2", "5040-6.1-5", "5042-6.4.3.3-2", "5042-6.4.3.3-3"];
    let expected = format!("the end of the stream at {count} Reads at once");
    trial.judge(ids, &stream, is_end, (expected, observed));
    Ok(())
}

/// Returns whether the stream ends before all `count` Reads and Atomics are answered, and a text of what came.
pub(super) fn is_end_of_flood(trial: &mut Trial<'_>, stream: &mut Stream, count: u32) -> (bool, String) {
    let mut responses = 0;
    loop {
        let fpdu = match stream.read_fpdu() {
            Ok(fpdu) => fpdu,
            Err(missing) => {
                trial.note(missing);
                let observed = format!("{responses} Responses and {missing}");
                return (missing != Missing::Silence, observed);
            }
        };
        let opcode = fpdu.ulpdu.get(1).map_or(0, |octet| octet & 0x0F);
        if !matches!(opcode, opcode::READ_RESPONSE | opcode::ATOMIC_RESPONSE) {
            let is_end = Terminate::parse(&fpdu.ulpdu).is_some();
            return (is_end, format!("{responses} Responses and {}", shown(&fpdu)));
        }
        responses += u32::from(fpdu.ulpdu[0] & 0x40 != 0);
        if responses == count {
            return (false, format!("all {count} Responses"));
        }
    }
}

/// The most Reads that the tester asks for.
const DEPTH: u16 = 8;
/// The two high bits of IRD and ORD mean something else (RFC 6581 section 9).
const DEPTH_BITS: u16 = 0x3FFF;
/// The most Reads with which a target is flooded.
const MAX_DEPTH: u16 = 256;
const SIZE: u32 = 65_536;
/// So many Responses of `SIZE` octets are more than any TCP buffers for a peer that takes none.
const UNTAKEN: u32 = 96;
