//! Judgements over many FPDUs: each requirement is judged once, by the first octets that break it.

use std::fmt::Display;

use crate::finding::Stop;
use crate::octets::crc32c;
use crate::octets::digits;
use crate::ping::{Client, Ping};
use crate::stream::{Fpdu, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

/// The faults found so far.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    faults: Vec<Fault>,
}

#[derive(Debug)]
struct Fault {
    ids: Vec<&'static str>,
    expected: String,
    observed: String,
}

impl Survey {
    /// Adds one more observation that decides about `ids`.
    pub(crate) fn note(
        &mut self,
        ids: &[&'static str],
        is_right: bool,
        expected: impl Display,
        observed: impl Display,
    ) {
        if !is_right {
            let (expected, observed) = (expected.to_string(), observed.to_string());
            self.faults.push(Fault { ids: ids.to_vec(), expected, observed });
        }
    }

    /// Notes whether the CRC of an FPDU is right.
    pub(crate) fn note_crc(&mut self, ids: &[&'static str], fpdu: &Fpdu) {
        let computed = fpdu.computed_crc();
        let expected = format!("the CRC {computed:08X}, least significant octet first");
        let observed = format!("the FPDU {}", digits(&fpdu.raw, SHOWN));
        self.note(ids, fpdu.crc == computed, expected, observed);
    }

    /// Judges `ids`. A requirement without a noted fault is kept.
    pub(crate) fn judge(&self, trial: &mut Trial<'_>, stream: &Stream, ids: &[&'static str]) {
        for id in ids {
            match self.faults.iter().find(|fault| fault.ids.contains(id)) {
                Some(fault) => {
                    trial.judge(&[id], stream, false, (&fault.expected, &fault.observed));
                }
                None => trial.judge(&[id], stream, true, ("", "")),
            }
        }
    }
}

/// The target's reaction to what the tester sent.
#[derive(Clone, Debug)]
pub(crate) enum Reaction {
    Terminate(Terminate),
    /// An FPDU of any kind but a Terminate.
    Fpdu(Fpdu),
    /// FIN or RST, without an FPDU before.
    End,
}

/// Waits for the reaction. A target that does not react breaks `ids`.
pub(crate) fn reaction(
    trial: &mut Trial<'_>,
    ids: &[&'static str],
    stream: &mut Stream,
    what: &str,
) -> Result<Reaction, Stop> {
    use crate::stream::Missing;
    match stream.read_fpdu() {
        Ok(fpdu) => Ok(Terminate::parse(&fpdu.ulpdu).map_or(Reaction::Fpdu(fpdu), Reaction::Terminate)),
        Err(Missing::Silence) => Err(trial.fail(ids, stream, what, Missing::Silence)),
        Err(Missing::Fin | Missing::Reset) => Ok(Reaction::End),
    }
}

/// Plays a ping in which `feed` sends the FPDUs of the Read Response in its own way. A ping has gone well on this
/// stream before. A target that does not play on, or brings back other octets, breaks `ids`.
pub(crate) fn fed_ping(
    client: &mut Client,
    trial: &mut Trial<'_>,
    stream: &mut Stream,
    ids: &[&'static str],
    feed: impl FnOnce(&mut Stream, Vec<Vec<u8>>),
) -> Result<Ping, Stop> {
    let outcome = play(client, trial, stream, feed);
    let expected = "a ping like the one before, and the same octets back";
    let ping = match outcome {
        Err(Stop::Unsuited(reason)) => {
            trial.judge(ids, stream, false, (expected, reason));
            return Err(Stop::Judged);
        }
        other => other?,
    };
    let is_right = ping.written.content.as_ref() == Some(&client.content);
    trial.judge(ids, stream, is_right, (expected, "other octets"));
    Ok(ping)
}

fn play(
    client: &mut Client,
    trial: &mut Trial<'_>,
    stream: &mut Stream,
    feed: impl FnOnce(&mut Stream, Vec<Vec<u8>>),
) -> Result<Ping, Stop> {
    client.advertise(stream, client.source);
    let request = client.take_request(trial, stream)?;
    let fpdus = client.response(&request.fields).iter().map(|ulpdu| stream.outgoing.fpdu(ulpdu)).collect();
    feed(stream, fpdus);
    let go_ahead = client.take_go_ahead(trial, stream)?;
    client.advertise(stream, client.sink);
    let written = client.take_writes(trial, stream)?;
    Ok(Ping { request, go_ahead, written })
}

/// Returns an FPDU after a change to octets that its CRC covers, with a CRC for the changed octets.
pub(crate) fn resealed(mut fpdu: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    if let Some((covered, field)) = fpdu.split_last_chunk_mut::<4>() {
        change(covered);
        *field = crc32c(covered).to_le_bytes();
    }
    fpdu
}

/// Returns the most octets of a ULPDU in an FPDU that fits a TCP segment of `emss` octets (RFC 5044 section 4.5).
pub(crate) fn mulpdu(emss: usize, markers: bool) -> usize {
    let markers = if markers { 4 * emss.div_ceil(512) } else { 0 };
    emss.saturating_sub(6 + markers + emss % 4).clamp(128, 64_768)
}

const SHOWN: usize = 60;
