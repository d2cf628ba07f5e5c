//! Segments as text.

use weft_tcp::{Ecn, Flags, Interval, Options, Segment, Seq, Timestamps};

/// The ISN of the host under test and of its peer.
#[derive(Clone, Copy)]
pub(crate) struct Isns {
    pub(crate) own: Seq,
    pub(crate) peer: Seq,
}

impl Isns {
    /// Returns the numbers as the peer sees them.
    pub(crate) fn mirrored(self) -> Self {
        Self { own: self.peer, peer: self.own }
    }
}

/// What a line says of a segment.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) window: bool,
    pub(crate) options: bool,
    /// The sequence number is meant as it stands, not relative to the ISN.
    pub(crate) raw: bool,
}

/// Reads a segment from a side with the ISN `isns.own`. Returns what of it was said, too.
pub(crate) fn read(text: &str, isns: Isns) -> Result<(Segment, Shown), String> {
    let mut segment = Segment::new(isns.own, None);
    let (text, options) = match text.split_once('<') {
        Some((text, rest)) => (text, Some(rest.strip_suffix('>').ok_or("no > at the end")?)),
        None => (text, None),
    };
    let mut shown = Shown { window: false, options: options.is_some(), raw: false };
    let mut words = text.split_whitespace().peekable();
    if let Some(ecn) = words.next_if(|word| word.starts_with('[')) {
        segment.ecn = match ecn {
            "[ect0]" => Ecn::Ect0,
            "[ect1]" => Ecn::Ect1,
            "[ce]" => Ecn::Ce,
            _ => return Err(format!("no codepoint: {ecn}")),
        };
    }
    let flags = words.next().ok_or("no flags")?;
    for flag in flags.chars().filter(|&flag| flag != '.') {
        segment.flags |=
            FLAGS.iter().find(|(name, _)| *name == flag).ok_or_else(|| format!("no flag: {flag}"))?.1;
    }
    let (start, rest) = words.next().and_then(|word| word.split_once(':')).ok_or("no numbers")?;
    let (end, len) = rest.strip_suffix(')').and_then(|rest| rest.split_once('(')).ok_or("no length")?;
    let (start, end): (u32, u32) = (number(start)?, number(end)?);
    segment.len = number(len)?;
    if end != start + segment.len {
        return Err(format!("{start} and {} are {end}", segment.len));
    }
    segment.seq = isns.own + start;
    while let Some(word) = words.next() {
        match (word, words.peek()) {
            ("raw", _) => (segment.seq, shown.raw) = (Seq(start), true),
            ("ack", Some(value)) => segment.ack = Some(isns.peer + number(value)?),
            ("win", Some(value)) => (segment.window, shown.window) = (number(value)?, true),
            _ => return Err(format!("what is {word}?")),
        }
        if word != "raw" {
            words.next();
        }
    }
    if flags.contains('.') != segment.ack.is_some() {
        return Err("a dot without ack, or ack without a dot".into());
    }
    segment.options = read_options(options.unwrap_or_default(), isns)?;
    Ok((segment, shown))
}

fn read_options(text: &str, isns: Isns) -> Result<Options, String> {
    let mut options = Options::default();
    for option in text.split(',').filter(|option| !option.is_empty()) {
        match *option.split_whitespace().collect::<Vec<_>>() {
            ["mss", value] => options.mss = Some(number(value)?),
            ["wscale", value] => options.window_scale = Some(number(value)?),
            ["sackOK"] => options.sack_permitted = true,
            ["TS", "val", value, "ecr", echo] => {
                options.timestamps = Some(Timestamps { value: number(value)?, echo: number(echo)? });
            }
            ["sack", ref blocks @ ..] => {
                for block in blocks {
                    let (start, end) = block.split_once(':').ok_or("no block")?;
                    let (start, end) = (isns.peer + number::<u32>(start)?, isns.peer + number::<u32>(end)?);
                    options.sack.push(Interval { start, end });
                }
            }
            _ => return Err(format!("no option: {option}")),
        }
    }
    Ok(options)
}

/// Writes of a segment what `shown` says, as [`read`] reads it.
pub(crate) fn write(segment: &Segment, isns: Isns, shown: Shown) -> String {
    let mut text = match segment.ecn {
        Ecn::NotEct => String::new(),
        ecn => format!("[{}] ", ["", "ect1", "ect0", "ce"][ecn as usize]),
    };
    text.extend(FLAGS.iter().filter(|(_, flag)| segment.flags.has(*flag)).map(|(name, _)| *name));
    text += if segment.ack.is_some() { "." } else { "" };
    let start = if shown.raw { segment.seq.0 } else { segment.seq.since(isns.own) };
    text += &format!(" {start}:{}({})", start.wrapping_add(segment.len), segment.len);
    text += if shown.raw { " raw" } else { "" };
    text += &segment.ack.map_or(String::new(), |ack| format!(" ack {}", ack.since(isns.peer)));
    if shown.window {
        text += &format!(" win {}", segment.window);
    }
    let Options { mss, window_scale, sack_permitted, timestamps, sack } = segment.options;
    let mut options = Vec::new();
    if shown.options {
        options.extend(mss.map(|mss| format!("mss {mss}")));
        options.extend(sack_permitted.then(|| "sackOK".into()));
        options.extend(timestamps.map(|stamps| format!("TS val {} ecr {}", stamps.value, stamps.echo)));
        options.extend(window_scale.map(|shift| format!("wscale {shift}")));
    }
    if !sack.is_empty() {
        let numbers = |block: &Interval| (block.start.since(isns.peer), block.end.since(isns.peer));
        let blocks = sack.as_slice().iter().map(numbers).map(|(start, end)| format!(" {start}:{end}"));
        options.push(format!("sack{}", blocks.collect::<String>()));
    }
    if !options.is_empty() {
        text += &format!(" <{}>", options.join(","));
    }
    text
}

pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("no number: {text}"))
}

const FLAGS: [(char, Flags); 7] = [
    ('S', Flags::SYN),
    ('F', Flags::FIN),
    ('R', Flags::RST),
    ('P', Flags::PSH),
    ('U', Flags::URG),
    ('E', Flags::ECE),
    ('W', Flags::CWR),
];
