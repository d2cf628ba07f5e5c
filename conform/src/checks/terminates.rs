//! The target's Terminates: their form (RFC 5040 sections 4.8 and 5.4), and that nothing comes behind them.

use crate::check::Check;
use crate::fault::{bait, found};
use crate::finding::Stop;
use crate::octets::{digits, pattern, send, send_invalidate, write};
use crate::probe::{shown, spoilt, zero_read};
use crate::segment::{Header, Segment};
use crate::stream::{Fpdu, Missing, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "terminate-sent",
        title: "errors of each class lead to a Terminate, an untagged message of one segment in queue 2",
        ids: &[
            "5040-3.1-2",
            "5040-4.1-8",
            "5040-4.1-10",
            "5040-4.1-12",
            "5040-5.4-1",
            "5040-5.4-2",
            "5040-6.2.1-1",
            "5041-4.1-3",
            "5041-4.1-8",
            "5041-4.1-10",
            "5041-4.3-9",
            "5041-4.3-13",
            "5041-6.2.2-5",
            "5041-7.1-20",
        ],
        run: sent,
    },
    Check {
        name: "terminate-form",
        title: "a Terminate for an error of DDP has its code, M and D, and returns the length and the DDP header",
        ids: &[
            "5040-3.1-5",
            "5040-4.8-1",
            "5040-4.8-2",
            "5040-4.8-4",
            "5040-4.8-5",
            "5040-4.8-7",
            "5040-4.8-9",
            "5040-4.8-10",
            "5040-4.8-11",
            "5040-4.8-14",
            "5040-5.4-1",
            "5040-7.1-3",
        ],
        run: form,
    },
    Check {
        name: "terminate-form-llp",
        title: "a Terminate for an error below DDP returns no header",
        ids: &["5040-4.8-2", "5040-4.8-4", "5040-4.8-5", "5040-4.8-7", "5040-5.4-1"],
        run: form_llp,
    },
    Check {
        name: "terminate-last",
        title: "a target that has sent a Terminate sends nothing more, whatever it receives",
        ids: &[
            "5040-5.4-9",
            "5040-7-2",
            "5040-7-3",
            "5041-3-10",
            "5041-3-13",
            "5041-7.1-19",
            "5041-7.1-20",
            "5042-6.1.1-5",
        ],
        run: last,
    },
    Check {
        name: "terminate-fin",
        title: "a Terminate is followed by FIN, not by RST, also when the target has not read all",
        ids: &["5040-6.2.1-4"],
        run: fin,
    },
    Check {
        name: "terminate-first-error",
        title: "of two Writes that fail, the Terminate returns the header of the first",
        ids: &["5040-7.1-5"],
        run: first_error,
    },
];

/// A mistake of the tester that any target can see.
struct Mistake {
    what: &'static str,
    ulpdu: Vec<u8>,
    is_spoilt: bool,
    codes: &'static [&'static str],
}

/// The target's reaction to a mistake.
struct Answer {
    stream: Stream,
    fpdu: Fpdu,
    terminate: Terminate,
}

/// Returns a mistake for each kind of DDP error.
fn mistakes() -> [Mistake; 3] {
    let mut queue = send(1, &bait());
    queue[9] = 5;
    let mistake = |what, ulpdu, codes| Mistake { what, ulpdu, is_spoilt: false, codes };
    [
        mistake(
            "a Write to an STag that does not exist",
            write(UNKNOWN, 0x1000, &pattern(8)),
            &["1100", "1102"],
        ),
        mistake("a Send with MSN 2 as the first one", send(2, &bait()), &["1203", "1202"]),
        mistake("a Send to a queue that does not exist", queue, &["1201"]),
    ]
}

/// Returns mistakes that are errors of RDMAP.
fn misuses() -> [Mistake; 2] {
    let mut version = send(1, &bait());
    version[1] = 0x83;
    let invalidate = send_invalidate(1, UNKNOWN, &bait());
    let mistake = |what, ulpdu, codes| Mistake { what, ulpdu, is_spoilt: false, codes };
    [
        mistake("a Send of RDMAP version 2", version, &["0205"]),
        mistake(
            "a Send that invalidates an STag which does not exist",
            invalidate,
            &["0109", "0209", "0100"],
        ),
    ]
}

/// Returns a mistake below DDP.
fn wrong_crc() -> Mistake {
    Mistake { what: "an FPDU with a wrong CRC", ulpdu: zero_read(2), is_spoilt: true, codes: &["2002"] }
}

/// Makes the mistake and judges `ids` by whether a Terminate comes. Returns the Terminate with its connection.
fn provoke(trial: &mut Trial<'_>, ids: &[&'static str], mistake: &Mistake) -> Result<Option<Answer>, Stop> {
    // The Responder may only send after a correct FPDU of the Initiator (RFC 5044 section 7.1.2).
    let mut stream = if mistake.is_spoilt { trial.open_alive()? } else { trial.open()? };
    if mistake.is_spoilt && !stream.outgoing.crc {
        return Ok(None);
    }
    let fpdu = stream.outgoing.fpdu(&mistake.ulpdu);
    stream.send(&if mistake.is_spoilt { spoilt(fpdu) } else { fpdu });
    let answer = stream.read_fpdu();
    let terminate = answer.as_ref().ok().and_then(|fpdu| Terminate::parse(&fpdu.ulpdu));
    let words = (format!("a Terminate, because of {}", mistake.what), found(&answer));
    trial.judge(ids, &stream, terminate.is_some(), words);
    if let Ok(Fpdu { ulpdu, .. }) = &answer
        && ulpdu.get(1).is_some_and(|rdmap| rdmap & 0x0F == 7)
    {
        let words = ("T=0 in a Terminate", digits(ulpdu, 22));
        trial.judge(&["5040-5.4-1"], &stream, ulpdu[0] & 0x80 == 0, words);
    }
    match answer {
        Ok(fpdu) => Ok(terminate.map(|terminate| Answer { stream, fpdu, terminate })),
        Err(missing) => {
            trial.note(missing);
            Ok(None)
        }
    }
}

fn sent(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for mistake in mistakes().iter().chain(&misuses()).chain([&wrong_crc()]) {
        let is_of_ddp = mistake.codes[0].starts_with('1');
        let ids: &[&'static str] = &["5040-6.2.1-1", "5041-6.2.2-5", "5041-7.1-20"];
        let ids = &ids[..if is_of_ddp { 3 } else { 1 }];
        if let Some(answer) = provoke(trial, ids, mistake)? {
            judge_segment(trial, &answer);
        }
    }
    Ok(())
}

/// The DDP segment around a Terminate.
fn judge_segment(trial: &mut Trial<'_>, answer: &Answer) {
    let stream = &answer.stream;
    let ulpdu = &answer.fpdu.ulpdu;
    let Some(Segment { ddp, rdmap, header: Header::Untagged { invalidate, queue, msn, offset }, .. }) =
        Segment::parse(ulpdu)
    else {
        return;
    };
    let observed = digits(ulpdu, 22);
    let mut judge = |ids: &[&'static str], is_right, expected| {
        trial.judge(ids, stream, is_right, (expected, &observed));
    };
    judge(&["5041-4.1-3"], ddp & 0x40 != 0, "L=1");
    judge(&["5041-4.1-8"], ddp & 0x3C == 0, "reserved bits of zero in DDP's control field");
    judge(&["5041-4.1-10"], ddp & 0x03 == 1, "DDP version 1");
    judge(&["5040-4.1-8"], rdmap & 0xC0 == 0x40, "RDMAP version 1");
    judge(&["5040-4.1-10"], rdmap & 0x30 == 0, "reserved bits of zero in RDMAP's control field");
    judge(&["5040-4.1-12"], invalidate == 0, "an Invalidate STag of zero");
    judge(&["5040-5.4-2", "5040-3.1-2"], queue == 2, "QN 2");
    judge(&["5041-4.3-9"], msn == 1, "MSN 1");
    judge(&["5041-4.3-13"], offset == 0, "MO 0");
}

fn form(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for mistake in &mistakes() {
        let Some(answer) = provoke(trial, &[], mistake)? else { continue };
        judge_control(trial, &answer, mistake);
        judge_returned(trial, &answer, mistake);
    }
    Ok(())
}

/// Judges the first four octets by figure 8 of RFC 5040.
fn judge_control(trial: &mut Trial<'_>, answer: &Answer, mistake: &Mistake) {
    let Answer { stream, terminate, .. } = answer;
    let control = terminate.control;
    let bits = if mistake.is_spoilt { 0 } else { 0xC0 };
    let [layer, code] = terminate.code();
    let is_coded = mistake.codes.contains(&format!("{layer:02X}{code:02X}").as_str());
    let mut judge = |ids: &[&'static str], is_right, expected: &str| {
        trial.judge(ids, stream, is_right, (expected, terminate));
    };
    let expected = format!(
        "Layer and EType and the Error Code {}, HdrCt in the three bits behind",
        mistake.codes.join(" or ")
    );
    judge(&["5040-4.8-2"], is_coded && control[2] & 0x1F == 0, &expected);
    judge(&["5040-4.8-7"], control[2] & 0x1F == 0 && control[3] == 0, "13 reserved bits of zero");
    judge(&["5040-4.8-4"], (control[2] ^ bits) & 0x80 == 0, if mistake.is_spoilt { "M=0" } else { "M=1" });
    judge(&["5040-4.8-5"], (control[2] ^ bits) & 0x40 == 0, if mistake.is_spoilt { "D=0" } else { "D=1" });
    if !mistake.is_spoilt {
        judge(&["5040-4.8-14"], control[2] & 0x20 == 0, "R=0, as it is no Read Request");
    }
}

/// Judges the octets behind them. If only the bits of HdrCt are misplaced, the octets are read by the meant bits.
fn judge_returned(trial: &mut Trial<'_>, answer: &Answer, mistake: &Mistake) {
    let Answer { stream, fpdu, terminate } = answer;
    let header = &mistake.ulpdu[..if mistake.ulpdu[0] & 0x80 == 0 { 18 } else { 14 }];
    let bits = meaning(terminate);
    let returned = terminate.rest.get(2..2 + header.len());
    let rest = terminate.rest.get(2 + header.len()..).unwrap_or_default();
    let len = terminate.rest.first_chunk().map(|len| usize::from(u16::from_be_bytes(*len)));
    let is_whole = returned == Some(header) && rest.iter().all(|&octet| octet == 0);
    let mut judge = |ids: &[&'static str], is_right, expected: &str| {
        trial.judge(ids, stream, is_right, (expected, terminate));
    };
    judge(
        &["5040-7.1-3"],
        bits & 0xC0 == 0xC0 && is_whole,
        "the DDP Segment Length, the DDP header and no RDMA header",
    );
    if bits & 0x80 != 0 {
        let expected = format!("{} octets as DDP Segment Length: header and payload", mistake.ulpdu.len());
        judge(&["5040-4.8-9"], len == Some(mistake.ulpdu.len()), &expected);
    }
    if bits & 0x40 == 0 {
        return;
    }
    let expected = format!("the DDP header {}", digits(header, 18));
    judge(&["5040-4.8-11", "5040-3.1-5"], returned == Some(header), &expected);
    judge(
        &["5040-4.8-10"],
        terminate.rest.len() >= 2 + header.len(),
        "a DDP Segment Length before the DDP header",
    );
    let is_formed = fpdu.ulpdu.len() == 24 + header.len() && bits & 0x20 == 0;
    judge(&["5040-4.8-1", "5040-4.8-14"], is_formed, "DDP Segment Length, DDP header, and nothing else");
}

/// Returns M, D and R in the high bits. Some stacks put them in the low bits, in the opposite order.
fn meaning(terminate: &Terminate) -> u8 {
    let high = terminate.header_bits();
    if high == 0 { terminate.control[2].reverse_bits() & 0xE0 } else { high }
}

fn form_llp(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mistake = wrong_crc();
    let Some(answer) = provoke(trial, &[], &mistake)? else {
        return Err(Stop::Unsuited("there is no Terminate for a wrong CRC".to_owned()));
    };
    judge_control(trial, &answer, &mistake);
    let Answer { stream, terminate, .. } = &answer;
    let is_bare = terminate.rest.iter().all(|&octet| octet == 0);
    trial.judge(&["5040-4.8-5"], stream, is_bare, ("no header, or zeros", terminate));
    Ok(())
}

fn last(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let more = [
        write(UNKNOWN, 0, &pattern(8)),
        send(1, &bait()),
        zero_read(1),
        write(UNKNOWN + 1, 0, &pattern(8)),
        zero_read(2),
    ];
    let octets: Vec<u8> = more.iter().flat_map(|ulpdu| stream.outgoing.fpdu(ulpdu)).collect();
    stream.send(&octets);
    let answer = stream.read_fpdu();
    let Some(fpdu) = answer.as_ref().ok().filter(|fpdu| Terminate::parse(&fpdu.ulpdu).is_some()) else {
        let words = ("nothing for what follows a Write that fails", found(&answer));
        trial.judge(&["5041-7.1-19"], &stream, answer.is_err(), words);
        return Err(Stop::Unsuited("there is no Terminate".to_owned()));
    };
    let shown = shown(fpdu);
    let (rest, end) = stream.read_to_end();
    trial.note(end);
    let observed = format!("{shown}, then {} octets and {end}", rest.len());
    let silent = &["5040-5.4-9", "5040-7-2", "5041-3-10", "5041-7.1-19", "5041-7.1-20"];
    trial.judge(silent, &stream, rest.is_empty(), ("nothing behind the Terminate", &observed));
    let over = &["5040-7-3", "5041-3-13", "5042-6.1.1-5"];
    trial.judge(over, &stream, end != Missing::Silence, ("the end of the connection", &observed));
    Ok(())
}

fn fin(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for more in [0, 20] {
        let mut stream = trial.open()?;
        let mut octets = stream.outgoing.fpdu(&write(UNKNOWN, 0, &pattern(8)));
        for _ in 0..more {
            octets.extend(stream.outgoing.fpdu(&write(UNKNOWN, 0, &pattern(1000))));
        }
        stream.send(&octets);
        let answer = stream.read_fpdu();
        if !answer.as_ref().is_ok_and(|fpdu| Terminate::parse(&fpdu.ulpdu).is_some()) {
            return Err(Stop::Unsuited(format!("no Terminate, but {}", found(&answer))));
        }
        let (_, end) = stream.read_to_end();
        trial.note(end);
        let observed = format!("{end} after a Write that fails and {more} others of 1000 octets behind it");
        trial.judge(&["5040-6.2.1-4"], &stream, end == Missing::Fin, ("FIN behind the Terminate", observed));
    }
    Ok(())
}

fn first_error(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let both = [write(UNKNOWN, 0x1000, &pattern(8)), write(UNKNOWN + 1, 0x2000, &pattern(9))];
    let octets: Vec<u8> = both.iter().flat_map(|ulpdu| stream.outgoing.fpdu(ulpdu)).collect();
    stream.send(&octets);
    let answer = stream.read_fpdu();
    let terminate = answer.as_ref().ok().and_then(|fpdu| Terminate::parse(&fpdu.ulpdu));
    let Some(terminate) = terminate.filter(|terminate| meaning(terminate) & 0x40 != 0) else {
        return Err(Stop::Unsuited(format!("no Terminate with a DDP header, but {}", found(&answer))));
    };
    let is_right = terminate.rest.get(2..16) == Some(&both[0][..14]);
    let expected = format!("the DDP header of the first Write, {}", digits(&both[0], 14));
    trial.judge(&["5040-7.1-5"], &stream, is_right, (expected, terminate));
    Ok(())
}

/// An STag that a target has only by chance.
const UNKNOWN: u32 = 0xDEAD_BEEF;
