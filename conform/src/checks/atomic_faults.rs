//! Wrong Atomics, and segments that belong to no Atomic (RFC 7306 sections 5 and 8).

use crate::atomic::{AtomicRequest, id};
use crate::check::Check;
use crate::fault::{Fault, Refusal};
use crate::finding::Stop;
use crate::octets::{Place, join};
use crate::ping::Advertisement;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "atomic-unaligned",
        title: "Atomics to an address that is no multiple of 8: Terminate 0/2/07 with the DDP Header",
        ids: &[
            "5040-4.8-3",
            "7306-5.1.1-2",
            "7306-5.1.1-5",
            "7306-5.1.2-4",
            "7306-5.1.2-7",
            "7306-8.1-2",
            "7306-8.2-1",
            "7306-8.2-5",
            "7306-8.2-6",
            "7306-8.2-7",
        ],
        run: atomic_unaligned,
    },
    Check {
        name: "atomic-bad-target",
        title: "Atomics to an STag that does not exist and outside of the buffer end the stream",
        ids: &["7306-8.2-8"],
        run: atomic_bad_target,
    },
    Check {
        name: "atomic-code",
        title: "undefined Atomic Operation Codes end the stream",
        ids: &["7306-5.2.1-11", "7306-10-1"],
        run: atomic_code,
    },
    Check {
        name: "atomic-form",
        title: "Atomic Requests of other lengths, on another queue, with another MSN, MO or RV end the stream",
        ids: &[
            "5040-4.8-3",
            "7306-4-1",
            "7306-4.1-5",
            "7306-4.2-1",
            "7306-8.2-1",
            "7306-8.2-2",
            "7306-8.2-3",
            "7306-8.2-4",
        ],
        run: atomic_form,
    },
    Check {
        name: "atomic-response-unrequested",
        title: "an Atomic Response without a Request ends the stream",
        ids: &["7306-5-6", "7306-5.2.2-9"],
        run: atomic_response_unrequested,
    },
];

/// Makes a wrong segment for a buffer on whose stream the next MSN of queue 1 is 2.
type Wrong = fn(&Advertisement) -> Vec<u8>;

/// Sends the segment on a stream on which Atomics work, and judges the refusal.
fn refuse(
    trial: &mut Trial<'_>,
    fault: &Fault<'_>,
    wrong: Wrong,
    (said, returned): (&[&'static str], &[&'static str]),
) -> Result<(), Stop> {
    let (mut stream, buffer) = trial.open_atomic()?;
    let ulpdu = wrong(&buffer);
    let refusal = trial.provoke(fault, &mut stream, &ulpdu)?;
    let is_said = matches!(refusal, Refusal::Said(..));
    trial.judge(said, &stream, is_said, ("a Terminate", "the end of the connection without one"));
    trial.judge_returned(returned, &stream, &refusal, (&ulpdu, false));
    Ok(())
}

fn atomic_unaligned(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let adds: [Wrong; 3] = [
        |buffer| AtomicRequest::fetch_add(2, buffer.place(1), 1, 0).emit(),
        |buffer| AtomicRequest::fetch_add(2, buffer.place(4), 1, 0).emit(),
        |buffer| AtomicRequest::fetch_add(2, buffer.place(15), 1, 0).emit(),
    ];
    let what = "the address is no multiple of 8";
    let fault = Fault { what, guards: ADD, codes: &["0207"], near: &["0206"] };
    for wrong in adds {
        refuse(trial, &fault, wrong, (&["7306-5.1.1-5"], &["7306-8.1-2"]))?;
    }
    let swap: Wrong = |buffer| AtomicRequest::cmp_swap(2, buffer.place(4), [0, 0], [0, 0]).emit();
    refuse(trial, &Fault { guards: SWAP, ..fault }, swap, (&["7306-5.1.2-7"], &["7306-8.1-2"]))?;
    // The wrong operation code alone, without a second fault.
    let (mut stream, buffer) = trial.open_atomic()?;
    stream.send_ulpdu(&adds[1](&buffer));
    trial.expect_terminate(&["7306-8.2-7"], &mut stream, &["0207"])?;
    Ok(())
}

fn atomic_bad_target(trial: &mut Trial<'_>) -> Result<(), Stop> {
    // An offset this far away is outside, however large the memory behind the STag is.
    let cases: [(&str, Wrong); 4] = [
        ("the STag does not exist", |buffer| {
            let place = Place(buffer.stag ^ 0x5A5A_5A00, buffer.to);
            AtomicRequest::fetch_add(2, place, 1, 0).emit()
        }),
        ("the access is behind the buffer", |buffer| {
            AtomicRequest::fetch_add(2, buffer.place(1 << 40), 1, 0).emit()
        }),
        ("the access is before the buffer", |buffer| {
            AtomicRequest::fetch_add(2, buffer.place((1_u64 << 40).wrapping_neg()), 1, 0).emit()
        }),
        ("the access is behind the buffer", |buffer| {
            AtomicRequest::cmp_swap(2, buffer.place(1 << 40), [1, u64::MAX], [0, 0]).emit()
        }),
    ];
    for (what, wrong) in cases {
        // The RFC has no codes for these faults. DDP or RDMAP may find them.
        let fault = Fault { what, guards: &["7306-8.2-8"], codes: &[], near: &[] };
        refuse(trial, &fault, wrong, (&[], &[]))?;
    }
    Ok(())
}

fn atomic_code(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let cases: [Wrong; 3] =
        [|buffer| coded(buffer, 1), |buffer| coded(buffer, 3), |buffer| coded(buffer, 15)];
    for wrong in cases {
        let what = "the Atomic Operation Code is undefined";
        let fault = Fault { what, guards: &["7306-5.2.1-11", "7306-10-1"], codes: &[], near: &[] };
        refuse(trial, &fault, wrong, (&[], &[]))?;
    }
    Ok(())
}

fn coded(buffer: &Advertisement, code: u32) -> Vec<u8> {
    AtomicRequest { code, ..AtomicRequest::fetch_add(2, buffer.place(0), 1, 0) }.emit()
}

fn plain(buffer: &Advertisement) -> Vec<u8> {
    AtomicRequest::fetch_add(2, buffer.place(0), 1, 0).emit()
}

/// Returns a Request with one octet changed.
fn changed(buffer: &Advertisement, at: usize, octet: u8) -> Vec<u8> {
    let mut ulpdu = plain(buffer);
    ulpdu[at] = octet;
    ulpdu
}

fn atomic_form(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let length: &[&str] = &["7306-4-1", "7306-4.2-1"];
    let cases: [(&str, &[&'static str], &[&str], Wrong); 9] = [
        ("an Atomic Request has 70 octets", length, &[], |buffer| plain(buffer)[..69].to_vec()),
        ("an Atomic Request has 70 octets", length, &[], |buffer| [plain(buffer), vec![0]].concat()),
        ("the queue is not queue 1", &["7306-4.1-5"], &[], |buffer| {
            let mut ulpdu = changed(buffer, 9, 0);
            ulpdu[13] = 2;
            ulpdu
        }),
        ("the MSN is not the next", DDP, &["1203", "1202"], |buffer| changed(buffer, 13, 7)),
        ("the MO is 2^30", DDP, &["1204", "1205"], |buffer| changed(buffer, 14, 0x40)),
        ("the version of DDP is wrong", DDP, &["1206"], |buffer| changed(buffer, 0, 0x42)),
        ("opcode C is undefined", &["7306-8.2-1", "7306-8.2-3"], &["0206"], |buffer| {
            changed(buffer, 1, 0x4C)
        }),
        ("RV is not 01", &["7306-8.2-1", "7306-8.2-4"], &["0205"], |buffer| changed(buffer, 1, 0x8A)),
        ("RV is not 01", &["7306-8.2-1", "7306-8.2-4"], &["0205"], |buffer| changed(buffer, 1, 0x0A)),
    ];
    for (what, guards, codes, wrong) in cases {
        refuse(trial, &Fault { what, guards, codes, near: &[] }, wrong, (&[], &[]))?;
    }
    Ok(())
}

fn atomic_response_unrequested(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let cases: [Wrong; 2] = [|_| response(1), |_| response(3)];
    for wrong in cases {
        let what = "no Atomic is outstanding";
        let fault = Fault { what, guards: &["7306-5-6", "7306-5.2.2-9"], codes: &[], near: &[] };
        refuse(trial, &fault, wrong, (&[], &[]))?;
    }
    Ok(())
}

fn response(msn: u32) -> Vec<u8> {
    let id = id(msn).to_be_bytes();
    join("414B 00000000 00000003", &[&msn.to_be_bytes(), &[0; 4], &id, &[0x11; 8]])
}

const ADD: &[&str] = &["7306-5.1.1-2", "7306-8.2-1", "7306-8.2-5", "7306-8.2-6"];
const SWAP: &[&str] = &["7306-5.1.2-4", "7306-8.2-1", "7306-8.2-5", "7306-8.2-6"];
const DDP: &[&str] = &["7306-8.2-1", "7306-8.2-2"];
