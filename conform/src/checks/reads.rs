//! Read Requests to the target that need none of its memory (RFC 5040 sections 4.4, 5.2.1 and 7.2).

use crate::check::Check;
use crate::fault::Fault;
use crate::finding::Stop;
use crate::octets::{Place, digits, hex, read_request};
use crate::segment::{Header, Segment, opcode};
use crate::stream::Missing;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "read-zero",
        title: "a zero-length Read is answered, whatever its source; the Response takes over sink STag and TO",
        ids: &[
            "5040-4.4-2",
            "5040-4.4-3",
            "5040-4.4-4",
            "5040-4.4-5",
            "5040-5.2-1",
            "5040-5.2.1-3",
            "5040-5.2.1-12",
            "5040-5.2.1-13",
            "5040-5.2.1-15",
            "5040-5.2.1-16",
            "5040-5.2.2-1",
            "5041-5.2-8",
            "5042-6.3.5-3",
        ],
        run: read_zero,
    },
    Check {
        name: "read-reserved",
        title: "reserved bits and the Invalidate STag of a Read Request are ignored",
        ids: &["5040-4.1-11", "5040-4.1-13", "5041-4.1-9"],
        run: read_reserved,
    },
    Check {
        name: "read-bad-stag",
        title: "a Read of an STag that does not exist: Terminate 0/1/00 with both headers, then the end",
        ids: &[
            "5040-4.8-3",
            "5040-4.8-4",
            "5040-4.8-5",
            "5040-4.8-6",
            "5040-4.8-13",
            "5040-5.2.1-5",
            "5040-5.2.1-14",
            "5040-5.4-9",
            "5040-7-3",
            "5040-7.1-4",
            "5040-7.2-9",
            "5042-6.1.1-5",
        ],
        run: read_bad_stag,
    },
    Check {
        name: "read-msn",
        title: "Read Requests with the MSN of a later and of a former one, and with an MO: a Terminate of DDP",
        ids: &["5040-4.8-3", "5040-7.2-6", "5041-7.1-8", "5041-7.1-10", "5041-7.2-1"],
        run: read_msn,
    },
    Check {
        name: "read-queue-opcode",
        title: "other opcodes on the queue of Read Requests: a Terminate, and no Response",
        ids: &["5040-4.1-7", "5040-4.8-3", "5040-7.2-7"],
        run: read_queue_opcode,
    },
    Check {
        name: "read-version",
        title: "Read Requests with another RDMA Version: Terminate 0/2/05",
        ids: &["5040-4.8-3", "5040-7.2-8"],
        run: read_version,
    },
    Check {
        name: "read-length",
        title: "Read Requests one octet too short and too long end the stream",
        ids: &["5040-4.2-1", "5040-4.4-1"],
        run: read_length,
    },
];

fn read_zero(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let places = [
        (Place(0xCAFE_BABE, 0x0123_4567_89AB_CDEF), Place(0xDEAD_BEEF, u64::MAX)),
        (Place(u32::MAX, u64::MAX), Place(0, 0)),
        (Place(0, 1), Place(u32::MAX, 0x8000_0000_0000_0000)),
    ];
    for (msn, (sink, source)) in (1..).zip(places) {
        stream.send_ulpdu(&read_request(msn, sink, 0, source));
        let ids = &[
            "5040-5.2.1-3",
            "5040-5.2.1-12",
            "5040-5.2.1-13",
            "5040-5.2.1-15",
            "5040-5.2.1-16",
            "5042-6.3.5-3",
        ];
        let fpdu = trial.expect_fpdu(ids, &mut stream, "the Response to a zero-length Read")?;
        let observed = format!("the ULPDU {}", digits(&fpdu.ulpdu, 40));
        let segment = Segment::parse(&fpdu.ulpdu).filter(|segment| segment.opcode() == opcode::READ_RESPONSE);
        let words = ("the Response to a zero-length Read", &observed);
        trial.need(ids, &stream, segment.is_some(), words)?;
        let Some(segment) = segment else { return Err(Stop::Judged) };
        let mut judge = |ids: &[&'static str], is_right: bool, expected: &str| {
            trial.judge(ids, &stream, is_right, (expected, &observed));
        };
        judge(&["5040-5.2.2-1"], segment.is_tagged(), "T=1");
        judge(&["5040-4.4-5", "5040-5.2.1-16"], segment.payload.is_empty(), "no octets");
        judge(&["5040-5.2-1", "5041-5.2-8"], segment.is_last(), "one segment with L=1");
        if let Header::Tagged { stag, to } = segment.header {
            judge(&["5040-4.4-2"], stag == sink.0, "the sink's STag as it was sent");
            judge(&["5040-4.4-3", "5040-4.4-4"], to == sink.1, "the sink's TO as it was sent");
        }
    }
    Ok(())
}

fn read_reserved(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open_alive()?;
    // The requirements that say the octets are ignored, the offset of the changed octets, and their value.
    let cases: [(&[&str], usize, &str); 3] =
        [(&["5041-4.1-9"], 0, "7D"), (&["5040-4.1-11"], 1, "71"), (&["5040-4.1-13"], 2, "FFFFFFFF")];
    for (msn, (ids, at, octets)) in (2..).zip(cases) {
        let ids: &[&'static str] = ids;
        let mut ulpdu = read_request(msn, Place(7, 8), 0, Place(0, 0));
        let octets = hex(octets);
        ulpdu[at..at + octets.len()].copy_from_slice(&octets);
        stream.send_ulpdu(&ulpdu);
        let fpdu = trial.expect_fpdu(ids, &mut stream, "a Read Response")?;
        let is_right = fpdu.ulpdu == hex("C142 00000007 0000000000000008");
        let words = ("the Response to a zero-length Read", format!("the ULPDU {}", digits(&fpdu.ulpdu, 40)));
        trial.need(ids, &stream, is_right, words)?;
    }
    Ok(())
}

fn read_bad_stag(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open_alive()?;
    let ulpdu = read_request(2, Place(0x0102_0304, 0x1000), 8, Place(0x0BAD_0001, 0x2000));
    let fault = Fault {
        what: "the source's STag does not exist",
        guards: &["5040-5.2.1-5", "5040-5.2.1-14", "5040-7.2-9", "5042-6.1.1-5"],
        codes: &["0100", "0103"],
        near: &[],
    };
    let refusal = trial.provoke(&fault, &mut stream, &ulpdu)?;
    trial.judge_returned(&["5040-7.1-4"], &stream, &refusal, (&ulpdu, true));
    if stream.end().is_none() {
        // Behind the Terminate, a Read that a working stream would answer.
        stream.send_ulpdu(&read_request(3, Place(7, 8), 0, Place(0, 0)));
        let (octets, end) = stream.read_to_end();
        trial.note(end);
        let observed = format!("{} octets and {end}", octets.len());
        let ids = &["5040-5.4-9"];
        trial.judge(ids, &stream, octets.is_empty(), ("nothing behind the Terminate", &observed));
        let ids = &["5040-7-3", "5042-6.1.1-5"];
        let words = ("the end of the connection", &observed);
        trial.judge(ids, &stream, end != Missing::Silence, words);
    }
    Ok(())
}

fn read_msn(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut moved = read_request(2, Place(1, 0), 0, Place(0, 0));
    // The offset is far behind every buffer. With a small one the 28 octets might fit a buffer.
    moved[14] = 0x40;
    let later = read_request(7, Place(1, 0), 0, Place(0, 0));
    let former = read_request(1, Place(1, 0), 0, Place(0, 0));
    let cases: [(Vec<u8>, &str, &[&str], &str); 3] = [
        (later, "the MSN is not the next", &["1203", "1202"], "5041-7.1-10"),
        (former, "the MSN was used before", &["1203", "1202"], "5041-7.1-10"),
        (moved, "the MO is 2^30", &["1204", "1205"], "5041-7.1-8"),
    ];
    for (ulpdu, what, codes, id) in cases {
        let mut stream = trial.open_alive()?;
        let guards = &["5040-7.2-6", id];
        trial.provoke(&Fault { what, guards, codes, near: &[] }, &mut stream, &ulpdu)?;
    }
    Ok(())
}

fn read_queue_opcode(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for octet in [0x43, 0x45, 0x47] {
        let mut stream = trial.open_alive()?;
        let mut ulpdu = read_request(2, Place(1, 0), 0, Place(0, 0));
        ulpdu[1] = octet;
        let fault = Fault {
            what: "the opcode does not belong to queue 1",
            guards: &["5040-4.1-7", "5040-7.2-7"],
            codes: &["0206", "1201"],
            near: &[],
        };
        trial.provoke(&fault, &mut stream, &ulpdu)?;
    }
    Ok(())
}

fn read_version(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for octet in [0x01, 0x81, 0xC1] {
        let mut stream = trial.open_alive()?;
        let mut ulpdu = read_request(2, Place(1, 0), 0, Place(0, 0));
        ulpdu[1] = octet;
        let what = "RV is not 01";
        let fault = Fault { what, guards: &["5040-7.2-8"], codes: &["0205"], near: &[] };
        trial.provoke(&fault, &mut stream, &ulpdu)?;
    }
    Ok(())
}

fn read_length(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for len in [45, 47] {
        let mut stream = trial.open_alive()?;
        let mut ulpdu = read_request(2, Place(1, 0), 0, Place(0, 0));
        ulpdu.resize(len, 0);
        let what = "a Read Request has 46 octets";
        let fault = Fault { what, guards: &["5040-4.2-1", "5040-4.4-1"], codes: &[], near: &[] };
        trial.provoke(&fault, &mut stream, &ulpdu)?;
    }
    Ok(())
}
