//! The RDMAP control field: opcodes, tagged or not, their queues, and the version (RFC 5040 sections 4.1 and 7.2).

use crate::check::Check;
use crate::fault::{Fault, bait};
use crate::finding::Stop;
use crate::octets::{
    Place, bare_terminate, join, pattern, read_request, send, send_invalidate, tagged, write,
};
use crate::ping::{Advertisement, Client};
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "opcode-unknown",
        title: "undefined opcodes are refused as such, untagged and tagged",
        ids: &["5040-4.1-6", "5040-7.2-2", "5040-4.8-3", "5040-5.3-7"],
        run: unknown,
    },
    Check {
        name: "opcode-tagged-flag",
        title: "opcodes with the wrong T bit are refused as such",
        ids: &["5040-4.1-5", "5040-4.8-3"],
        run: tagged_flag,
    },
    Check {
        name: "opcode-queue",
        title: "opcodes in another queue than theirs are refused as such",
        ids: &["5040-3.1-2", "5040-4.1-7", "5040-7.2-7", "5040-4.8-3"],
        run: queue,
    },
    Check {
        name: "rdmap-version",
        title: "Sends, Writes, Read Requests and Terminates of other RDMAP versions are refused as such",
        ids: &["5040-4.1-9", "5040-5.1-3", "5040-5.3-7", "5040-7.2-3", "5040-7.2-8", "5040-4.8-3"],
        run: version,
    },
    Check {
        name: "invalidate-unknown-stag",
        title: "Sends that invalidate an STag which does not exist are refused as such",
        ids: &["5040-4.1-3", "5040-5.3-7", "5040-5.3-14", "5040-5.3-15", "5040-7.2-4", "5040-4.8-3"],
        run: invalidate,
    },
    Check {
        name: "invalidate-buffer",
        title: "a Send that invalidates the target's buffer does so, or is refused as such",
        ids: &["5040-5.3-15", "5040-4.8-3"],
        run: invalidate_buffer,
    },
];

/// 12 to 15 are free; 8 to 11 are RFC 7306's.
fn unknown(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for opcode in 0x4C..=0x4F {
        let mut ulpdu = send(1, &bait());
        ulpdu[1] = opcode;
        let guards = &["5040-4.1-6", "5040-7.2-2", "5040-5.3-7"];
        trial.expect_refusal_of(&Fault { what: "the opcode is reserved", guards, ..OPCODE }, &[ulpdu])?;
        let ulpdu = tagged(&format!("C1{opcode:02X}"), 0, 0, &[]);
        let guards = &["5040-4.1-6", "5040-7.2-2"];
        trial.expect_refusal_of(&Fault { what: "the opcode is reserved", guards, ..OPCODE }, &[ulpdu])?;
    }
    Ok(())
}

/// The tagged segments have no payload, so that their STag does not matter.
fn tagged_flag(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let guards = &["5040-4.1-5"];
    for opcode in [1, 3, 4, 5, 6, 7] {
        let ulpdu = tagged(&format!("C14{opcode}"), 0, 0, &[]);
        trial.expect_refusal_of(&Fault { what: "these are untagged", guards, ..OPCODE }, &[ulpdu])?;
    }
    for opcode in [0x40, 0x42] {
        let mut ulpdu = send(1, &bait());
        ulpdu[1] = opcode;
        trial.expect_refusal_of(&Fault { what: "these are tagged", guards, ..OPCODE }, &[ulpdu])?;
    }
    Ok(())
}

/// A target may check the queue for DDP first and report the queue as wrong.
fn queue(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let to = |queue: u8, mut ulpdu: Vec<u8>| {
        ulpdu[9] = queue;
        ulpdu
    };
    let read = read_request(1, Place(1, 0), 0, Place(0, 0));
    let all = [
        ("a Send in the queue of Read Requests", to(1, send(1, &bait()))),
        ("a Send in the queue of Terminates", to(2, send(1, &bait()))),
        ("a Read Request in the queue of Sends", to(0, read.clone())),
        ("a Read Request in the queue of Terminates", to(2, read)),
        ("a Terminate in the queue of Sends", to(0, bare_terminate("0000"))),
        ("a Terminate in the queue of Read Requests", to(1, bare_terminate("0000"))),
    ];
    for (what, ulpdu) in all {
        let is_read_queue = ulpdu[9] == 1;
        let guards: &[&'static str] = &["5040-3.1-2", "5040-4.1-7", "5040-7.2-7"];
        let guards = &guards[..if is_read_queue { 3 } else { 2 }];
        // A Send is too long for the buffer of a Terminate, and so on. DDP may report that before RDMAP sees the
        // opcode.
        let near = &["1202", "1203", "1205", "0207"];
        trial.expect_refusal_of(&Fault { what, guards, codes: &["0206", "1201"], near }, &[ulpdu])?;
    }
    Ok(())
}

fn version(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let all: [(&[&'static str], Vec<u8>); 4] = [
        (&["5040-7.2-3", "5040-5.3-7"], send(1, &bait())),
        (&["5040-7.2-3", "5040-5.1-3"], write(0, 0, &[])),
        (&["5040-7.2-8"], read_request(1, Place(1, 0), 0, Place(0, 0))),
        (&["5040-7.2-3"], bare_terminate("0000")),
    ];
    for (ids, ulpdu) in all {
        for version in [0x00, 0x80, 0xC0] {
            let mut ulpdu = ulpdu.clone();
            ulpdu[1] = ulpdu[1] & 0x3F | version;
            let mut guards = ids.to_vec();
            if version == 0 {
                guards.push("5040-4.1-9");
            }
            let what = "the stream has RDMAP version 1";
            let fault = Fault { what, guards: &guards, codes: &["0205"], near: &["0206"] };
            trial.expect_refusal_of(&fault, &[ulpdu])?;
        }
    }
    Ok(())
}

fn invalidate(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the STag to invalidate does not exist",
        guards: &["5040-4.1-3", "5040-5.3-7", "5040-5.3-14", "5040-5.3-15", "5040-7.2-4"],
        codes: &["0109", "0209", "0100", "0103"],
        near: &["1100", "1102"],
    };
    for stag in [0xDEAD_BEEF, 0, 0x100] {
        let plain = send_invalidate(1, stag, &bait());
        let solicited = join("4146", &[&plain[2..]]);
        trial.expect_refusal_of(&fault, &[plain])?;
        trial.expect_refusal_of(&fault, &[solicited])?;
    }
    Ok(())
}

/// Several streams may share the STag; a peer cannot invalidate such an STag.
fn invalidate_buffer(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    let buffer = client.learn_buffer(trial, &mut stream)?;
    let sink = Advertisement { to: client.sink.1, stag: client.sink.0, size: 64 };
    stream.send_ulpdu(&send_invalidate(client.msn, buffer.stag, &sink.emit()));
    let mut answer = stream.read_fpdu();
    let mut codes: &[&str] = &["0109", "0209"];
    if answer.as_ref().is_ok_and(|fpdu| Terminate::parse(&fpdu.ulpdu).is_none()) {
        // The target took the Send, and the ping goes on.
        codes = &["1100", "1102"];
        stream.send_ulpdu(&write(buffer.stag, buffer.to, &pattern(8)));
        while answer.as_ref().is_ok_and(|fpdu| Terminate::parse(&fpdu.ulpdu).is_none()) {
            answer = stream.read_fpdu();
        }
    }
    let terminate = answer.as_ref().ok().and_then(|fpdu| Terminate::parse(&fpdu.ulpdu));
    if let Some(terminate) = terminate.filter(|terminate| terminate.control[0] == 0) {
        return Err(Stop::Unsuited(format!(
            "the target itself still needs the buffer, and sends {terminate}"
        )));
    }
    let what = "the STag, if it can be invalidated, is no longer there";
    trial.judge_refusal(&Fault { what, guards: &["5040-5.3-15"], codes, near: &[] }, &stream, answer);
    Ok(())
}

const OPCODE: Fault<'static> = Fault { what: "", guards: &[], codes: &["0206"], near: &["1201", "1202"] };
