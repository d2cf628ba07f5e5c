//! The Request and the Reply (RFC 5044 section 7.1), and when the Responder may send.

use std::time::Duration;

use crate::check::Check;
use crate::finding::Stop;
use crate::octets::{fpdu, number, pattern};
use crate::probe::{echo, is_no_room, is_zero_response, shown, spoilt, zero_read};
use crate::startup::{C, HEADER_LEN, M, MAX_PRIVATE_DATA, R, REPLY_KEY, Request, S};
use crate::stream::{Missing, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "plain-startup",
        title: "a Request of revision 1 is answered by a Reply of revision 1, and nothing is sent before the first FPDU",
        ids: &[
            "5044-7.1-5",
            "5044-7.1.1-3",
            "5044-7.1.1-13",
            "5044-7.1.1-14",
            "5044-7.1.1-16",
            "5044-7.1.1-20",
            "5044-7.1.1-23",
            "5044-7.1.2-8",
            "5044-7.1.2-10",
            "5044-7.1.2-15",
            "6581-6-6",
            "6581-10-2",
            "6581-10-4",
        ],
        run: plain_startup,
    },
    Check {
        name: "request-in-parts",
        title: "the target sends nothing before a Request that comes octet by octet is whole",
        ids: &["5044-7.1.2-3", "5044-7.1.2-8"],
        run: request_in_parts,
    },
    Check {
        name: "private-data-sizes",
        title: "Requests with 1 to 512 octets of private data, and FPDUs behind them",
        ids: &["5044-7.1.2-8", "5044-7.1.2-23", "5044-7.1.2-24"],
        run: private_data_sizes,
    },
    Check {
        name: "request-and-fpdu-at-once",
        title: "an FPDU right behind the Request is no private data",
        ids: &["5044-7.1.2-24"],
        run: request_and_fpdu,
    },
    Check {
        name: "first-fpdu-bad",
        title: "a first FPDU with a wrong CRC does not let the target send",
        ids: &["5044-7.1.2-15"],
        run: first_fpdu_bad,
    },
    Check {
        name: "request-reserved-bits",
        title: "a Request of revision 1 with all reserved bits",
        ids: &["5044-7.1.1-14", "5044-7.1.1-15"],
        run: reserved_bits,
    },
    Check {
        name: "request-reject-bit",
        title: "a Request with R=1",
        ids: &["5044-7.1.1-12"],
        run: reject_bit,
    },
];

fn plain_startup(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let accepted = &["5044-7.1.1-13", "5044-7.1.2-8", "6581-6-6", "6581-10-4"];
    let request = Request::plain();
    let mut stream = trial.dial()?;
    stream.send(&request.emit());
    let reply = trial.read_reply(&mut stream).map_err(|missing| {
        if stream.record().1.len() < HEADER_LEN {
            return trial.fail(accepted, &stream, "a Reply", missing);
        }
        judge_length(trial, &stream);
        trial.fail(&["5044-7.1.1-20"], &stream, "as much private data as PD_Length says", missing)
    })?;
    trial.judge(&["5044-7.1.1-3"], &stream, reply.key == *REPLY_KEY, ("the key of a Reply", &reply));
    let reserved = reply.flags & !(M | C | R);
    trial.judge(&["5044-7.1.1-14"], &stream, reserved == 0, ("reserved bits of zero", &reply));
    trial.judge(&["5044-7.1.1-16"], &stream, reply.revision == 1, ("revision 1", &reply));
    trial.judge(&["6581-10-2"], &stream, !reply.has(S), ("an unenhanced Reply, S=0", &reply));
    let is_right = judge_length(trial, &stream);
    trial.judge(accepted, &stream, !reply.has(R), ("a Reply with R=0", &reply));
    if reply.has(R) || !is_right {
        return Err(Stop::Judged);
    }
    trial.enter(&mut stream, &request, &reply);
    let frame = &["5044-7.1-5", "5044-7.1.1-20"];
    let (octets, end) = stream.listen(QUIET);
    if end != Missing::Silence {
        return Err(Stop::Unsuited(format!("the target ends the connection by {end} after its Reply")));
    }
    // Octets here are FPDUs that come too early, or the Reply is longer than PD_Length says.
    let is_quiet = octets.is_empty();
    let observed = format!("{} octets", octets.len());
    trial.judge(&["5044-7.1.2-15"], &stream, is_quiet, ("silence until the first FPDU", &observed));
    if !is_quiet && !is_framed(&octets) {
        trial.judge(frame, &stream, false, ("nothing behind the octets that PD_Length counts", &observed));
    }
    if !is_quiet {
        return Err(Stop::Judged);
    }
    let alive = &["5044-7.1-5", "5044-7.1.1-13", "5044-7.1.1-20", "5044-7.1.2-10"];
    trial.expect_understood(alive, &mut stream)
}

/// Silence has to follow no octets, half of a Request, and all octets but the last.
fn request_in_parts(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let request = Request::plain().with_private_data(b"in parts");
    let octets = request.emit();
    let mut stream = trial.dial()?;
    let (early, _) = stream.listen(QUIET);
    let (most, last) = octets.split_at(octets.len() - 1);
    for octet in most {
        stream.send(&[*octet]);
    }
    let (late, end) = stream.listen(QUIET);
    let is_right = early.is_empty() && late.is_empty();
    let observed = format!("{} octets, and {} behind most of the Request", early.len(), late.len());
    trial.judge(&["5044-7.1.2-3"], &stream, is_right, ("silence until the Request is whole", observed));
    if !is_right {
        return Err(Stop::Judged);
    }
    let accepted = &["5044-7.1.2-8"];
    if end != Missing::Silence {
        return Err(trial.fail(accepted, &stream, "a Reply to a Request that comes octet by octet", end));
    }
    stream.send(last);
    let reply = trial
        .read_reply(&mut stream)
        .map_err(|missing| trial.fail(accepted, &stream, "a Reply to the whole Request", missing))?;
    trial.judge(accepted, &stream, !reply.has(R), ("a Reply with R=0", &reply));
    if reply.has(R) {
        return Err(Stop::Judged);
    }
    trial.enter(&mut stream, &request, &reply);
    trial.expect_understood(accepted, &mut stream)
}

/// A target that refuses much private data as too much for its buffer takes smaller sizes.
fn private_data_sizes(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let small: &[&str] = &["5044-7.1.2-8", "5044-7.1.2-24"];
    for (len, ids) in
        [(1, small), (4, small), (200, small), (511, &["5044-7.1.2-23"]), (512, &["5044-7.1.2-23"])]
    {
        let request = Request::plain().with_private_data(&pattern(len));
        let (mut stream, _) = trial.ask_in(ids, &request)?;
        trial.expect_understood(ids, &mut stream)?;
    }
    Ok(())
}

/// An Initiator has to wait for the Reply. So a target may refuse this, but a target that goes on must not lose
/// octets.
fn request_and_fpdu(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5044-7.1.2-24"];
    let request = Request::plain().with_private_data(b"data");
    let mut stream = trial.dial()?;
    stream.send(&[request.emit(), fpdu(&zero_read(1))].concat());
    let unsuited =
        |missing: Missing| Stop::Unsuited(format!("{missing} after a Request with an FPDU behind it"));
    let reply = trial.read_reply(&mut stream).map_err(unsuited)?;
    if reply.has(R) || reply.has(M) {
        return Err(Stop::Unsuited(format!("not accepted with an FPDU behind it: {reply}")));
    }
    trial.enter(&mut stream, &request, &reply);
    let answer = match stream.read_fpdu() {
        // A target that was not ready for FPDUs yet reacts to the next one.
        Err(Missing::Silence) => echo(&mut stream, 2),
        answer => answer,
    };
    let expected = "the FPDU behind the Request answered, or the end of the connection";
    match answer {
        Ok(fpdu) => {
            trial.judge(ids, &stream, is_zero_response(&fpdu) || is_no_room(&fpdu), (expected, shown(&fpdu)))
        }
        Err(Missing::Silence) => return Err(trial.fail(ids, &stream, expected, Missing::Silence)),
        Err(end) => return Err(unsuited(end)),
    }
    Ok(())
}

/// A Terminate is an FPDU too, but RFC 5040 wants a Terminate for a wrong CRC. So both reactions are right.
fn first_fpdu_bad(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let bad = spoilt(stream.outgoing.fpdu(&zero_read(1)));
    stream.send(&bad);
    let result = stream.read_fpdu();
    let is_right = result.as_ref().map_or(true, |fpdu| Terminate::parse(&fpdu.ulpdu).is_some());
    let observed = result.map_or_else(|missing| missing.to_string(), |fpdu| shown(&fpdu));
    let expected = "no FPDU but a Terminate before one of the tester was right";
    trial.judge(&["5044-7.1.2-15"], &stream, is_right, (expected, observed));
    Ok(())
}

/// In revision 1, S is a reserved bit (RFC 6581 section 6).
fn reserved_bits(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ignored = &["5044-7.1.1-15"];
    let request = Request { flags: C | 0x1F, ..Request::plain() };
    let (mut stream, reply) = trial.ask_in(ignored, &request)?;
    let reserved = reply.flags & !(M | C | R);
    trial.judge(&["5044-7.1.1-14"], &stream, reserved == 0, ("reserved bits of zero", &reply));
    trial.expect_understood(ignored, &mut stream)
}

fn reject_bit(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ignored = &["5044-7.1.1-12"];
    let request = Request { flags: C | R, ..Request::plain() };
    let (mut stream, _) = trial.ask_in(ignored, &request)?;
    trial.expect_understood(ignored, &mut stream)
}

/// Judges PD_Length of the Reply, and returns whether it is valid.
fn judge_length(trial: &mut Trial<'_>, stream: &Stream) -> bool {
    let len = stream.record().1.get(HEADER_LEN - 2..HEADER_LEN).map_or(0, number);
    let is_right = len <= MAX_PRIVATE_DATA;
    trial.judge(&["5044-7.1.1-23"], stream, is_right, ("512 octets of private data at most", len));
    is_right
}

/// Returns true if the octets begin with a whole FPDU without Markers.
fn is_framed(octets: &[u8]) -> bool {
    let Some((head, rest)) = octets.split_at_checked(2) else { return false };
    let len = (2 + number(head)).next_multiple_of(4) + 2;
    rest.len() >= len
}

const QUIET: Duration = Duration::from_millis(300);
