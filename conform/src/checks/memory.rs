//! Reads of the target's buffer (RFC 5040 sections 5.2.2, 7.2 and 8.1.1). These checks need a target that tells where
//! its buffer is.

use crate::check::Check;
use crate::fault::{Fault, Refusal};
use crate::finding::Stop;
use crate::octets::{Place, digits, read_request, write};
use crate::ping::{Advertisement, Client};
use crate::segment::{Header, Segment, opcode};
use crate::stream::Stream;
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "read-parts",
        title: "Reads of all and of parts of the target's buffer, from and to odd offsets, return its octets",
        ids: &[
            "5040-4.4-1",
            "5040-4.4-2",
            "5040-4.4-3",
            "5040-4.4-4",
            "5040-4.4-5",
            "5040-4.4-6",
            "5040-5.2.1-11",
            "5040-5.2.1-12",
            "5040-5.2.1-16",
        ],
        run: read_parts,
    },
    Check {
        name: "read-segments",
        title: "the Response to a Read of 6000 octets: in order, whole, to one STag, L on the last segment",
        ids: &[
            "5040-4.4-3",
            "5040-5.2-1",
            "5040-5.2.2-1",
            "5040-5.2.2-8",
            "5041-4.1-3",
            "5041-4.1-4",
            "5041-4.2-4",
            "5041-5.2-3",
            "5041-5.2-7",
            "5041-5.3-3",
        ],
        run: read_segments,
    },
    Check {
        name: "read-while-written",
        title: "a Read and the target's own Write at the same time are both whole",
        ids: &["5040-5.2.1-12", "5041-5.2-3"],
        run: read_while_written,
    },
    Check {
        name: "read-outside",
        title: "Reads below and above the target's buffer, and of more than it has: Terminate 0/1/01 with both headers",
        ids: &[
            "5040-4.8-3",
            "5040-5.2.1-14",
            "5040-7.1-4",
            "5040-7.2-11",
            "5040-7.2-12",
            "5040-8.1.1-4",
            "5042-6.3.1-1",
        ],
        run: read_outside,
    },
    Check {
        name: "read-wraps",
        title: "a Read whose source wraps: Terminate 0/1/04 or 0/1/01",
        ids: &["5040-4.8-3", "5040-7.2-13"],
        run: read_wraps,
    },
    Check {
        name: "write-outside",
        title: "Writes below and above the target's buffer, and of more than it has: Terminate 1/1/01",
        ids: &[
            "5040-4.8-3",
            "5040-7.1-3",
            "5040-8.1.1-4",
            "5041-7.1-14",
            "5041-7.1-15",
            "5041-7.2-1",
            "5042-6.2.1-1",
        ],
        run: write_outside,
    },
    Check {
        name: "write-wraps",
        title: "a Write whose TO wraps: Terminate 1/1/03 or 1/1/01",
        ids: &["5040-4.8-3", "5041-7.1-16", "5041-7.2-1"],
        run: write_wraps,
    },
];

fn read_parts(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(300);
    let buffer = client.learn_buffer(trial, &mut stream)?;
    let ids = &["5040-4.4-1", "5040-4.4-5", "5040-4.4-6", "5040-5.2.1-11", "5040-5.2.1-12"];
    let parts: [(u16, u16); 8] = [(0, 300), (0, 0), (0, 1), (299, 1), (7, 33), (1, 298), (255, 3), (255, 0)];
    for (msn, (offset, len)) in (1..).zip(parts) {
        let sink = Place(0xCAFE_0000 + msn, 0x0123_4567_89AB_CDE1 ^ u64::from(msn) << 40);
        stream.send_ulpdu(&read_request(msn, sink, u32::from(len), buffer.place(u64::from(offset))));
        let fpdu = trial.expect_fpdu(ids, &mut stream, "a Read Response")?;
        let observed = digits(&fpdu.ulpdu, 160);
        let segment = Segment::parse(&fpdu.ulpdu).filter(|segment| segment.opcode() == opcode::READ_RESPONSE);
        let wanted = &client.content[usize::from(offset)..usize::from(offset + len)];
        let is_right = segment.as_ref().is_some_and(|segment| segment.payload == wanted);
        let expected = format!("a Read Response with {} octets: {}", len, digits(wanted, 150));
        if len == 0 && segment.is_some() {
            trial.judge(&["5040-5.2.1-16"], &stream, is_right, (expected, &observed));
        } else {
            trial.need(ids, &stream, is_right, (expected, &observed))?;
        }
        if let Some(Header::Tagged { stag, to }) = segment.map(|segment| segment.header) {
            let words = ("the sink's STag as it was sent", &observed);
            trial.judge(&["5040-4.4-2"], &stream, stag == sink.0, words);
            let words = ("the sink's TO as it was sent", &observed);
            trial.judge(&["5040-4.4-3", "5040-4.4-4"], &stream, to == sink.1, words);
        }
    }
    Ok(())
}

fn read_segments(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(6000);
    let buffer = client.learn_buffer(trial, &mut stream)?;
    let sink = Place(0xCAFE_BABE, 0xFFFF_FFFF_0000_0001);
    stream.send_ulpdu(&read_request(1, sink, 6000, buffer.place(0)));
    let segments = take_response(trial, &["5040-5.2-1", "5041-5.2-3"], &mut stream)?;
    let Some((last, before)) = segments.split_last() else { return Err(Stop::Judged) };
    let mut judge = |ids: &[&'static str], is_right, expected| {
        trial.judge(ids, &stream, is_right, (expected, "other segments"));
    };
    let all = |ok: &dyn Fn(&Segment) -> bool| segments.iter().all(ok);
    judge(&["5040-5.2.2-1"], all(&Segment::is_tagged), "T=1 in all segments");
    let is_there =
        |segment: &Segment| matches!(segment.header, Header::Tagged { stag, .. } if stag == sink.0);
    judge(&["5040-5.2.2-8"], all(&is_there), "one STag");
    judge(&["5041-4.1-3", "5040-5.2-1"], last.is_last(), "L=1 on the last segment");
    judge(&["5041-4.1-4"], !before.iter().any(Segment::is_last), "L=0 on the others");
    judge(&["5041-4.2-4"], all(&|segment| segment.rdmap == last.rdmap), "the same RsvdULP in all segments");
    let mut to = sink.1;
    let mut in_order = true;
    for segment in &segments {
        in_order &= segment.header == Header::Tagged { stag: sink.0, to };
        to = to.wrapping_add(segment.payload.len() as u64);
    }
    let expected = "the sink's TO first, then one that grows by each payload";
    judge(&["5040-4.4-3", "5041-5.2-7", "5041-5.3-3"], in_order, expected);
    let content: Vec<u8> = segments.iter().flat_map(|segment| segment.payload.iter().copied()).collect();
    judge(&["5041-5.2-3"], content == client.content, "all octets of the source");
    Ok(())
}

/// The segments of a Read Response, up to the one with L=1.
fn take_response(
    trial: &mut Trial<'_>,
    ids: &[&'static str],
    stream: &mut Stream,
) -> Result<Vec<Segment>, Stop> {
    let mut segments = Vec::new();
    let mut len = 0;
    loop {
        let fpdu = trial.expect_fpdu(ids, stream, "a segment of a Read Response")?;
        let segment = Segment::parse(&fpdu.ulpdu).filter(|segment| segment.opcode() == opcode::READ_RESPONSE);
        let Some(segment) = segment else {
            let words = ("a segment of a Read Response", digits(&fpdu.ulpdu, 60));
            trial.judge(ids, stream, false, words);
            return Err(Stop::Judged);
        };
        let is_last = segment.is_last();
        len += segment.payload.len();
        segments.push(segment);
        // All octets have come and none has L=1: the next segment shows more.
        if is_last || len >= 6000 {
            return Ok(segments);
        }
    }
}

fn read_while_written(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(20_000);
    let buffer = client.learn_buffer(trial, &mut stream)?;
    client.advertise(&mut stream, client.sink);
    stream.send_ulpdu(&read_request(1, Place(0xCAFE_BABE, 0), 20_000, buffer.place(0)));
    let ids = &["5040-5.2.1-12", "5041-5.2-3"];
    let (mut read, mut written, mut is_sent) = (Vec::new(), Vec::new(), false);
    while !is_sent || read.len() < client.content.len() {
        let fpdu = trial.expect_fpdu(ids, &mut stream, "a Read Response, a Write and a Send")?;
        let Some(segment) = Segment::parse(&fpdu.ulpdu) else { return Err(Stop::Judged) };
        match segment.opcode() {
            opcode::READ_RESPONSE => read.extend(segment.payload),
            opcode::WRITE => written.extend(segment.payload),
            opcode::SEND => is_sent = true,
            // The ULP may deregister its buffer after its Write. Then a Read of it has to fail.
            opcode::TERMINATE if is_sent => {
                return Err(Stop::Unsuited("the target took its buffer away before it was read".to_owned()));
            }
            _ => {
                trial.judge(ids, &stream, false, ("a Read Response or Writes", digits(&fpdu.ulpdu, 60)));
                return Err(Stop::Judged);
            }
        }
    }
    let is_right = read == client.content && written == client.content;
    trial.judge(ids, &stream, is_right, ("all octets by either way", "others"));
    Ok(())
}

/// An access to memory outside of the target's buffer.
struct Access {
    /// Makes the segment for an offset that lies `distance` away from a valid one.
    ulpdu: fn(&Advertisement, u64) -> Vec<u8>,
    guards: &'static [&'static str],
}

/// Sends each access, which has to be refused. The memory behind the STag may be larger than the advertised buffer.
/// So if the target takes the access next to the buffer, the check sends one far away.
fn expect_refusals(trial: &mut Trial<'_>, accesses: &[Access], is_read: bool) -> Result<(), Stop> {
    for access in accesses {
        for distance in [0, 1 << 40] {
            let mut stream = trial.open()?;
            let buffer = Client::new(64).learn_buffer(trial, &mut stream)?;
            let ulpdu = (access.ulpdu)(&buffer, distance);
            stream.send_ulpdu(&ulpdu);
            if !is_read {
                // A Write that is taken has no answer, but this Read has.
                stream.send_ulpdu(&read_request(1, Place(1, 0), 0, Place(0, 0)));
            }
            let answer = stream.read_fpdu();
            let is_taken = answer.as_ref().is_ok_and(|fpdu| Terminate::parse(&fpdu.ulpdu).is_none());
            if is_taken && distance == 0 {
                continue;
            }
            let fault = Fault {
                what: "the access is outside of the buffer",
                guards: access.guards,
                codes: if is_read { &["0101"] } else { &["1101"] },
                near: REFUSALS,
            };
            let refusal = trial.judge_refusal(&fault, &stream, answer);
            let returned: &[&str] = if is_read { &["5040-7.1-4"] } else { &["5040-7.1-3"] };
            trial.judge_returned(returned, &stream, &refusal, (&ulpdu, is_read));
            if matches!(refusal, Refusal::None) {
                return Err(Stop::Judged);
            }
            break;
        }
    }
    Ok(())
}

fn read_at(buffer: &Advertisement, offset: u64, size: u32) -> Vec<u8> {
    read_request(1, Place(0x0102_0304, 0x1000), size, buffer.place(offset))
}

fn read_outside(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let accesses: [Access; 4] = [
        Access {
            ulpdu: |buffer, distance| read_at(buffer, distance.wrapping_add(1).wrapping_neg(), 1),
            guards: READ_BELOW,
        },
        Access {
            ulpdu: |buffer, distance| read_at(buffer, distance + u64::from(buffer.size), 1),
            guards: READ_BELOW,
        },
        Access { ulpdu: |buffer, distance| read_at(buffer, distance, buffer.size + 1), guards: READ_BEYOND },
        Access {
            ulpdu: |buffer, distance| read_at(buffer, distance + u64::from(buffer.size) - 4, 5),
            guards: READ_BEYOND,
        },
    ];
    expect_refusals(trial, &accesses, true)
}

fn read_wraps(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let buffer = Client::new(64).learn_buffer(trial, &mut stream)?;
    let ulpdu = read_request(1, Place(0x0102_0304, 0x1000), 8, Place(buffer.stag, u64::MAX - 3));
    let (what, codes) = ("the source wraps", &["0104", "0101"]);
    let fault = Fault { what, guards: &["5040-7.2-13"], codes, near: REFUSALS };
    trial.provoke(&fault, &mut stream, &ulpdu)?;
    Ok(())
}

fn write_outside(trial: &mut Trial<'_>) -> Result<(), Stop> {
    fn write_at(buffer: &Advertisement, offset: u64, len: u32) -> Vec<u8> {
        let place = buffer.place(offset);
        write(place.0, place.1, &vec![0x5A; len as usize])
    }
    let accesses: [Access; 4] = [
        Access {
            ulpdu: |buffer, distance| write_at(buffer, distance.wrapping_add(1).wrapping_neg(), 1),
            guards: WRITE_BELOW,
        },
        Access {
            ulpdu: |buffer, distance| write_at(buffer, distance + u64::from(buffer.size), 1),
            guards: WRITE_BELOW,
        },
        Access {
            ulpdu: |buffer, distance| {
                // As much as fits a small FPDU, up to one octet behind the buffer's end.
                let len = (buffer.size + 1).min(1024);
                write_at(buffer, distance + u64::from(buffer.size + 1 - len), len)
            },
            guards: WRITE_BEYOND,
        },
        Access {
            ulpdu: |buffer, distance| write_at(buffer, distance + u64::from(buffer.size) - 4, 5),
            guards: WRITE_BEYOND,
        },
    ];
    expect_refusals(trial, &accesses, false)
}

fn write_wraps(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let buffer = Client::new(64).learn_buffer(trial, &mut stream)?;
    let ulpdu = write(buffer.stag, u64::MAX - 3, &[0x5A; 8]);
    let (what, codes) = ("the TO wraps", &["1103", "1101"]);
    let fault = Fault { what, guards: &["5041-7.1-16"], codes, near: REFUSALS };
    trial.provoke(&fault, &mut stream, &ulpdu)?;
    Ok(())
}

/// The codes that show that an access was refused, also those for another reason.
const REFUSALS: &[&str] =
    &["0000", "0100", "0101", "0102", "0103", "0104", "0207", "1000", "1100", "1101", "1102", "1103"];
const READ_BELOW: &[&str] = &["5040-5.2.1-14", "5040-7.2-11", "5040-8.1.1-4", "5042-6.3.1-1"];
const READ_BEYOND: &[&str] = &["5040-5.2.1-14", "5040-7.2-12", "5040-8.1.1-4", "5042-6.3.1-1"];
const WRITE_BELOW: &[&str] = &["5040-8.1.1-4", "5041-7.1-14", "5042-6.2.1-1"];
const WRITE_BEYOND: &[&str] = &["5040-8.1.1-4", "5041-7.1-15", "5042-6.2.1-1"];
