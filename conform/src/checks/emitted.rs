//! What an rping server sends, octet by octet: its Read Requests, Writes and Sends.

use crate::check::Check;
use crate::finding::Stop;
use crate::octets::digits;
use crate::ping::Client;
use crate::probe::shown;
use crate::segment::{Header, ReadFields, Segment, word};
use crate::stream::Stream;
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "emitted-headers",
        title: "the headers of all that the target sends in two pings",
        ids: &[
            "5040-3.1-1",
            "5040-3.1-2",
            "5040-3.1-3",
            "5040-3.1-4",
            "5040-4.1-1",
            "5040-4.1-2",
            "5040-4.1-4",
            "5040-4.1-5",
            "5040-4.1-6",
            "5040-4.1-7",
            "5040-4.1-8",
            "5040-4.1-10",
            "5040-4.1-12",
            "5040-4.2-1",
            "5040-5.1-1",
            "5040-5.2.1-1",
            "5040-5.2.1-6",
            "5040-5.3-1",
            "5040-5.3-8",
            "5040-6.1-1",
            "5041-4.1-3",
            "5041-4.1-8",
            "5041-4.1-10",
            "5041-4.1-11",
            "5041-4.2-2",
            "5041-4.2-7",
            "5041-4.3-1",
            "5041-4.3-2",
            "5041-4.3-6",
            "5041-4.3-8",
            "5041-4.3-9",
            "5041-4.3-13",
        ],
        run: headers,
    },
    Check {
        name: "emitted-segments",
        title: "a Write of 65535 octets is cut into segments that DDP's largest FPDU holds",
        ids: &[
            "5041-4.1-3",
            "5041-4.1-4",
            "5041-4.1-5",
            "5041-4.2-4",
            "5041-4.2-5",
            "5041-4.2-9",
            "5041-4.2-10",
            "5041-5.2-1",
            "5041-5.2-3",
            "5041-5.2-7",
            "5041-5.3-1",
            "5041-5.3-2",
            "5041-5.3-3",
        ],
        run: segments,
    },
    Check {
        name: "emitted-nothing",
        title: "a Write of no octets is one segment, if the target writes for an empty ping",
        ids: &["5041-5.2-8"],
        run: nothing,
    },
];

/// The role of a segment in rping's dialogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ReadRequest,
    Write,
    Send,
}

/// A segment of the target. If its headers are wrong, its place in the dialogue tells its kind.
struct Emitted {
    kind: Kind,
    ulpdu: Vec<u8>,
}

/// The segments of one ping, as they come.
fn listen(trial: &mut Trial<'_>, stream: &mut Stream, client: &mut Client) -> Result<Vec<Emitted>, Stop> {
    client.advertise(stream, client.source);
    let mut all = vec![Emitted { kind: Kind::ReadRequest, ulpdu: take(trial, stream)? }];
    // The header may have the wrong length here; a later step judges that.
    let Some(fields) = all[0].ulpdu.get(18..).and_then(ReadFields::parse) else { return Ok(all) };
    client.respond(stream, &fields);
    all.push(Emitted { kind: Kind::Send, ulpdu: take(trial, stream)? });
    client.advertise(stream, client.sink);
    let mut octets = 0;
    loop {
        let ulpdu = take(trial, stream)?;
        // A wrong Write may have only the T bit or only the opcode.
        let is_write = ulpdu[0] & 0x80 != 0 || ulpdu[1] & 0x0F == 0;
        let kind = if is_write { Kind::Write } else { Kind::Send };
        octets += ulpdu.len();
        all.push(Emitted { kind, ulpdu });
        if kind == Kind::Send || octets > 4 * client.content.len() + 1000 {
            return Ok(all);
        }
    }
}

/// Takes a segment. A target that sends a Terminate here, or nothing, is no rping server.
fn take(trial: &mut Trial<'_>, stream: &mut Stream) -> Result<Vec<u8>, Stop> {
    let unsuited = |what: String| Stop::Unsuited(format!("a server of rping is needed: {what}"));
    match stream.read_fpdu() {
        Ok(fpdu) if Terminate::parse(&fpdu.ulpdu).is_some() => Err(unsuited(shown(&fpdu))),
        Ok(fpdu) if fpdu.ulpdu.len() < 14 => Err(unsuited(shown(&fpdu))),
        Ok(fpdu) => Ok(fpdu.ulpdu),
        Err(missing) => {
            trial.note(missing);
            Err(unsuited(missing.to_string()))
        }
    }
}

/// A rule that holds for each segment.
struct Rule {
    ids: &'static [&'static str],
    expected: &'static str,
    holds: fn(&Emitted) -> bool,
}

impl Emitted {
    const fn is_untagged(&self) -> bool {
        matches!(self.kind, Kind::ReadRequest | Kind::Send)
    }

    /// Returns QN, MSN or MO of an untagged segment, by its offset in the header.
    fn field(&self, at: usize) -> Option<u32> {
        (self.is_untagged() && self.ulpdu.len() >= 18).then(|| word(&self.ulpdu, at))
    }
}

const RULES: &[Rule] = &[
    Rule {
        ids: &["5041-4.1-8", "5040-3.1-1"],
        expected: "reserved bits of zero in DDP's control field",
        holds: |it| it.ulpdu[0] & 0x3C == 0,
    },
    Rule {
        ids: &["5041-4.1-10", "5041-4.1-11", "5040-3.1-1"],
        expected: "DDP version 1",
        holds: |it| it.ulpdu[0] & 0x03 == 1,
    },
    Rule { ids: &["5040-4.1-8"], expected: "RDMAP version 1", holds: |it| it.ulpdu[1] & 0xC0 == 0x40 },
    Rule {
        ids: &["5040-4.1-10"],
        expected: "reserved bits of zero in RDMAP's control field",
        holds: |it| it.ulpdu[1] & 0x30 == 0,
    },
    Rule {
        ids: &[
            "5040-3.1-4",
            "5040-4.1-1",
            "5040-4.1-2",
            "5040-4.1-6",
            "5040-6.1-1",
            "5041-4.2-2",
            "5041-4.3-2",
        ],
        expected: "RDMAP's control field behind DDP's: opcode 1 in a Read Request, 0 in a Write, 3 or 5 in a Send",
        holds: |it| match it.kind {
            Kind::ReadRequest => it.ulpdu[1] & 0x0F == 1,
            Kind::Write => it.ulpdu[1] & 0x0F == 0,
            Kind::Send => [3, 5].contains(&(it.ulpdu[1] & 0x0F)),
        },
    },
    Rule {
        ids: &["5040-4.1-4", "5040-4.1-5"],
        expected: "T=1 in a Write, and T=0 in a Read Request and a Send",
        holds: |it| (it.ulpdu[0] & 0x80 != 0) == (it.kind == Kind::Write),
    },
    Rule {
        ids: &["5040-5.1-1"],
        expected: "T=1 in a Write",
        holds: |it| it.kind != Kind::Write || it.ulpdu[0] & 0x80 != 0,
    },
    Rule {
        ids: &["5040-5.2.1-1"],
        expected: "T=0 in a Read Request",
        holds: |it| it.kind != Kind::ReadRequest || it.ulpdu[0] & 0x80 == 0,
    },
    Rule {
        ids: &["5040-5.3-1"],
        expected: "T=0 in a Send",
        holds: |it| it.kind != Kind::Send || it.ulpdu[0] & 0x80 == 0,
    },
    Rule {
        ids: &["5040-3.1-3", "5041-4.1-3"],
        expected: "L=1 in a message of one segment",
        holds: |it| it.kind == Kind::Write || it.ulpdu[0] & 0x40 != 0,
    },
    Rule {
        ids: &["5040-4.2-1", "5041-4.3-1"],
        expected: "46 octets in a Read Request, and 18 and 16 in a Send of rping",
        holds: |it| match it.kind {
            Kind::ReadRequest => it.ulpdu.len() == 46,
            Kind::Send => it.ulpdu.len() == 34,
            Kind::Write => true,
        },
    },
    Rule {
        ids: &["5040-4.1-12"],
        expected: "an Invalidate STag of zero",
        holds: |it| it.field(2).is_none_or(|stag| stag == 0),
    },
    Rule {
        ids: &["5040-3.1-2", "5040-4.1-7", "5041-4.3-6"],
        expected: "QN 1 in a Read Request and QN 0 in a Send",
        holds: |it| it.field(6).is_none_or(|queue| queue == u32::from(it.kind == Kind::ReadRequest)),
    },
    Rule {
        ids: &["5040-5.2.1-6"],
        expected: "QN 1 in a Read Request",
        holds: |it| it.kind != Kind::ReadRequest || it.field(6).is_none_or(|queue| queue == 1),
    },
    Rule {
        ids: &["5040-5.3-8"],
        expected: "QN 0 in a Send",
        holds: |it| it.kind != Kind::Send || it.field(6).is_none_or(|queue| queue == 0),
    },
    Rule {
        ids: &["5041-4.3-13"],
        expected: "MO 0 in a message of one segment",
        holds: |it| it.field(14).is_none_or(|offset| offset == 0),
    },
];

fn headers(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    let mut all = listen(trial, &mut stream, &mut client)?;
    judge_rules(trial, &stream, &all);
    // A second ping shows how numbers grow. After a wrong header, which was judged, the second ping may be missing.
    all.extend(listen(trial, &mut stream, &mut client)?);
    judge_rules(trial, &stream, &all);
    for (kind, count) in [(Kind::ReadRequest, 2), (Kind::Send, 4)] {
        let sent: Vec<u32> = all.iter().filter(|it| it.kind == kind).filter_map(|it| it.field(10)).collect();
        let observed = format!("{sent:?} in its {kind:?}s");
        let first = sent.first() == Some(&1);
        trial.judge(&["5041-4.3-9"], &stream, first, ("1 as the first MSN", &observed));
        let steps = sent.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)) && sent.len() == count;
        trial.judge(&["5041-4.3-8"], &stream, steps, ("MSNs that grow by one", &observed));
    }
    Ok(())
}

fn judge_rules(trial: &mut Trial<'_>, stream: &Stream, all: &[Emitted]) {
    for rule in RULES {
        let odd = all.iter().find(|it| !(rule.holds)(it));
        let observed = odd.map_or_else(String::new, |it| digits(&it.ulpdu, 46));
        trial.judge(rule.ids, stream, odd.is_none(), (rule.expected, observed));
    }
    let mut writes = all.iter().filter(|it| it.kind == Kind::Write);
    let sink = Client::new(0).sink;
    let odd = writes.find(|it| word(&it.ulpdu, 2) != sink.0);
    let observed = odd.map_or_else(String::new, |it| digits(&it.ulpdu, 14));
    trial.judge(&["5041-4.2-7"], stream, odd.is_none(), ("the advertised STag", observed));
}

fn segments(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(LONG);
    let all = listen(trial, &mut stream, &mut client)?;
    let segment = |it: &Emitted| Segment::parse(&it.ulpdu);
    let writes: Vec<_> = all.iter().filter(|it| it.kind == Kind::Write).filter_map(segment).collect();
    let Some((last, before)) = writes.split_last() else {
        return Err(Stop::Unsuited("a server of rping is needed: there is no Write".to_owned()));
    };
    let observed = format!("{} segments, the last one {:02x}{:02x}", writes.len(), last.ddp, last.rdmap);
    let mut judge = |ids: &[&'static str], is_right, expected: &str| {
        trial.judge(ids, &stream, is_right, (expected, &observed));
    };
    let fits = writes.iter().all(|it| it.payload.len() + 14 <= LARGEST_ULPDU);
    judge(&["5041-5.2-1"], fits && !before.is_empty(), "two segments or more, none beyond the largest FPDU");
    judge(&["5041-4.1-3", "5041-4.1-5"], last.is_last(), "L=1 on the segment behind the others");
    judge(&["5041-4.1-4"], !before.iter().any(Segment::is_last), "L=0 on the others");
    let is_same = before.iter().all(|it| it.rdmap == last.rdmap);
    judge(&["5041-4.2-4", "5041-4.2-5"], is_same, "the same RsvdULP in all segments");
    let mut content = Vec::new();
    let (mut is_there, mut is_next) = (true, true);
    for it in &writes {
        let Header::Tagged { stag, to } = it.header else { continue };
        is_there &= stag == client.sink.0;
        is_next &= to == client.sink.1.wrapping_add(content.len() as u64);
        content.extend_from_slice(&it.payload);
    }
    judge(&["5041-4.2-9", "5041-4.2-10"], is_there, "the advertised STag in all segments");
    judge(&["5041-5.2-7", "5041-5.3-3"], is_next, "a TO that grows by each payload");
    judge(&["5041-5.2-3"], content == client.content, "all octets that were read");
    let is_ahead = content.len() >= client.content.len();
    judge(&["5041-5.3-1", "5041-5.3-2"], is_ahead, "all of the Write before the Send");
    Ok(())
}

fn nothing(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let all = listen(trial, &mut stream, &mut Client::new(0))?;
    let writes: Vec<_> = all.iter().filter(|it| it.kind == Kind::Write).collect();
    // The rping of rdma-core writes its text up to the first octet of zero.
    if writes.is_empty() || writes.iter().any(|it| it.ulpdu.len() > 14) {
        return Err(Stop::Unsuited(
            "for a ping of no octets the target sends no Write, or one that is not empty".to_owned(),
        ));
    }
    let is_right = writes.len() == 1 && writes[0].ulpdu[0] & 0x40 != 0;
    let observed = format!("{} segments, the first one {}", writes.len(), digits(&writes[0].ulpdu, 14));
    trial.judge(&["5041-5.2-8"], &stream, is_right, ("one segment with L=1 and no payload", observed));
    Ok(())
}

/// More than one ULPDU holds, and the most that `rping -S` takes.
const LONG: usize = 65_535;
/// RFC 5044 section 5.1: with length, padding, CRC and Markers such an FPDU has less than 65536 octets.
const LARGEST_ULPDU: usize = 64_768;
