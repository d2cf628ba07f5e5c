//! Several Atomics and Reads at a time (RFC 7306 sections 5.2, 5.4 and 7).

use super::depth::is_end_of_flood;
use crate::atomic::{AtomicRequest, AtomicResponse, id};
use crate::check::Check;
use crate::finding::Stop;
use crate::octets::digits;
use crate::octets::{Place, read_request, write};
use crate::ping::Client;
use crate::startup::Request;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "write-then-atomic",
        title: "an Atomic behind a Write finds what was written, 64 times",
        ids: &["7306-5.4-4", "7306-5.4-6"],
        run: write_then_atomic,
    },
    Check {
        name: "atomics-in-order",
        title: "as many Atomics at once as the target's IRD allows are done and answered in order",
        ids: &["7306-5.2.1-15", "7306-5.2.2-6", "7306-5.2.2-10", "7306-5.4-9", "7306-5.4-10", "7306-7-6"],
        run: atomics_in_order,
    },
    Check {
        name: "read-atomic-read",
        title: "a Read, an Atomic and a Read at once are answered in that order, with one MSN after the other",
        ids: &["7306-5.2-1", "7306-7-5"],
        run: read_atomic_read,
    },
    Check {
        name: "atomics-too-many",
        title: "as many Reads as the target's IRD and one Atomic more end the stream",
        ids: &["7306-5.2-3", "7306-5.2.1-8"],
        run: atomics_too_many,
    },
];

fn write_then_atomic(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, buffer) = trial.open_atomic()?;
    for msn in 2..66_u32 {
        // This value is the same in either octet order.
        let value = u64::from(msn) | u64::from(msn) << 56;
        let place = buffer.place(8 * u64::from(msn % 7));
        let written = stream.outgoing.fpdu(&write(place.0, place.1, &value.to_be_bytes()));
        let atomic = stream.outgoing.fpdu(&AtomicRequest::fetch_add(msn, place, 1, 0).emit());
        stream.send(&[written, atomic].concat());
        let ids = &["7306-5.4-4", "7306-5.4-6"];
        let fpdu = trial.expect_fpdu(ids, &mut stream, "an Atomic Response")?;
        let is_right = AtomicResponse::parse(&fpdu).is_some_and(|response| response.value == value);
        let words = (format!("an Atomic Response with {value:016X}"), digits(&fpdu.ulpdu, 40));
        trial.need(ids, &stream, is_right, words)?;
    }
    Ok(())
}

fn atomics_in_order(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, buffer, ird) = trial.open_atomic_with(&Request::enhanced(DEPTH, DEPTH))?;
    if ird < 2 {
        return Err(Stop::Unsuited(format!("the target takes {ird} Atomics at a time")));
    }
    let place = buffer.place(0);
    stream.send_ulpdu(&write(place.0, place.1, &[0; 8]));
    let mut burst = Vec::new();
    // FetchAdd and CmpSwap take turns. Each finds the value that the one before left, else the sum differs.
    for step in 0..u32::from(ird.min(DEPTH)) {
        let now = u64::from(step);
        let request = if step % 2 == 0 {
            AtomicRequest::fetch_add(2 + step, place, 1, 0)
        } else {
            AtomicRequest::cmp_swap(2 + step, place, [now + 1, u64::MAX], [now, u64::MAX])
        };
        burst.extend(stream.outgoing.fpdu(&request.emit()));
    }
    stream.send(&burst);
    for step in 0..u32::from(ird.min(DEPTH)) {
        let served = &["7306-5.2.2-6"];
        let fpdu = trial.expect_fpdu(served, &mut stream, "an Atomic Response to each Request")?;
        let observed = digits(&fpdu.ulpdu, 60);
        let response = AtomicResponse::parse(&fpdu);
        let words = ("an Atomic Response to each Request", &observed);
        trial.need(served, &stream, response.is_some(), words)?;
        let Some(response) = response else { return Err(Stop::Judged) };
        let words = ("the Response to the Request that is next", &observed);
        let ids = &["7306-5.2.2-10", "7306-5.4-10"];
        trial.judge(ids, &stream, response.id == id(2 + step), words);
        let words = (format!("the former value {step}, as the Atomic before left it"), &observed);
        let ids = &["7306-5.2.1-15", "7306-5.4-9", "7306-7-6"];
        trial.judge(ids, &stream, response.value == u64::from(step), words);
    }
    Ok(())
}

fn read_atomic_read(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, buffer, ird) = trial.open_atomic_with(&Request::enhanced(DEPTH, DEPTH))?;
    if ird < 3 {
        return Err(Stop::Unsuited(format!("the target takes {ird} Reads and Atomics at a time")));
    }
    let place = buffer.place(0);
    let ulpdus = [
        read_request(2, Place(0xCAFE_0002, 0), 24, place),
        AtomicRequest::fetch_add(3, place, 1, 0).emit(),
        read_request(4, Place(0xCAFE_0004, 0), 8, place),
    ];
    let burst: Vec<u8> = ulpdus.iter().flat_map(|ulpdu| stream.outgoing.fpdu(ulpdu)).collect();
    stream.send(&burst);
    for (opcode, stag) in [(2, 0xCAFE_0002_u32), (11, 0), (2, 0xCAFE_0004)] {
        let ids = &["7306-5.2-1", "7306-7-5"];
        let fpdu = trial.expect_fpdu(ids, &mut stream, "a Read, an Atomic and a Read Response")?;
        let has_opcode = fpdu.ulpdu.get(1).is_some_and(|octet| octet & 0x0F == opcode);
        let is_sink = fpdu.ulpdu.get(2..6) == Some(&stag.to_be_bytes()[..]);
        let words = ("a Read, an Atomic and a Read Response in this order", digits(&fpdu.ulpdu, 40));
        trial.need(ids, &stream, has_opcode && is_sink, words)?;
    }
    Ok(())
}

fn atomics_too_many(trial: &mut Trial<'_>) -> Result<(), Stop> {
    // First the test that the target has Atomics at all. Then a buffer whose Response is so long that it cannot be
    // sent while the tester takes no octets.
    trial.open_atomic()?.0.abort();
    let (mut stream, reply) = trial.open_with(&Request::enhanced(2, 2))?;
    let ird =
        reply.enhanced().map(|(ird, _)| u32::from(ird & 0x3FFF)).filter(|ird| (1..=MAX_DEPTH).contains(ird));
    let ird = ird.ok_or_else(|| Stop::Unsuited("the target has no IRD that could be exceeded".to_owned()))?;
    let mut client = Client::new(LONG);
    client.chunk = 8192;
    let buffer = client.learn_buffer(trial, &mut stream)?;
    let size = u32::try_from(LONG).unwrap_or(u32::MAX);
    let mut burst = Vec::new();
    for msn in 1..=ird {
        burst.extend(stream.outgoing.fpdu(&read_request(msn, Place(1, 0), size, buffer.place(0))));
    }
    let place = Place(buffer.stag, buffer.to.next_multiple_of(8));
    burst.extend(stream.outgoing.fpdu(&AtomicRequest::fetch_add(ird + 1, place, 1, 0).emit()));
    stream.send(&burst);
    // The Atomic Response would come behind the Read Responses.
    let (is_end, observed) = is_end_of_flood(trial, &mut stream, ird + 1);
    let expected = format!("the end of the stream at {ird} Reads and an Atomic at once");
    trial.judge(&["7306-5.2-3", "7306-5.2.1-8"], &stream, is_end, (expected, observed));
    Ok(())
}

const DEPTH: u16 = 8;
const MAX_DEPTH: u32 = 16;
/// More octets than the TCPs of both sides hold.
const LONG: usize = 3 << 20;
