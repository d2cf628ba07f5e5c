//! The FPDUs that the target sends: layout, padding, CRC and size (RFC 5044 sections 3, 4 and 5).

use crate::check::Check;
use crate::finding::Stop;
use crate::ping::{Client, Ping, text};
use crate::probe::{is_zero_response, shown, zero_read};
use crate::segment::{Header, Segment};
use crate::startup::{M, Request};
use crate::stream::{Fpdu, Stream};
use crate::survey::{Reaction, Survey, mulpdu, reaction};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "fpdu-layout",
        title: "answers to three zero-length Reads, which are FPDUs of 20 octets with a good CRC",
        ids: LAYOUT_AND_CRC,
        run: layout,
    },
    Check {
        name: "padding-sent",
        title: "Writes of 61 to 64 octets, which need 0 to 3 pad octets of zero",
        ids: &["5044-4.1-2", "5044-4.1-3", "5044-4.1-4", "5044-4.4-14"],
        run: padding_sent,
    },
    Check {
        name: "one-ulpdu-each",
        title: "a message of 16384 octets: each FPDU has one DDP segment",
        ids: &["5044-3-1", "5044-4.4-17", "5044-C.1-1"],
        run: one_ulpdu_each,
    },
    Check {
        name: "fpdu-size",
        title: "a message of 16384 octets: FPDUs fit TCP segments and fill them",
        ids: SIZE,
        run: size,
    },
    Check {
        name: "fpdu-size-with-markers",
        title: "the same with Markers, which leave less room",
        ids: SIZE,
        run: size_with_markers,
    },
    Check {
        name: "other-version",
        title: "a segment of DDP version 0 on a stream of version 1",
        ids: &["5044-C.1-1"],
        run: other_version,
    },
];

const LAYOUT_AND_CRC: &[&str] =
    &["5044-4.1-1", "5044-4.1-2", "5044-4.4-1", "5044-4.4-12", "5044-4.4-13", "5044-4.4-14", "5044-4.4-17"];

fn layout(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let framed: &[&str] = &["5044-4.1-1", "5044-4.1-2", "5044-4.4-12"];
    let summed = &["5044-4.4-1", "5044-4.4-13", "5044-4.4-14", "5044-4.4-17"];
    let mut stream = trial.open()?;
    let mut survey = Survey::default();
    for msn in 1..=3 {
        stream.send_ulpdu(&zero_read(msn));
        let what = "an FPDU with ULPDU_Length 000E, a Read Response of zero length, and a CRC field";
        let Reaction::Fpdu(fpdu) = reaction(trial, framed, &mut stream, what)? else {
            return Err(Stop::Unsuited("the target does not answer a zero-length Read".to_owned()));
        };
        survey.note(framed, is_zero_response(&fpdu), what, shown(&fpdu));
        if !is_zero_response(&fpdu) {
            survey.judge(trial, &stream, framed);
            return Err(Stop::Judged);
        }
        survey.note_crc(summed, &fpdu);
    }
    survey.judge(trial, &stream, LAYOUT_AND_CRC);
    Ok(())
}

/// The next FPDU, the Send behind the Writes, shows where the Write's FPDU ended. Another check judges what the
/// target makes of the tester's padding. So the octets may be wrong here, but not their number.
fn padding_sent(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let framed = &["5044-4.1-2", "5044-4.1-3"];
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    client.ping(trial, &mut stream)?;
    let mut survey = Survey::default();
    for size in 61..=64 {
        client.content = text(size);
        client.until_go_ahead(trial, &mut stream)?;
        client.advertise(&mut stream, client.sink);
        let expected = format!("Writes of {size} octets, padded to a multiple of four, and a Send");
        let written = match client.take_writes(trial, &mut stream) {
            Err(Stop::Unsuited(reason)) => {
                trial.judge(framed, &stream, false, (expected, reason));
                return Err(Stop::Judged);
            }
            other => other?,
        };
        let is_right = written.content.is_some();
        trial.judge(framed, &stream, is_right, (expected, "more octets, or fewer, or some of them twice"));
        for fpdu in &written.writes {
            let is_right = fpdu.pad.iter().all(|&octet| octet == 0);
            survey.note(&["5044-4.1-4"], is_right, "pad octets of zero", format!("{:02X?}", fpdu.pad));
            survey.note_crc(&["5044-4.4-14"], fpdu);
        }
    }
    survey.judge(trial, &stream, &["5044-4.1-4", "5044-4.4-14"]);
    Ok(())
}

fn one_ulpdu_each(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(LONG);
    let ping = client.ping(trial, &mut stream)?;
    let mut survey = Survey::default();
    let is_whole = ping.written.content.as_ref() == Some(&client.content);
    let what = "Writes whose segments are all of the message, each in an FPDU of its own";
    survey.note(&["5044-3-1"], is_whole, what, "segments that overlap, leave gaps, or have other octets");
    let mut to = client.sink.1;
    for fpdu in sent(&ping) {
        survey.note_crc(&["5044-4.4-17"], fpdu);
        let Some(segment) = Segment::parse(&fpdu.ulpdu) else { continue };
        let versions = (segment.ddp & 0x03, segment.rdmap >> 6);
        let words = ("DDP and RDMAP of version 1", format!("versions {versions:?}"));
        survey.note(&["5044-C.1-1"], versions == (1, 1), words.0, words.1);
        let Header::Tagged { to: start, .. } = segment.header else { continue };
        survey.note(&["5044-3-1"], start == to, format!("the segment for {to:016X}"), shown(fpdu));
        to = start.wrapping_add(segment.payload.len() as u64);
    }
    survey.judge(trial, &stream, &["5044-3-1", "5044-4.4-17", "5044-C.1-1"]);
    Ok(())
}

const SIZE: &[&str] = &["5044-3-3", "5044-4.5-5", "5044-5.1-1"];

fn size(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let stream = trial.open()?;
    judge_size(trial, stream, false)
}

fn size_with_markers(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (stream, _) = trial.open_with(&with_markers(trial))?;
    judge_size(trial, stream, true)
}

/// MULPDU is an exact upper bound. A target may use less for good reasons, such as a round number or a segment that
/// is filled up. So only a number of FPDUs far above the least one is wrong.
fn judge_size(trial: &mut Trial<'_>, mut stream: Stream, markers: bool) -> Result<(), Stop> {
    let Some(emss) = stream.emss() else {
        let reason = "the size of TCP segments is not known here: run with --netif";
        return Err(Stop::Unsuited(reason.to_owned()));
    };
    let max = mulpdu(emss, markers);
    let ping = Client::new(LONG).ping(trial, &mut stream)?;
    let writes = &ping.written.writes;
    let largest = sent(&ping).map(|fpdu| fpdu.ulpdu.len()).max().unwrap_or_default();
    let expected = format!("ULPDUs of at most {max} octets, as TCP segments have {emss}");
    let words = (expected, format!("one of {largest}"));
    trial.judge(&["5044-3-3", "5044-5.1-1"], &stream, largest <= max, words);
    let enough = LONG.div_ceil(max.saturating_sub(TAGGED_HEADER + SLACK)) + 1;
    let expected = format!("at most {enough} FPDUs for {LONG} octets, as {max} octets of ULPDU fit each");
    let words = (expected, format!("{} FPDUs", writes.len()));
    trial.judge(&["5044-4.5-5", "5044-5.1-1"], &stream, writes.len() <= enough, words);
    Ok(())
}

fn other_version(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5044-C.1-1"];
    let mut stream = trial.open()?;
    trial.expect_alive(&[], &mut stream, 1)?;
    let mut old = zero_read(2);
    old[0] &= !0x03;
    stream.send_ulpdu(&old);
    let expected = "a Terminate or the end of the connection, as the version is another";
    let reaction = reaction(trial, ids, &mut stream, expected)?;
    let is_right = !matches!(reaction, Reaction::Fpdu(_));
    trial.judge(ids, &stream, is_right, (expected, "an answer to the segment"));
    Ok(())
}

/// The best Request, with M=1.
pub(super) fn with_markers(trial: &Trial<'_>) -> Request {
    let best = trial.best_request();
    Request { flags: best.flags | M, ..best }
}

/// Returns all FPDUs of the target in a ping.
fn sent(ping: &Ping) -> impl Iterator<Item = &Fpdu> {
    let behind = std::iter::once(&ping.written.send);
    [&ping.request.fpdu, &ping.go_ahead.fpdu].into_iter().chain(&ping.written.writes).chain(behind)
}

const LONG: usize = 16_384;
const TAGGED_HEADER: usize = 14;
/// The octets by which a ULPDU may be shorter than MULPDU, for example to make its payload a multiple of 8.
const SLACK: usize = 16;
