//! What a script does and asks beside segments.
//!
//! | line | meaning |
//! |---|---|
//! | `set NAME VALUE` | a setting, before anything else |
//! | `open RTT MSS WINDOW OPTIONS` | a peer opens a connection; the round trip in ms |
//! | `listen`, `connect`, `write OCTETS`, `read OCTETS`, `close`, `abort` | calls of the user |
//! | `icmp too-big MSS NUMBER`, `icmp hard NUMBER`, `icmp soft NUMBER` | a message that quotes the segment with this number |
//! | `freeze`, `thaw`, `renege` | lack of memory |
//! | `state NAME`, `cause NAME` | the state, and why the connection has ended |
//! | `received OCTETS`, `released FRAMES` | what has come in order, and what is acknowledged, in all |
//! | `wait` | nothing: silence up to here |

use weft_tcp::{Micros, Segment, Seq, Unreachable};

use crate::host::{Host, Role};
use crate::text::number;

pub(crate) fn call(host: &mut Host, text: &str, now: Micros) -> Result<(), String> {
    let words: Vec<_> = text.split_whitespace().collect();
    match *words {
        ["set", name, value] => set(host, name, value)?,
        ["listen"] => host.listen(),
        ["connect"] => host.connect(now),
        ["write", octets] => host.write(number(octets)?, now)?,
        ["read", octets] => host.read(number(octets)?, now)?,
        ["close"] => {
            let effects = host.connection()?.close(now);
            host.take(Segment::new(Seq(0), None), effects, now);
        }
        ["abort"] => {
            let effects = host.connection()?.abort(now);
            host.take(Segment::new(Seq(0), None), effects, now);
        }
        ["icmp", "too-big", mss, quoted] => icmp(host, Unreachable::TooBig(number(mss)?), quoted, now)?,
        ["icmp", "hard", quoted] => icmp(host, Unreachable::Hard, quoted, now)?,
        ["icmp", "soft", quoted] => icmp(host, Unreachable::Soft, quoted, now)?,
        ["freeze"] => host.connection()?.freeze(true),
        ["thaw"] => host.connection()?.freeze(false),
        ["renege"] => host.connection()?.renege(),
        ["state", name] => expect(&state(host), name)?,
        ["cause", name] => {
            expect(&host.cause.map_or_else(|| "none".into(), |cause| format!("{cause:?}")), name)?
        }
        ["received", octets] => expect(&host.received.to_string(), octets)?,
        ["released", frames] => expect(&host.released.to_string(), frames)?,
        ["wait"] => {}
        _ => return Err(format!("no call: {text}")),
    }
    Ok(())
}

/// Whether a call only asks, and so may stand before the segments of its moment.
pub(crate) fn asks(text: &str) -> bool {
    ["state ", "cause ", "received ", "released "].iter().any(|call| text.starts_with(call))
}

fn set(host: &mut Host, name: &str, value: &str) -> Result<(), String> {
    let millis = || number(value).map(Micros::from_millis);
    let config = &mut host.config;
    match name {
        "mss" => config.mss = number(value)?,
        "timestamps" => config.timestamps = value == "on",
        "scaling" => config.window_scaling = value == "on",
        "sack" => config.sack = value == "on",
        "ecn" => config.ecn = value == "on",
        "pacing" => config.send.pacing = value == "on",
        "timeout" => config.timeout = Some(millis()?),
        "keep-alive" => config.keep_alive = Some(millis()?),
        "ack-delay" => config.receive.ack_delay = millis()?,
        "window" => config.receive.window = number(value)?,
        "window-max" => config.receive.window_max = number(value)?,
        "reads" => host.reads = value == "on",
        "backlog" => host.backlog = number(value)?,
        _ => return Err(format!("no setting: {name}")),
    }
    Ok(())
}

fn icmp(host: &mut Host, what: Unreachable, quoted: &str, now: Micros) -> Result<(), String> {
    let quoted = host.iss + number::<u32>(quoted)?;
    let effects = host.connection()?.icmp(quoted, what, now);
    host.take(Segment::new(Seq(0), None), effects, now);
    Ok(())
}

fn state(host: &Host) -> String {
    match &host.role {
        Role::Closed => "Closed".into(),
        Role::Listening(halves) => if halves.is_empty() { "Listen" } else { "SynReceived" }.into(),
        Role::Open(connection) => format!("{:?}", connection.state()),
        Role::Waiting(_) => "TimeWait".into(),
    }
}

fn expect(is: &str, wanted: &str) -> Result<(), String> {
    if is == wanted { Ok(()) } else { Err(format!("it is {is}")) }
}
