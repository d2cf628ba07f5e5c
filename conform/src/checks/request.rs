//! Octets that are no Request, and Requests of other revisions (RFC 5044 sections 7.1 and 8).

use std::time::Duration;

use crate::check::Check;
use crate::finding::Stop;
use crate::probe::{echo, is_no_room, shown};
use crate::startup::{C, M, R, REPLY_KEY, REQUEST_KEY, Request};
use crate::stream::Missing;
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "wrong-key",
        title: "frames with a key that is wrong in one octet",
        ids: &["5044-7.1.1-2", "5044-7.1.2-4", "5044-7.1.2-16", "5044-8-4", "5044-8-9"],
        run: wrong_key,
    },
    Check {
        name: "reply-as-request",
        title: "a Reply instead of a Request, as if both sides were Responders",
        ids: &["5044-7.1.1-2", "5044-7.1.2-16", "5044-7.1.2-20"],
        run: reply_as_request,
    },
    Check {
        name: "private-data-too-long",
        title: "PD_Length over 512, with the octets and without",
        ids: &["5044-7.1.1-21", "5044-7.1.2-4", "5044-7.1.2-22", "5044-7.1.2-25", "5044-8-4", "5044-8-9"],
        run: private_data_too_long,
    },
    Check {
        name: "unknown-revision",
        title: "Requests of revisions 3 and 255",
        ids: &["5044-7.1.1-17", "5044-7.1.1-18"],
        run: unknown_revision,
    },
    Check {
        name: "revision-0",
        title: "a Request of revision 0, whose sender knows other DDP and RDMAP versions",
        ids: &["5044-7.1.1-18"],
        run: revision_0,
    },
];

/// Checks after which some targets no longer listen.
pub(super) const LAST: &[Check] = &[Check {
    name: "request-cut-short",
    title: "Requests that end before they are whole",
    ids: &["5044-7.1.1-21", "5044-7.1.2-3", "5044-7.1.2-4", "5044-7.1.2-25"],
    run: request_cut_short,
}];

fn wrong_key(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let closed = &["5044-7.1.1-2", "5044-7.1.2-4", "5044-7.1.2-16", "5044-8-4", "5044-8-9"];
    for (at, change) in [(0, 0x20), (7, 0x01), (10, 0x10), (15, 0x80)] {
        let mut key = *REQUEST_KEY;
        key[at] ^= change;
        trial.expect_refusal(closed, &Request { key, ..Request::plain() }.emit())?;
    }
    trial.expect_refusal(closed, b"GET / HTTP/1.1\r\nHost: rdma\r\n\r\n")
}

fn reply_as_request(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let closed = &["5044-7.1.1-2", "5044-7.1.2-16", "5044-7.1.2-20"];
    trial.expect_refusal(closed, &Request { key: *REPLY_KEY, ..Request::plain() }.emit())
}

fn private_data_too_long(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let closed = &["5044-7.1.1-21", "5044-7.1.2-4", "5044-7.1.2-22", "5044-7.1.2-25", "5044-8-4"];
    let whole = Request::plain().with_private_data(&[0x5A; 513]);
    trial.expect_refusal(closed, &whole.emit())?;
    // The length field alone shows that the frame is wrong. The target needs to wait for no more octets and no timer.
    let at_once = &["5044-7.1.2-22", "5044-8-9"];
    for len in [0x0201, 0xFFFF] {
        trial.expect_refusal(at_once, &Request { length: Some(len), ..Request::plain() }.emit())?;
    }
    Ok(())
}

/// Linux siw 6.1 takes no connection after the first of these Requests. That ends the check, and is not a finding.
fn request_cut_short(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let request = Request::plain().with_private_data(b"data").emit();
    let short: &[&str] = &["5044-7.1.2-3", "5044-7.1.2-4"];
    let mismatch: &[&str] = &["5044-7.1.1-21", "5044-7.1.2-3", "5044-7.1.2-4", "5044-7.1.2-25"];
    let mut is_first = true;
    for (len, ids) in [(22, mismatch), (20, mismatch), (19, short), (16, short), (1, short)] {
        let mut stream = match trial.dial() {
            Err(Stop::Gone(_)) if !is_first => return Err(Stop::Judged),
            stream => stream?,
        };
        is_first = false;
        stream.send(&request[..len]);
        stream.finish();
        // A target may leave that to its timer.
        let (octets, end) = stream.listen(TIMER);
        trial.judge_close(ids, &stream, &octets, end);
    }
    Ok(())
}

/// No version of MPA has these numbers, so that no target can work with them. By RFC 5044's appendix C.2.1 a
/// Responder sends a Reply of its own revision before it closes.
fn unknown_revision(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let closed = &["5044-7.1.1-17", "5044-7.1.1-18"];
    for revision in [3, 255] {
        let mut stream = trial.dial()?;
        stream.send(&Request { revision, ..Request::plain() }.emit());
        let reply = trial.read_reply(&mut stream);
        let (octets, end) = stream.read_to_end();
        let answer = reply.map_or_else(|_| "no Reply".to_owned(), |reply| format!("a Reply ({reply})"));
        let observed = format!("{answer}, {} octets and {end}", octets.len());
        let is_right = octets.is_empty() && end != Missing::Silence;
        trial.judge(closed, &stream, is_right, ("the end of the connection", observed));
    }
    Ok(())
}

/// Revision 0 implies version 0 of DDP and RDMAP, and Markers in both directions (RFC 5044 appendix C). A target that
/// can do that sends a Reply of revision 0 with M=1. Every other target has to close. A connection that goes on in
/// version 1 is neither.
fn revision_0(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5044-7.1.1-18"];
    let request = Request { revision: 0, flags: C, ..Request::plain() };
    let mut stream = trial.dial()?;
    stream.send(&request.emit());
    let expected = "the end of the connection, or a Reply of revision 0 with M=1";
    let reply = match trial.read_reply(&mut stream) {
        Ok(reply) => reply,
        Err(Missing::Silence) => return Err(trial.fail(ids, &stream, expected, Missing::Silence)),
        Err(end) => {
            trial.judge(ids, &stream, true, (expected, end));
            return Ok(());
        }
    };
    if reply.has(R) || (reply.revision == 0 && reply.has(M)) {
        trial.judge(ids, &stream, true, (expected, &reply));
        return Ok(());
    }
    trial.enter(&mut stream, &request, &reply);
    match echo(&mut stream, 1) {
        Ok(fpdu) => {
            let is_right = Terminate::parse(&fpdu.ulpdu).is_some() && !is_no_room(&fpdu);
            trial.judge(ids, &stream, is_right, (expected, format!("{reply}, then {}", shown(&fpdu))));
        }
        Err(Missing::Silence) => return Err(trial.fail(ids, &stream, expected, Missing::Silence)),
        Err(end) => trial.judge(ids, &stream, true, (expected, end)),
    }
    Ok(())
}

/// Longer than the timers of most targets. siw's limit for a whole Request is 5 s after its first octet.
const TIMER: Duration = Duration::from_secs(15);
