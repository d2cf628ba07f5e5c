//! Unusual Sends that an rping server has to take. Each is an advertisement, and the target has to read the
//! advertised buffer.

use crate::check::Check;
use crate::fault::found;
use crate::finding::Stop;
use crate::octets::{Place, send, send_part};
use crate::ping::{Advertisement, Client};
use crate::probe::{shown, zero_read};
use crate::segment::{ReadFields, Segment, opcode};
use crate::stream::{Missing, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "send-reserved",
        title: "a Send with reserved bits set, or with an STag in the Invalidate field, is taken as any other",
        ids: &["5041-4.1-9", "5040-4.1-11", "5040-4.1-13"],
        run: reserved,
    },
    Check {
        name: "send-types",
        title: "a Send and a Send with Solicited Event are the same to the receiver's buffers",
        ids: &["5040-4.1-1", "5040-4.1-6", "5041-4.1-2", "5041-4.3-1"],
        run: types,
    },
    Check {
        name: "send-in-segments",
        title: "a Send of several segments is put together",
        ids: &["5040-3.1-3", "5041-4.1-2", "5041-5.2-4"],
        run: segments,
    },
    Check {
        name: "send-of-nothing",
        title: "a Send without payload is a valid message, and no layer below the application refuses it",
        ids: &["5041-4.4-1", "5040-4.2-1"],
        run: nothing,
    },
];

/// A connection on which a ping has gone well. A later failure is caused by the unusual Send.
struct Setting {
    stream: Stream,
    client: Client,
}

impl Setting {
    fn open(trial: &mut Trial<'_>) -> Result<Self, Stop> {
        let mut stream = trial.open()?;
        let mut client = Client::new(64);
        client.ping(trial, &mut stream)?;
        Ok(Self { stream, client })
    }

    /// Returns the payload of the next Send.
    fn advertisement(&self) -> Vec<u8> {
        let Place(stag, to) = self.client.source;
        Advertisement { to, stag, size: 64 }.emit()
    }

    /// The target has to read the advertised buffer and go on with the ping. Judges `ids` by it.
    fn expect_ping(&mut self, trial: &mut Trial<'_>, ids: &[&'static str]) -> Result<(), Stop> {
        let Self { stream, client } = self;
        let expected = "a Read Request for what the Send advertised";
        let fpdu = trial.expect_fpdu(ids, stream, expected)?;
        let fields = Segment::parse(&fpdu.ulpdu)
            .filter(|segment| segment.opcode() == opcode::READ_REQUEST)
            .and_then(|segment| ReadFields::parse(&segment.payload))
            .filter(|fields| (fields.source.0, fields.source.1) == (client.source.0, client.source.1))
            .filter(|fields| fields.size == 64);
        trial.judge(ids, stream, fields.is_some(), (expected, shown(&fpdu)));
        let Some(fields) = fields else { return Err(Stop::Judged) };
        client.respond(stream, &fields);
        client.msn = client.msn.wrapping_add(1);
        client.take_go_ahead(trial, stream)?;
        Ok(())
    }
}

/// Sends the segments as the advertisement of a second ping.
fn expect_taken(
    trial: &mut Trial<'_>,
    ids: &[&'static str],
    make: impl Fn(&Setting) -> Vec<Vec<u8>>,
) -> Result<(), Stop> {
    let mut setting = Setting::open(trial)?;
    for ulpdu in make(&setting) {
        setting.stream.send_ulpdu(&ulpdu);
    }
    match setting.expect_ping(trial, ids) {
        // The next case has a connection of its own.
        Err(Stop::Judged) => Ok(()),
        other => other,
    }
}

fn reserved(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let cases: [(&'static str, usize, &[u8]); 3] =
        [("5041-4.1-9", 0, &[0x7D]), ("5040-4.1-11", 1, &[0x73]), ("5040-4.1-13", 2, &[0xFF; 4])];
    for (id, at, octets) in cases {
        expect_taken(trial, &[id], |setting| {
            let mut ulpdu = send(setting.client.msn, &setting.advertisement());
            ulpdu[at..at + octets.len()].copy_from_slice(octets);
            vec![ulpdu]
        })?;
    }
    Ok(())
}

fn types(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for rdmap in [0x43, 0x45] {
        let ids = &["5040-4.1-1", "5040-4.1-6", "5041-4.1-2", "5041-4.3-1"];
        expect_taken(trial, ids, |setting| {
            let mut ulpdu = send(setting.client.msn, &setting.advertisement());
            ulpdu[1] = rdmap;
            vec![ulpdu]
        })?;
    }
    Ok(())
}

fn segments(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5040-3.1-3", "5041-4.1-2", "5041-5.2-4"];
    for len in [1, 5, 8, 15] {
        expect_taken(trial, ids, |setting| parts(setting, len))?;
    }
    Ok(())
}

/// Cuts the advertisement into segments of `len` octets.
fn parts(setting: &Setting, len: usize) -> Vec<Vec<u8>> {
    let octets = setting.advertisement();
    let count = octets.len().div_ceil(len);
    let part = |(index, part): (usize, &[u8])| {
        let control = if index + 1 == count { "41" } else { "01" };
        let offset = u32::try_from(index * len).unwrap_or(u32::MAX);
        send_part(control, setting.client.msn, offset, part)
    };
    octets.chunks(len).enumerate().map(part).collect()
}

/// After it an rping server may give up, as it wants 16 octets. That is no error of the stream.
fn nothing(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    stream.send_ulpdu(&send(1, &[]));
    stream.send_ulpdu(&zero_read(1));
    let answer = stream.read_fpdu();
    let is_right = match &answer {
        Ok(fpdu) => Terminate::parse(&fpdu.ulpdu).is_none_or(|terminate| terminate.control[0] == 0),
        Err(missing) => {
            trial.note(*missing);
            *missing != Missing::Silence
        }
    };
    let words = ("no Terminate of DDP or RDMAP", found(&answer));
    trial.judge(&["5041-4.4-1", "5040-4.2-1"], &stream, is_right, words);
    Ok(())
}
