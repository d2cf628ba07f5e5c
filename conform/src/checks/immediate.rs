//! Immediate Data (RFC 7306 section 6).
//!
//! It takes the one receive that a server of rping has posted. Most servers then end the connection, as they do after
//! a Send of 8 octets. The checks see only whether the stack below found a fault.

use crate::atomic::is_unknown_opcode;
use crate::check::Check;
use crate::fault::{Fault, Refusal};
use crate::finding::Stop;
use crate::octets::{join, pattern};
use crate::ping::Client;
use crate::probe::{shown, zero_read};
use crate::segment::opcode;
use crate::stream::{Fpdu, Missing, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "immediate",
        title: "Immediate Data of 8 octets, with and without SE, is taken; or answered by Terminate 0/2/06",
        ids: &["7306-1.1-4", "7306-4-1", "7306-6.3-8", "7306-10-1"],
        run: immediate,
    },
    Check {
        name: "immediate-ignored",
        title: "the Invalidate STag and reserved bits of Immediate Data are ignored",
        ids: &["5040-4.1-11", "7306-4.1-4"],
        run: immediate_ignored,
    },
    Check {
        name: "immediate-consumes",
        title: "Immediate Data counts among the messages of queue 0",
        ids: &["7306-6.3-3"],
        run: immediate_consumes,
    },
    Check {
        name: "immediate-length",
        title: "Immediate Data of 0, 7, 9 and 16 octets: a Terminate with the DDP Header",
        ids: &["7306-6.1-3", "7306-6.3-8", "7306-8.1-2"],
        run: immediate_length,
    },
    Check {
        name: "immediate-form",
        title: "Immediate Data on another queue, with another MSN, MO or RV ends the stream",
        ids: &["5040-4.8-3", "7306-4.1-5", "7306-8.2-1", "7306-8.2-2", "7306-8.2-4"],
        run: immediate_form,
    },
];

/// Returns Immediate Data with all octets of `payload`, opcode 8 or 9.
fn data(head: &str, msn: u32, payload: &[u8]) -> Vec<u8> {
    join(head, &[&[0; 8], &msn.to_be_bytes(), &[0; 4], payload])
}

/// How a target takes Immediate Data.
enum Taken {
    /// The target goes on, or its ULP ends the connection.
    Yes,
    /// The target does not know the opcode.
    Unknown(Terminate),
    /// The target finds a fault, or nothing comes.
    No(String),
}

/// Sends Immediate Data and a Read, and returns how the target takes the data. A stack that takes it answers the
/// Read, unless its ULP ends the connection earlier.
fn offer(trial: &mut Trial<'_>, ulpdu: &[u8]) -> Result<(Taken, Stream), Stop> {
    let mut stream = trial.open_alive()?;
    let burst = [stream.outgoing.fpdu(ulpdu), stream.outgoing.fpdu(&zero_read(2))].concat();
    stream.send(&burst);
    let answer = stream.read_fpdu();
    Ok((judge_answer(trial, answer), stream))
}

fn judge_answer(trial: &mut Trial<'_>, answer: Result<Fpdu, Missing>) -> Taken {
    match answer {
        Err(Missing::Silence) => {
            trial.note(Missing::Silence);
            Taken::No("silence".to_owned())
        }
        // The ULP of rping expected another message.
        Err(_) => Taken::Yes,
        Ok(fpdu) => match Terminate::parse(&fpdu.ulpdu) {
            // The target's ULP caused this Terminate. A ULP that ends a stream in the middle may do that.
            Some(terminate) if terminate.code() == LOCAL_CATASTROPHE => Taken::Yes,
            Some(terminate) if is_unknown_opcode(&terminate) => Taken::Unknown(terminate),
            None if fpdu.ulpdu.get(1).is_some_and(|octet| octet & 0x0F == opcode::READ_RESPONSE) => {
                Taken::Yes
            }
            _ => Taken::No(shown(&fpdu)),
        },
    }
}

/// Ends the check as unsuited if the target does not know Immediate Data.
fn need_immediate(trial: &mut Trial<'_>) -> Result<(), Stop> {
    match offer(trial, &data("4148", 1, &pattern(8)))?.0 {
        Taken::Yes => Ok(()),
        Taken::Unknown(terminate) => {
            Err(Stop::Unsuited(format!("the target has no Immediate Data: {terminate}")))
        }
        Taken::No(observed) => {
            Err(Stop::Unsuited(format!("the target does not take Immediate Data: {observed}")))
        }
    }
}

fn immediate(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let all = &["7306-4-1", "7306-6.3-8", "7306-10-1"];
    for head in ["4148", "4149"] {
        let (taken, stream) = offer(trial, &data(head, 1, &pattern(8)))?;
        match taken {
            Taken::Yes => trial.judge(all, &stream, true, ("Immediate Data that is taken", "it is")),
            Taken::No(observed) => {
                trial.judge(all, &stream, false, ("Immediate Data that is taken", observed));
            }
            Taken::Unknown(terminate) => {
                let is_right = terminate.code() == [0x02, 0x06];
                trial.judge(&["7306-1.1-4"], &stream, is_right, ("a Terminate 0206", &terminate));
                trial.leave(all, "the target has no Immediate Data");
            }
        }
    }
    Ok(())
}

fn immediate_ignored(trial: &mut Trial<'_>) -> Result<(), Stop> {
    need_immediate(trial)?;
    let mut with_stag = data("4148", 1, &pattern(8));
    with_stag[2..6].fill(0xFF);
    for (id, ulpdu) in [("7306-4.1-4", with_stag), ("5040-4.1-11", data("4178", 1, &pattern(8)))] {
        let (taken, stream) = offer(trial, &ulpdu)?;
        let (is_right, observed) = match taken {
            Taken::Yes => (true, "it is".to_owned()),
            Taken::Unknown(terminate) => (false, terminate.to_string()),
            Taken::No(observed) => (false, observed),
        };
        trial.judge(&[id], &stream, is_right, ("Immediate Data that is taken", observed));
    }
    Ok(())
}

fn immediate_consumes(trial: &mut Trial<'_>) -> Result<(), Stop> {
    need_immediate(trial)?;
    // A server that is no rping answers no advertisement in any case.
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    client.advertise(&mut stream, client.source);
    client.take_request(trial, &mut stream)?;
    stream.abort();
    drop(stream);
    let mut stream = trial.open_alive()?;
    stream.send_ulpdu(&data("4148", 1, &pattern(8)));
    let mut client = Client::new(64);
    client.advertise(&mut stream, client.source);
    let answer = stream.read_fpdu();
    let is_read = answer
        .as_ref()
        .is_ok_and(|fpdu| fpdu.ulpdu.get(1).is_some_and(|octet| octet & 0x0F == opcode::READ_REQUEST));
    let observed = answer.map_or_else(|missing| missing.to_string(), |fpdu| shown(&fpdu));
    let expected = "no answer to an advertisement with the MSN that the Immediate Data had";
    trial.judge(&["7306-6.3-3"], &stream, !is_read, (expected, observed));
    Ok(())
}

fn immediate_length(trial: &mut Trial<'_>) -> Result<(), Stop> {
    need_immediate(trial)?;
    for (head, len) in [("4148", 7), ("4148", 9), ("4149", 0), ("4149", 16)] {
        let mut stream = trial.open_alive()?;
        let ulpdu = data(head, 1, &pattern(len));
        let what = "Immediate Data has 8 octets";
        let fault = Fault { what, guards: &["7306-6.3-8"], codes: &[], near: &[] };
        let refusal = trial.provoke(&fault, &mut stream, &ulpdu)?;
        // A ULP that expected another message ends the connection without a Terminate.
        let is_said = matches!(&refusal, Refusal::Said(terminate) if terminate.code() != LOCAL_CATASTROPHE);
        let words = ("a Terminate for the fault", "the end of the connection without one");
        trial.need(&["7306-6.1-3", "7306-6.3-8"], &stream, is_said, words)?;
        trial.judge_returned(&["7306-8.1-2"], &stream, &refusal, (&ulpdu, false));
    }
    Ok(())
}

/// What is wrong, the requirements that say so, the codes for it, and the segment.
type Case<'a> = (&'a str, &'a [&'static str], &'a [&'a str], Vec<u8>);

fn immediate_form(trial: &mut Trial<'_>) -> Result<(), Stop> {
    need_immediate(trial)?;
    let changed = |at: usize, octet: u8| {
        let mut ulpdu = data("4148", 1, &pattern(8));
        ulpdu[at] = octet;
        ulpdu
    };
    let mut on_reads = changed(9, 1);
    on_reads[13] = 2;
    let ddp: &[&str] = &["7306-8.2-1", "7306-8.2-2"];
    let rdmap: &[&str] = &["7306-8.2-1", "7306-8.2-4"];
    let cases: [Case<'_>; 6] = [
        ("the queue is that of Reads", &["7306-4.1-5"], &["0206", "1201"], on_reads),
        ("there is no queue 5", ddp, &["1201"], changed(9, 5)),
        ("the MSN is not the next", ddp, &["1203", "1202"], changed(13, 7)),
        ("the MO is 2^30", ddp, &["1204", "1205"], changed(14, 0x40)),
        ("RV is not 01", rdmap, &["0205"], changed(1, 0x88)),
        ("RV is not 01", rdmap, &["0205"], changed(1, 0x08)),
    ];
    for (what, guards, codes, ulpdu) in cases {
        let mut stream = trial.open_alive()?;
        trial.provoke(&Fault { what, guards, codes, near: &[] }, &mut stream, &ulpdu)?;
    }
    Ok(())
}

/// Layer 0, type 0, code 0: no received segment is to blame.
const LOCAL_CATASTROPHE: [u8; 2] = [0, 0];
