//! The tester's Terminates, and the target's reaction (RFC 5040 sections 5.4 and 6.2.1).

use crate::check::Check;
use crate::fault::Fault;
use crate::finding::Stop;
use crate::octets::{bare_terminate, tagged, terminate};
use crate::ping::Client;
use crate::probe::zero_read;
use crate::stream::{Missing, Stream};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "terminate-received",
        title: "a Terminate is not answered; the connection ends, by FIN",
        ids: &["5040-6.2.1-4", "5040-7-2", "5040-7-3", "5041-3-10"],
        run: received,
    },
    Check {
        name: "terminate-reserved",
        title: "a Terminate with reserved bits set is taken as any other",
        ids: &["5040-4.8-8", "5040-4.1-11", "5040-4.1-13"],
        run: reserved,
    },
    Check {
        name: "terminate-buffer",
        title: "a Terminate needs no receive: the target takes it when an rping server has none posted",
        ids: &["5040-5.4-4"],
        run: buffer,
    },
    Check {
        name: "terminate-invalid",
        title: "an invalid Terminate ends the connection too",
        ids: &["5040-5.4-7", "5040-7.2-1"],
        run: invalid,
    },
];

/// The target has to end the connection without sending anything. Judges `ids` by it.
fn expect_end(trial: &mut Trial<'_>, ids: &[&'static str], stream: &mut Stream) -> Missing {
    let (octets, end) = stream.read_to_end();
    trial.note(end);
    let observed = format!("{} octets and {end}", octets.len());
    let is_right = octets.is_empty() && end != Missing::Silence;
    trial.judge(ids, stream, is_right, ("the end of the connection and no octet before", observed));
    end
}

fn received(trial: &mut Trial<'_>) -> Result<(), Stop> {
    // The Terminate is about the Read Response that has just come.
    let response = tagged("C142", 1, 1, &[]);
    for ulpdu in [bare_terminate("0000"), bare_terminate("2002"), terminate("1100", &response)] {
        let mut stream = trial.open_alive()?;
        // A message behind a Terminate, here a Read, means nothing.
        let octets = [stream.outgoing.fpdu(&ulpdu), stream.outgoing.fpdu(&zero_read(2))].concat();
        stream.send(&octets);
        expect_end(trial, &["5040-7-2", "5040-7-3", "5041-3-10"], &mut stream);
        let mut stream = trial.open_alive()?;
        stream.send_ulpdu(&ulpdu);
        let end = expect_end(trial, &["5040-7-3"], &mut stream);
        trial.judge(&["5040-6.2.1-4"], &stream, end == Missing::Fin, ("FIN", end));
    }
    Ok(())
}

fn reserved(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let cases: [(&[&'static str], usize, &[u8]); 3] = [
        (&["5040-4.8-8"], 20, &[0x1F, 0xFF]),
        (&["5040-4.1-11"], 1, &[0x77]),
        (&["5040-4.1-13"], 2, &[0xFF; 4]),
    ];
    for (ids, at, octets) in cases {
        let mut ulpdu = bare_terminate("2002");
        ulpdu[at..at + octets.len()].copy_from_slice(octets);
        let mut stream = trial.open_alive()?;
        stream.send_ulpdu(&ulpdu);
        expect_end(trial, ids, &mut stream);
    }
    Ok(())
}

/// The second Send takes the last receive of an rping server, which waits for its Read.
fn buffer(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    client.advertise(&mut stream, client.source);
    client.take_request(trial, &mut stream)?;
    client.advertise(&mut stream, client.sink);
    stream.send_ulpdu(&bare_terminate("0000"));
    expect_end(trial, &["5040-5.4-4"], &mut stream);
    Ok(())
}

/// The target may answer with a Terminate, or end the connection without one.
fn invalid(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let good = bare_terminate("2002");
    let with = |at: usize, octet: u8| {
        let mut ulpdu = good.clone();
        ulpdu[at] = octet;
        ulpdu
    };
    let cases = [
        ("its MSN is 2", with(13, 2)),
        ("its MSN is 0", with(13, 0)),
        ("its MO is 4", with(17, 4)),
        ("its queue does not exist", with(9, 9)),
        ("the stream has RDMAP version 1", with(1, 0x87)),
        ("the stream has DDP version 1", with(0, 0x42)),
        ("it has half its control field", good[..20].to_vec()),
    ];
    for (what, ulpdu) in cases {
        let guards = &["5040-5.4-7", "5040-7.2-1"];
        trial.expect_refusal_of(&Fault { what, guards, codes: &[], near: &[] }, &[ulpdu])?;
    }
    Ok(())
}
