//! RDMA Writes of the target (RFC 5040 section 5.1), as rping makes it send them. RDMA Writes into the target's
//! buffer too, if it says where the buffer is.

use crate::check::Check;
use crate::finding::Stop;
use crate::octets::digits;
use crate::octets::{Place, read_request, write};
use crate::ping::{Advertisement, Client, Written};
use crate::segment::{Header, Segment};
use crate::stream::Stream;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "target-write",
        title: "the Write into an advertised buffer is tagged, one message, whole, and ahead of the Send",
        ids: &[
            "5040-5.1-1",
            "5040-5.1-4",
            "5040-5.1-8",
            "5040-5.5-9",
            "5041-4.1-3",
            "5041-4.2-1",
            "5041-4.2-7",
            "5041-5.2-3",
            "5041-5.3-2",
        ],
        run: target_write,
    },
    Check {
        name: "target-write-segments",
        title: "the segments of a Write of 6000 octets: the same STag, rising TO, L on the last",
        ids: &[
            "5040-5.1-8",
            "5041-4.1-3",
            "5041-4.1-4",
            "5041-4.1-5",
            "5041-4.2-4",
            "5041-4.2-9",
            "5041-5.2-3",
            "5041-5.2-7",
            "5041-5.3-3",
        ],
        run: target_write_segments,
    },
    Check {
        name: "write-parts",
        title: "Writes of all, of parts and of no octets of the target's buffer are placed, and its ULP is not told",
        ids: &["5040-5.1-2", "5040-5.1-5", "5040-5.1-9", "5041-4.1-1", "5041-4.2-11", "5041-5.2-10"],
        run: write_parts,
    },
    Check {
        name: "write-then-read",
        title: "a Read behind a Write returns what was written, 64 times",
        ids: &["5040-5.5-7", "5040-5.5-13"],
        run: write_then_read,
    },
];

fn target_write(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    let written = client.ping(trial, &mut stream)?.written;
    judge_form(trial, &stream, &client, &written);
    judge_content(
        trial,
        &["5040-5.1-4", "5040-5.5-9", "5041-5.2-3", "5041-5.3-2"],
        &stream,
        (&client, &written),
    );
    Ok(())
}

/// Judges the rules for each segment and for their sequence.
fn judge_form(trial: &mut Trial<'_>, stream: &Stream, client: &Client, written: &Written) {
    for (index, fpdu) in written.writes.iter().enumerate() {
        let Some(segment) = Segment::parse(&fpdu.ulpdu) else { continue };
        let observed = digits(&fpdu.ulpdu, 14);
        trial.judge(&["5040-5.1-1", "5041-4.2-1"], stream, segment.is_tagged(), ("T=1", &observed));
        let is_there = matches!(segment.header, Header::Tagged { stag, .. } if stag == client.sink.0);
        trial.judge(&["5040-5.1-8", "5041-4.2-7"], stream, is_there, ("the advertised STag", &observed));
        let is_last = index + 1 == written.writes.len();
        let words = ("L=1 on the last segment, and one message", &observed);
        trial.judge(&["5041-4.1-3"], stream, segment.is_last() || !is_last, words);
    }
}

fn judge_content(
    trial: &mut Trial<'_>,
    ids: &[&'static str],
    stream: &Stream,
    (client, written): (&Client, &Written),
) {
    let is_right = written.content.as_ref() == Some(&client.content);
    let expected = "all octets of the buffer, as they were read, each once and ahead of the Send";
    let observed = match &written.content {
        Some(content) => digits(content, 64),
        None => format!("{} segments of Writes that are something else", written.writes.len()),
    };
    trial.judge(ids, stream, is_right, (expected, observed));
}

fn target_write_segments(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(6000);
    let written = client.ping(trial, &mut stream)?.written;
    let segments: Vec<_> = written.writes.iter().filter_map(|fpdu| Segment::parse(&fpdu.ulpdu)).collect();
    let Some((last, before)) = segments.split_last() else {
        return Err(Stop::Unsuited("the target sends no Write".to_owned()));
    };
    judge_form(trial, &stream, &client, &written);
    let mut judge = |ids: &[&'static str], is_right, expected| {
        trial.judge(ids, &stream, is_right, (expected, "other segments"));
    };
    let all = |ok: &dyn Fn(&Segment) -> bool| segments.iter().all(ok);
    judge(&["5041-4.1-3", "5041-4.1-5"], last.is_last(), "L=1 on the segment behind the others");
    judge(&["5041-4.1-4"], !before.iter().any(Segment::is_last), "L=0 on the others");
    judge(&["5041-4.2-4"], all(&|segment| segment.rdmap == last.rdmap), "the same RsvdULP in all segments");
    let sink = client.sink;
    let is_there =
        |segment: &Segment| matches!(segment.header, Header::Tagged { stag, .. } if stag == sink.0);
    judge(&["5041-4.2-9"], all(&is_there), "the advertised STag in all segments");
    let mut to = sink.1;
    let mut in_order = true;
    for segment in &segments {
        in_order &= segment.header == Header::Tagged { stag: sink.0, to };
        to = to.wrapping_add(segment.payload.len() as u64);
    }
    judge(&["5041-5.2-7", "5041-5.3-3"], in_order, "a TO that grows by each payload");
    judge_content(trial, &["5041-5.2-3"], &stream, (&client, &written));
    Ok(())
}

fn write_parts(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    let buffer = client.learn_buffer(trial, &mut stream)?;
    let mut model = client.content.clone();
    for (index, (offset, len)) in [(0, 64), (0, 1), (63, 1), (7, 33), (1, 62), (5, 2)].into_iter().enumerate()
    {
        // Letters with a zero at the end, as in rping, which writes back the letters before the zero.
        let mut octets: Vec<u8> = (0..len).map(|at| b'a' + low(index + at % 19)).collect();
        if offset + len == 64 {
            octets[len - 1] = 0;
        }
        let to = buffer.to.wrapping_add(offset as u64);
        stream.send_ulpdu(&write(buffer.stag, to, &octets));
        model[offset..offset + len].copy_from_slice(&octets);
        let ids = &["5040-5.1-5", "5041-4.1-1", "5041-4.2-11"];
        expect_content(trial, ids, &mut stream, (&buffer, &model, 1 + u32::from(low(index))))?;
    }
    stream.send_ulpdu(&write(buffer.stag, buffer.to, &[]));
    expect_content(trial, &["5040-5.1-9"], &mut stream, (&buffer, &model, 7))?;
    stream.send_ulpdu(&write(u32::MAX, u64::MAX, &[]));
    expect_content(trial, &["5041-5.2-10"], &mut stream, (&buffer, &model, 8))?;
    // The target's ULP was told nothing of these Writes. So the ping goes on, with the written octets.
    client.content = model;
    client.advertise(&mut stream, client.sink);
    let written = client.take_writes(trial, &mut stream);
    let is_right = matches!(&written, Ok(written) if written.content.as_ref() == Some(&client.content));
    let words = ("a ping that goes on and sends back what was written", "something else");
    trial.judge(&["5040-5.1-2"], &stream, is_right, words);
    Ok(())
}

/// A Read of the whole buffer has to return `model`.
fn expect_content(
    trial: &mut Trial<'_>,
    ids: &[&'static str],
    stream: &mut Stream,
    (buffer, model, msn): (&Advertisement, &[u8], u32),
) -> Result<(), Stop> {
    let size = u32::try_from(model.len()).unwrap_or(u32::MAX);
    stream.send_ulpdu(&read_request(msn, Place(1, 0), size, buffer.place(0)));
    let fpdu = trial.expect_fpdu(ids, stream, "a Read Response with what was written")?;
    let is_right = fpdu.ulpdu.get(14..) == Some(model);
    let observed = digits(&fpdu.ulpdu, 80);
    trial.need(ids, stream, is_right, (format!("a Read Response with {}", digits(model, 80)), observed))
}

fn write_then_read(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let buffer = Client::new(64).learn_buffer(trial, &mut stream)?;
    for msn in 1..=64_u32 {
        let octets = [msn.to_be_bytes(), (!msn).to_be_bytes()].concat();
        let place = buffer.place(u64::from(msn % 50));
        // Both in one segment, so that they arrive together.
        let written = stream.outgoing.fpdu(&write(place.0, place.1, &octets));
        let read = stream.outgoing.fpdu(&read_request(msn, Place(1, 0), 8, place));
        stream.send(&[written, read].concat());
        let ids = &["5040-5.5-7", "5040-5.5-13"];
        let fpdu = trial.expect_fpdu(ids, &mut stream, "a Read Response")?;
        let is_right = fpdu.ulpdu.get(14..) == Some(&octets[..]);
        let words = (format!("a Read Response with {}", digits(&octets, 8)), digits(&fpdu.ulpdu, 40));
        trial.need(ids, &stream, is_right, words)?;
    }
    Ok(())
}

const fn low(i: usize) -> u8 {
    i.to_le_bytes()[0]
}
