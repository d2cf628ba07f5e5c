//! The tester ends the connection (RFC 5041 section 6.2, RFC 5040 section 6.2).

use crate::check::Check;
use crate::fault::found;
use crate::finding::Stop;
use crate::octets::{pattern, send_part};
use crate::ping::Client;
use crate::probe::{is_zero_response, zero_read};
use crate::startup::Request;
use crate::stream::{Missing, Stream};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "fin",
        title: "FIN between two messages is answered by FIN, with nothing before: after startup, a Read, and a ping",
        ids: &["5041-6.2.1-5", "5041-6.2.1-6", "5041-3-13", "5040-7-3"],
        run: fin,
    },
    Check {
        name: "fin-inside-message",
        title: "FIN inside of a message ends the connection, and the target takes the next one",
        ids: &["5041-3-13", "5040-7-3"],
        run: fin_inside,
    },
];

fn fin(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let stream = trial.open()?;
    expect_fin(trial, stream);
    let (stream, _) = trial.open_with(&Request::plain())?;
    expect_fin(trial, stream);
    let mut stream = trial.open()?;
    stream.send_ulpdu(&zero_read(1));
    let answer = stream.read_fpdu();
    if !answer.as_ref().is_ok_and(is_zero_response) {
        if let Err(missing) = answer {
            trial.note(missing);
        }
        return Err(Stop::Unsuited(format!("a zero-length Read is answered by {}", found(&answer))));
    }
    expect_fin(trial, stream);
    let mut stream = trial.open()?;
    Client::new(64).ping(trial, &mut stream)?;
    expect_fin(trial, stream);
    Ok(())
}

fn expect_fin(trial: &mut Trial<'_>, mut stream: Stream) {
    stream.finish();
    let (octets, end) = stream.read_to_end();
    trial.note(end);
    let observed = format!("{} octets and {end}", octets.len());
    let is_over = octets.is_empty() && end != Missing::Silence;
    let over = &["5041-6.2.1-5", "5041-3-13", "5040-7-3"];
    trial.judge(over, &stream, is_over, ("the end of the connection and no octet before", &observed));
    trial.judge(&["5041-6.2.1-6"], &stream, end == Missing::Fin, ("FIN", observed));
}

/// Inside of a Send, between two segments; and inside of an FPDU.
fn fin_inside(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for cut in [0, 7] {
        let mut stream = trial.open()?;
        let fpdu = stream.outgoing.fpdu(&send_part("01", 1, 0, &pattern(8)));
        stream.send(&fpdu[..fpdu.len() - cut]);
        stream.finish();
        let ids = &["5041-3-13", "5040-7-3"];
        let end = match stream.read_fpdu() {
            // This may be a Terminate, and the end still follows.
            Ok(_) => stream.read_to_end().1,
            Err(missing) => missing,
        };
        trial.note(end);
        trial.judge(ids, &stream, end != Missing::Silence, ("the end of the connection", end));
    }
    Ok(())
}
