//! The target's own Read Requests (RFC 5040 sections 4.4, 5.2.1 and 6.1), as rping makes it send them.

use crate::check::Check;
use crate::finding::Stop;
use crate::octets::Place;
use crate::ping::Client;
use crate::segment::{Header, opcode};
use crate::startup::Request;
use crate::stream::{Fpdu, Missing, Stream};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "target-read",
        title: "the Read Request for an advertised buffer has the right form, queue, size and source; and there is one",
        ids: &[
            "5040-4.1-12",
            "5040-4.2-1",
            "5040-4.4-1",
            "5040-4.4-5",
            "5040-5.2-1",
            "5040-5.2.1-1",
            "5040-5.2.1-6",
            "5040-5.2.1-10",
            "5041-4.3-1",
            "5041-4.3-8",
            "5041-4.3-9",
            "5041-4.3-13",
        ],
        run: target_read,
    },
    Check {
        name: "target-read-depth",
        title: "the target sends no Read Request to a peer with an IRD of 0",
        ids: &["5040-6.1-4", "6581-9.1-5"],
        run: target_read_depth,
    },
    Check {
        name: "target-messages",
        title: "the target sends nothing during a ping but FPDUs with RDMAP messages",
        ids: &["5040-4.1-8", "5040-4.1-10", "5040-6.1-1"],
        run: target_messages,
    },
];

fn target_read(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    for msn in 1..=2 {
        // Each ping advertises another buffer, so that the Request has to take its source from there.
        client.source = Place(client.source.0 + msn, client.source.1 + 0x1_0000_0002 * u64::from(msn));
        read_once(trial, &mut stream, &mut client, msn)?;
        client.advertise(&mut stream, client.sink);
        client.take_writes(trial, &mut stream)?;
    }
    Ok(())
}

fn read_once(trial: &mut Trial<'_>, stream: &mut Stream, client: &mut Client, msn: u32) -> Result<(), Stop> {
    client.advertise(stream, client.source);
    let request = client.take_request(trial, stream)?;
    let observed = crate::octets::digits(&request.fpdu.ulpdu, 46);
    let (segment, fields) = (&request.segment, &request.fields);
    let Place(stag, to) = fields.source;
    let is_source = stag == client.source.0 && to == client.source.1;
    let judge = |trial: &mut Trial<'_>, ids: &[&'static str], is_right, expected: &str| {
        trial.judge(ids, stream, is_right, (expected, &observed));
    };
    judge(trial, &["5040-5.2.1-1"], !segment.is_tagged() && segment.is_last(), "T=0 and L=1");
    let len = request.fpdu.ulpdu.len();
    judge(trial, &["5040-4.2-1", "5041-4.3-1"], len == 46, "headers of 18 and 28 octets and nothing else");
    judge(trial, &["5040-4.4-1", "5040-5.2.1-10"], is_source, "the advertised buffer as source");
    judge(trial, &["5040-4.4-5", "5040-5.2-1"], fields.size == 64, "a Read of all 64 octets");
    if let Header::Untagged { invalidate, queue, msn: sent, offset } = segment.header {
        judge(trial, &["5040-5.2.1-6"], queue == 1, "QN 1");
        judge(trial, &["5041-4.3-8"], sent == msn, "an MSN that grows by one");
        judge(trial, &["5041-4.3-9"], sent == msn || msn > 1, "1 as the first MSN");
        judge(trial, &["5041-4.3-13"], offset == 0, "MO 0");
        judge(trial, &["5040-4.1-12"], invalidate == 0, "an Invalidate STag of zero");
    }
    client.respond(stream, fields);
    // The next message has to be the Send. A second Read Request for the same Read would end the dialogue here.
    let next = stream.read_fpdu().map_err(|missing| {
        trial.note(missing);
        Stop::Unsuited(format!("{missing} instead of the Send that follows a Read"))
    })?;
    let is_request = next.ulpdu.get(1).is_some_and(|octet| octet & 0x0F == opcode::READ_REQUEST);
    trial.need(&["5040-5.2-1"], stream, !is_request, ("one Read Request", "another one"))
}

fn target_read_depth(trial: &mut Trial<'_>) -> Result<(), Stop> {
    trial.need_enhanced()?;
    // A server that is no rping would send no Read Request in any case.
    let mut stream = trial.open()?;
    Client::new(64).until_go_ahead(trial, &mut stream)?;
    stream.abort();
    drop(stream);
    let (mut stream, reply) = trial.open_with(&Request::enhanced(0, 1))?;
    let ord = reply.enhanced().map(|(_, ord)| ord & DEPTH_BITS);
    let is_kept = ord == Some(0);
    trial.judge(&["6581-9.1-5"], &stream, is_kept, ("an ORD of 0 for an IRD of 0", &reply));
    let mut client = Client::new(64);
    client.advertise(&mut stream, client.source);
    let (octets, end) = stream.listen(QUIET);
    // Only a Read Request is wrong here. The end of the connection is as good as silence, with or without a
    // Terminate.
    let is_read = octets.get(3).is_some_and(|octet| octet & 0x0F == opcode::READ_REQUEST);
    let observed = format!("{} octets, {}, and {end}", octets.len(), crate::octets::digits(&octets, 30));
    trial.judge(&["5040-6.1-4"], &stream, !is_read, ("no Read Request", observed));
    Ok(())
}

fn target_messages(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let ping = Client::new(64).ping(trial, &mut stream)?;
    let first = [&ping.request.fpdu, &ping.go_ahead.fpdu];
    for fpdu in first.into_iter().chain(&ping.written.writes).chain([&ping.written.send]) {
        judge_control(trial, &stream, fpdu);
    }
    let (octets, end) = stream.listen(QUIET);
    let is_quiet = octets.is_empty() && end == Missing::Silence;
    let observed = format!("{} octets and {end}", octets.len());
    trial.judge(&["5040-6.1-1"], &stream, is_quiet, ("nothing behind the last Send", observed));
    Ok(())
}

fn judge_control(trial: &mut Trial<'_>, stream: &Stream, fpdu: &Fpdu) {
    let octet = fpdu.ulpdu[1];
    let is_whole = fpdu.crc == fpdu.computed_crc();
    let observed = crate::octets::digits(&fpdu.ulpdu, 18);
    let known = octet & 0x0F <= opcode::ATOMIC_RESPONSE;
    trial.judge(
        &["5040-6.1-1"],
        stream,
        is_whole && known,
        ("an FPDU with an opcode that there is", &observed),
    );
    trial.judge(&["5040-4.1-8"], stream, octet & 0xC0 == 0x40, ("RV of 01", &observed));
    trial.judge(&["5040-4.1-10"], stream, octet & 0x30 == 0, ("reserved bits of zero", &observed));
}

const DEPTH_BITS: u16 = 0x3FFF;
const QUIET: std::time::Duration = std::time::Duration::from_millis(200);
