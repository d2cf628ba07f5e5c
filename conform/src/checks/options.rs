//! Markers and CRCs as the startup frames choose them (RFC 5044 section 7.1.1).

use std::time::Duration;

use crate::check::Check;
use crate::finding::Stop;
use crate::probe::{echo, is_no_room, is_zero_response, shown, spoilt, zero_read};
use crate::startup::{C, M, R, Request};
use crate::stream::{Fpdu, Missing, Stream};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "markers-not-asked",
        title: "without M in the Request the target adds no Markers, also beyond 512 octets",
        ids: &["5044-7.1.1-5", "5044-7.1.1-7", "5044-7.1.2-19"],
        run: markers_not_asked,
    },
    Check {
        name: "markers-asked",
        title: "with M in the Request the target adds Markers, the first before its first FPDU and not earlier",
        ids: &["5044-7.1.1-6", "5044-7.1.1-7", "5044-7.1.2-15", "5044-7.1.2-19"],
        run: markers_asked,
    },
    Check {
        name: "crc-asked",
        title: "with C in the Request CRCs are generated and checked",
        ids: &["5044-7.1.1-9"],
        run: crc_asked,
    },
    Check {
        name: "crc-not-asked",
        title: "without C in the Request the Reply decides whether CRCs are generated and checked",
        ids: &["5044-7.1.1-8", "5044-7.1.1-9", "5044-7.1.1-10"],
        run: crc_not_asked,
    },
];

fn markers_not_asked(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5044-7.1.1-5", "5044-7.1.1-7", "5044-7.1.2-19"];
    let request = trial.best_request();
    let (mut stream, _) = trial.ask_in(ids, &request)?;
    for msn in 1..=ENOUGH {
        // A Marker before or in this FPDU would make it a different FPDU.
        let fpdu = expect_echo(trial, ids, &mut stream, msn)?;
        if msn == ENOUGH {
            trial.judge(ids, &stream, true, ("FPDUs without Markers", shown(&fpdu)));
        }
    }
    Ok(())
}

fn markers_asked(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let marked = &["5044-7.1.1-6"];
    let request = trial.best_request();
    let request = Request { flags: request.flags | M, ..request };
    let (mut stream, reply) = trial.ask(marked, &request)?;
    if reply.has(R) {
        trial.judge(marked, &stream, false, ("Markers, where the Initiator needs them", &reply));
        return Err(Stop::Judged);
    }
    trial.enter(&mut stream, &request, &reply);
    let (octets, end) = stream.listen(QUIET);
    if end != Missing::Silence {
        return Err(Stop::Unsuited(format!("the target ends the connection by {end} after its Reply")));
    }
    let observed = format!("{} octets", octets.len());
    let early = &["5044-7.1.2-15"];
    trial.judge(early, &stream, octets.is_empty(), ("silence until the first FPDU", observed));
    if !octets.is_empty() {
        return Err(Stop::Judged);
    }
    let ids = &["5044-7.1.1-6", "5044-7.1.1-7", "5044-7.1.2-19"];
    for msn in 1..=ENOUGH {
        let fpdu = expect_echo(trial, ids, &mut stream, msn)?;
        let is_first = msn == 1;
        let is_right = fpdu.markers.iter().all(|marker| usize::from(marker.pointer) == marker.distance)
            && (!is_first || fpdu.markers.first().is_some_and(|marker| marker.pointer == 0));
        let observed = format!("{} with {:?}", shown(&fpdu), fpdu.markers);
        let place = if is_first { "before" } else { "where they belong in" };
        trial.judge(ids, &stream, is_right, (format!("Markers {place} the FPDU"), observed));
    }
    Ok(())
}

fn crc_asked(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5044-7.1.1-9"];
    let request = trial.best_request();
    let (mut stream, _) = trial.ask_in(ids, &request)?;
    expect_crc(trial, ids, &mut stream)
}

fn crc_not_asked(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let request = trial.best_request();
    let request = Request { flags: request.flags & !C, ..request };
    let (mut stream, reply) = trial.open_with(&request)?;
    if reply.has(C) {
        trial.leave(
            &["5044-7.1.1-8", "5044-7.1.1-10"],
            "the target asks for CRCs, which is its right (a server without is needed: weft rping --no-crc)",
        );
        return expect_crc(trial, &["5044-7.1.1-9"], &mut stream);
    }
    trial.leave(&["5044-7.1.1-9"], "the target does not ask for CRCs");
    let unchecked = &["5044-7.1.1-8", "5044-7.1.1-10"];
    for msn in 1..=2 {
        let wrong = spoilt(stream.outgoing.fpdu(&zero_read(msn)));
        stream.send(&wrong);
        let what = "the answer to a Read Request, whatever its CRC field";
        let fpdu = trial.expect_fpdu(unchecked, &mut stream, what)?;
        trial.judge(unchecked, &stream, is_zero_response(&fpdu), (what, shown(&fpdu)));
    }
    Ok(())
}

/// CRCs are in use: the target's CRC has to be right, and the target has to notice a wrong one.
fn expect_crc(trial: &mut Trial<'_>, ids: &[&'static str], stream: &mut Stream) -> Result<(), Stop> {
    let fpdu = expect_echo(trial, ids, stream, 1)?;
    let words = (format!("the CRC {:08X}", fpdu.computed_crc()), format!("{:08X}", fpdu.crc));
    trial.judge(ids, stream, fpdu.crc == fpdu.computed_crc(), words);
    trial.expect_crc_check(ids, stream, 2);
    Ok(())
}

/// Sends a zero-length Read. If no answer comes, `ids` are not kept.
fn expect_echo(
    trial: &mut Trial<'_>,
    ids: &[&'static str],
    stream: &mut Stream,
    msn: u32,
) -> Result<Fpdu, Stop> {
    let what = "a Read Response of zero length";
    let fpdu = echo(stream, msn).map_err(|missing| trial.fail(ids, stream, what, missing))?;
    if is_zero_response(&fpdu) {
        return Ok(fpdu);
    }
    if is_no_room(&fpdu) {
        return Err(Stop::Unsuited(format!("the target serves no Reads: {}", shown(&fpdu))));
    }
    trial.judge(ids, stream, false, (what, shown(&fpdu)));
    Err(Stop::Judged)
}

/// So many answers of 20 octets are longer than the distance of two Markers.
const ENOUGH: u32 = 28;
const QUIET: Duration = Duration::from_millis(300);
