//! Markers in what the target sends (RFC 5044 section 4.3). A target has to insert them if the Request asks for them.

use super::fpdus::with_markers;
use crate::check::Check;
use crate::finding::Stop;
use crate::octets::digits;
use crate::octets::tagged;
use crate::ping::{Client, Ping, text};
use crate::probe::{PROBE_STAG, shown, zero_read};
use crate::startup::{HEADER_LEN, R, Reply};
use crate::stream::{Fpdu, Stream};
use crate::survey::Survey;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "markers-sent",
        title: "130 small FPDUs with Markers before, in and between them",
        ids: SMALL,
        run: small,
    },
    Check {
        name: "markers-in-large-fpdus",
        title: "Writes of a ping of 4096 octets, with several Markers in one FPDU",
        ids: LARGE,
        run: large,
    },
    Check {
        name: "markers-and-padding",
        title: "pings with Markers, one of them between padding and CRC",
        ids: &["5044-4.2-5", "5044-4.3-1", "5044-4.4-15"],
        run: padding,
    },
];

const SMALL: &[&str] = &[
    "5044-4.1-2",
    "5044-4.2-1",
    "5044-4.2-2",
    "5044-4.2-4",
    "5044-4.2-5",
    "5044-4.3-1",
    "5044-4.3-3",
    "5044-4.3-4",
    "5044-4.3-5",
    "5044-4.3-7",
    "5044-4.3-8",
    "5044-4.3-9",
    "5044-4.3-10",
    "5044-4.3-12",
    "5044-4.4-14",
    "5044-4.4-15",
    "5044-4.4-16",
    "5044-7.1-5",
];

/// Answers of 20 octets. The second Marker is inside an FPDU, the third before a CRC, and the sixth between two
/// FPDUs.
fn small(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, reply) = begin(trial)?;
    let mut survey = Survey::default();
    for msn in 1..=ENOUGH {
        stream.send_ulpdu(&zero_read(msn));
        let place = stream.incoming.position.unwrap_or_default();
        let what = format!("the answer to Read {msn} at octet {place}, with Markers at multiples of 512");
        let answer = stream.read_fpdu();
        let is_mute = stream.record().1.len() == end_of(&reply);
        if msn == 1 {
            judge_first(trial, &stream, &reply)?;
        }
        let lost: &[&str] = if is_mute { &["5044-4.3-3"] } else { MISPLACED };
        let fpdu = answer.map_err(|missing| trial.fail(lost, &stream, &what, missing))?;
        if fpdu.ulpdu != tagged("C142", PROBE_STAG, msn.into(), &[]) {
            if fpdu.markers.iter().all(|marker| marker.distance == 0) && msn == 1 {
                return Err(Stop::Unsuited(format!("a Read is answered in another way: {}", shown(&fpdu))));
            }
            // True if ULPDU_Length wrongly counts the Markers inside.
            let is_counted = fpdu.ulpdu.len() == 14 + 4 * inner(&fpdu) && inner(&fpdu) > 0;
            let ids = if is_counted { &["5044-4.1-2"] } else { MISPLACED };
            trial.judge(ids, &stream, false, (&what, shown(&fpdu)));
            return Err(Stop::Judged);
        }
        note_markers(&mut survey, &fpdu);
        note_sum(&mut survey, &fpdu);
    }
    survey.judge(trial, &stream, SMALL);
    Ok(())
}

const MISPLACED: &[&str] = &["5044-4.3-4", "5044-4.3-10"];

const LARGE: &[&str] = &["5044-4.2-2", "5044-4.2-4", "5044-4.3-1", "5044-4.3-5", "5044-4.3-11"];

fn large(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, _) = trial.open_with(&with_markers(trial))?;
    let client = &mut Client::new(4096);
    let ping = client.ping(trial, &mut stream)?;
    if !ping.written.writes.iter().any(|fpdu| inner(fpdu) > 1) {
        return Err(Stop::Unsuited("the target's FPDUs are too short to have two Markers".to_owned()));
    }
    need_content(client, &ping)?;
    let mut survey = Survey::default();
    for fpdu in &ping.written.writes {
        note_markers(&mut survey, fpdu);
        note_sum(&mut survey, fpdu);
        let starts = fpdu.markers.iter().all(|marker| usize::from(marker.pointer) == marker.distance);
        let expected = "Markers that all point to the length field of their FPDU";
        survey.note(&["5044-4.3-11"], starts, expected, markers(fpdu));
    }
    survey.judge(trial, &stream, LARGE);
    Ok(())
}

fn padding(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, _) = trial.open_with(&with_markers(trial))?;
    let mut client = Client::new(64);
    client.ping(trial, &mut stream)?;
    let mut survey = Survey::default();
    let mut is_seen = false;
    for _ in 0..PINGS {
        // A Read Request and a Send go before the Write: 92 octets, if there is no Marker in them.
        let place = stream.incoming.position.unwrap_or_default();
        let room = 512 - place % 512;
        let fits = (44..=80).contains(&room.saturating_sub(92));
        client.content = text(if fits { room - 92 - 17 } else { 64 });
        let ping = client.ping(trial, &mut stream)?;
        need_content(&client, &ping)?;
        for fpdu in &ping.written.writes {
            note_markers(&mut survey, fpdu);
            note_sum(&mut survey, fpdu);
            is_seen |= !fpdu.pad.is_empty() && is_before_crc(fpdu);
        }
        if is_seen {
            survey.judge(trial, &stream, &["5044-4.2-5", "5044-4.3-1", "5044-4.4-15"]);
            return Ok(());
        }
    }
    Err(Stop::Unsuited("no Marker came between padding and CRC".to_owned()))
}

/// Opens a stream with Markers. The target has just accepted a Request without M=1, so that only M=1 can explain a
/// rejection.
fn begin(trial: &mut Trial<'_>) -> Result<(Stream, Reply), Stop> {
    let able = &["5044-4.3-3"];
    drop(trial.open()?);
    let request = with_markers(trial);
    let (mut stream, reply) = trial.ask(able, &request)?;
    let words = ("a Reply with R=0 to a Request with M=1", &reply);
    trial.judge(able, &stream, !reply.has(R), words);
    if reply.has(R) {
        return Err(Stop::Unsuited("the target rejects a Request with M=1".to_owned()));
    }
    trial.enter(&mut stream, &request, &reply);
    Ok((stream, reply))
}

/// The four octets behind the Reply have to be a Marker with any content, and the length field of an answer has to
/// follow.
fn judge_first(trial: &mut Trial<'_>, stream: &Stream, reply: &Reply) -> Result<(), Stop> {
    let ids = &["5044-4.3-3", "5044-4.3-9", "5044-7.1-5"];
    let Some(octets) = stream.record().1.get(end_of(reply)..).filter(|octets| octets.len() >= 6) else {
        return Ok(());
    };
    let is_right = octets[4..6] == [0x00, 0x0E];
    let words = ("a Marker as the first four octets, and ULPDU_Length 000E behind it", digits(octets, 32));
    trial.judge(ids, stream, is_right, words);
    if is_right { Ok(()) } else { Err(Stop::Judged) }
}

/// Octets that differ mean that Markers are in wrong places. Another check reports that.
fn need_content(client: &Client, ping: &Ping) -> Result<(), Stop> {
    if ping.written.content.as_ref() == Some(&client.content) {
        return Ok(());
    }
    Err(Stop::Unsuited("the target's Writes cannot be read with Markers".to_owned()))
}

fn end_of(reply: &Reply) -> usize {
    HEADER_LEN + reply.private_data.len()
}

fn note_markers(survey: &mut Survey, fpdu: &Fpdu) {
    for marker in &fpdu.markers {
        let (pointer, distance) = (usize::from(marker.pointer), marker.distance);
        let observed = format!("reserved {:04X}, FPDUPTR {pointer:04X}", marker.reserved);
        let is_right = pointer == distance;
        let expected = format!("FPDUPTR {distance:04X}");
        let zero = ["5044-4.2-1", "5044-4.2-2"];
        survey.note(&zero, marker.reserved == 0, "reserved octets 0000", &observed);
        survey.note(&["5044-4.2-5"], pointer % 4 == 0, "two low bits of zero", &observed);
        survey.note(&["5044-4.2-1", "5044-4.2-4", "5044-4.3-5"], is_right, &expected, &observed);
        let of_its_kind = if distance == 0 { "5044-4.3-7" } else { "5044-4.3-12" };
        survey.note(&[of_its_kind], is_right, &expected, &observed);
    }
}

/// Notes the CRC under the requirements for the FPDU's Markers.
fn note_sum(survey: &mut Survey, fpdu: &Fpdu) {
    if fpdu.markers.is_empty() {
        survey.note_crc(&["5044-4.4-14"], fpdu);
        return;
    }
    survey.note_crc(&["5044-4.3-1"], fpdu);
    if fpdu.markers[0].distance == 0 {
        survey.note_crc(&["5044-4.3-8", "5044-4.4-16"], fpdu);
    }
    if is_before_crc(fpdu) {
        survey.note_crc(&["5044-4.4-15"], fpdu);
    } else if fpdu.markers[0].distance != 0 {
        survey.note_crc(&["5044-4.4-14"], fpdu);
    }
}

/// Returns true if a Marker stands directly before the CRC field.
fn is_before_crc(fpdu: &Fpdu) -> bool {
    let start = if fpdu.markers.first().is_some_and(|marker| marker.distance == 0) { 4 } else { 0 };
    fpdu.markers.last().is_some_and(|marker| start + marker.distance + 8 == fpdu.raw.len())
}

/// Returns the number of Markers that are not before the FPDU.
fn inner(fpdu: &Fpdu) -> usize {
    fpdu.markers.iter().filter(|marker| marker.distance != 0).count()
}

fn markers(fpdu: &Fpdu) -> String {
    let pairs =
        fpdu.markers.iter().map(|marker| format!("{:04X} at {:04X}", marker.pointer, marker.distance));
    pairs.collect::<Vec<_>>().join(", ")
}

/// 127 FPDUs of 20 octets fill five intervals of 508: a Marker stands between this one and the next.
const ENOUGH: u32 = 130;
const PINGS: usize = 60;
