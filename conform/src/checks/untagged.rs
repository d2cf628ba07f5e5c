//! Faults of untagged segments (RFC 5041 section 7.1).

use crate::check::Check;
use crate::fault::{Fault, Refusal, bait};
use crate::finding::Stop;
use crate::octets::{send, send_part};
use crate::ping::Client;
use crate::stream::Missing;
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "send-queue",
        title: "Sends to queues that do not exist are refused as such",
        ids: &["5041-7.1-1", "5041-7.1-2", "5041-7.1-17", "5041-7.2-1", "5040-4.8-3", "5040-5.3-7"],
        run: queue,
    },
    Check {
        name: "send-msn",
        title: "Sends whose MSN is not the next one are refused as such",
        ids: &["5041-7.1-1", "5041-7.1-10", "5041-7.1-17", "5041-7.2-1", "5040-4.8-3", "5040-5.3-7"],
        run: sequence,
    },
    Check {
        name: "send-msn-again",
        title: "a Send whose MSN was used before is refused as such",
        ids: &["5041-7.1-1", "5041-7.1-10", "5041-7.2-1", "5040-4.8-3"],
        run: repeated,
    },
    Check {
        name: "send-offset",
        title: "segments of a Send that begin behind the buffer are refused as such",
        ids: &["5041-7.1-1", "5041-7.1-8", "5041-7.1-17", "5041-7.2-1", "5040-4.8-3"],
        run: offset,
    },
    Check {
        name: "send-too-long",
        title: "a Send of 17 octets, for which an rping server has 16, is refused as too long",
        ids: &["5041-7.1-1", "5041-7.1-9", "5041-7.1-17", "5041-7.2-1", "5040-4.8-3", "5040-5.3-4"],
        run: too_long,
    },
    Check {
        name: "send-without-buffer",
        title: "Sends for which there is no buffer are refused as such",
        ids: &["5041-7.1-3", "5041-7.1-7", "5041-7.2-1", "5040-4.8-3", "5040-3.2-3"],
        run: no_buffer,
    },
    Check {
        name: "untagged-version",
        title: "untagged segments of other DDP versions are refused as such",
        ids: &["5041-4.1-11", "5041-7.2-1", "5040-4.8-3", "5040-5.3-7", "5040-7.2-1"],
        run: version,
    },
    Check {
        name: "untagged-runt",
        title: "a segment that is shorter than its header is not taken",
        ids: &["5041-4.4-1", "5040-4.8-12"],
        run: runt,
    },
];

fn queue(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the queue does not exist",
        guards: &[PLACED, "5041-7.1-2", CEASED, INVALID_SEND],
        codes: &["1201"],
        near: &["0206"],
    };
    for queue in [5_u32, 0x100, u32::MAX] {
        let mut ulpdu = send(1, &bait());
        ulpdu[6..10].copy_from_slice(&queue.to_be_bytes());
        trial.expect_refusal_of(&fault, &[ulpdu])?;
    }
    Ok(())
}

fn sequence(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the first MSN has to be 1",
        guards: &[PLACED, "5041-7.1-10", CEASED, INVALID_SEND],
        codes: &["1203", "1202"],
        near: &[],
    };
    for msn in [0, 2, 5, 0x8000_0001, u32::MAX] {
        trial.expect_refusal_of(&fault, &[send(msn, &bait())])?;
    }
    Ok(())
}

/// The repeated Send follows the target's Read Request, which shows that the target has taken the first Send.
fn repeated(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the MSN was used before",
        guards: &[PLACED, "5041-7.1-10"],
        codes: &["1203", "1202"],
        near: &[],
    };
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    client.advertise(&mut stream, client.source);
    client.take_request(trial, &mut stream)?;
    stream.send_ulpdu(&send(1, &bait()));
    trial.expect_refusal_on(&fault, &mut stream);
    Ok(())
}

fn offset(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the offset is outside of the buffer",
        guards: &[PLACED, "5041-7.1-8", CEASED],
        codes: &["1204"],
        near: &["1205", "1202"],
    };
    for offset in [0x100, 0x0100_0000, 0x8000_0000, 0xFFFF_FFF8] {
        trial.expect_refusal_of(&fault, &[send_part("01", 1, offset, &bait()[..8])])?;
    }
    Ok(())
}

fn too_long(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the Send is longer than the buffer",
        guards: &[PLACED, "5041-7.1-9", CEASED, "5040-5.3-4"],
        codes: &["1205"],
        near: &["1202", "1204"],
    };
    let octets = [bait(), vec![0]].concat();
    let parts = [send_part("01", 1, 0, &octets[..12]), send_part("41", 1, 12, &octets[12..])];
    let whole = [send(1, &octets)];
    let long = [send(1, &octets.repeat(70))];
    for ulpdus in [&whole[..], &parts, &long] {
        let mut stream = trial.open()?;
        for ulpdu in ulpdus {
            stream.send_ulpdu(ulpdu);
        }
        let answer = stream.read_fpdu();
        if matches!(answer, Err(Missing::Fin | Missing::Reset)) {
            // An application that wants messages of 16 octets may have ended the connection.
            return Err(Stop::Unsuited("the target ends the connection without a Terminate".to_owned()));
        }
        trial.judge_refusal(&fault, &stream, answer);
    }
    Ok(())
}

/// Sends more at once than an rping server has receives. A target that has that many, or makes the sender wait, is
/// right too.
fn no_buffer(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "there is no buffer",
        guards: &["5041-7.1-3", "5041-7.1-7", "5040-3.2-3"],
        codes: &["1202", "1203"],
        near: &[],
    };
    let mut stream = trial.open()?;
    let burst: Vec<u8> = (1..=BURST).flat_map(|msn| stream.outgoing.fpdu(&send(msn, &bait()))).collect();
    stream.send(&burst);
    // The target may answer the first Send by a Read Request. The tester does not answer that, so rping processes no
    // other Send.
    loop {
        match stream.read_fpdu() {
            Ok(fpdu) if Terminate::parse(&fpdu.ulpdu).is_none() => {}
            Ok(fpdu) => {
                trial.judge_refusal(&fault, &stream, Ok(fpdu));
                return Ok(());
            }
            Err(missing) => {
                trial.note(missing);
                return Err(Stop::Unsuited(format!("{BURST} Sends at once, and no Terminate but {missing}")));
            }
        }
    }
}

fn version(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the stream has DDP version 1",
        guards: &["5041-4.1-11", INVALID_SEND, "5040-7.2-1"],
        codes: &["1206"],
        near: &["1104"],
    };
    for control in [0x40, 0x42, 0x43] {
        let mut ulpdu = send(1, &bait());
        ulpdu[0] = control;
        trial.expect_refusal_of(&fault, &[ulpdu])?;
    }
    Ok(())
}

/// No code exists for this fault.
fn runt(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let guards = &["5041-4.4-1"];
    let fault = Fault { what: "the segment is shorter than its header", guards, codes: &[], near: &[] };
    for len in [1, 2, 10, 17] {
        let mut stream = trial.open()?;
        stream.send_ulpdu(&send(1, &[])[..len]);
        if let Refusal::Said(terminate) = trial.expect_refusal_on(&fault, &mut stream)
            && matches!(terminate.control[0], 0x00 | 0x10)
        {
            let words = ("no DDP header behind a Local Catastrophic Error", &terminate);
            trial.judge(&["5040-4.8-12"], &stream, terminate.header_bits() & 0x40 == 0, words);
        }
    }
    Ok(())
}

/// A receiver has to check the segment before it does anything with it.
const PLACED: &str = "5041-7.1-1";
/// The receiver ceases placing at the fault.
const CEASED: &str = "5041-7.1-17";
const INVALID_SEND: &str = "5040-5.3-7";
/// So many Sends fit into one TCP segment.
const BURST: u32 = 32;
