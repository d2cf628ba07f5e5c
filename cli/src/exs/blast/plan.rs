//! What the two ends of a measurement agree on.

use clap::ValueEnum;
use serde_json::{Value, json};
use weft_exs::Options;

use super::wait::Wait;

/// What sockets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Carries {
    /// Messages
    Message,
    /// A stream of octets
    Stream,
}

/// The socket of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) carries: Carries,
    /// Octets of a send and of a receive.
    pub(super) size: usize,
    /// The longest immediate data.
    pub(super) small: u32,
    /// Receives at a time.
    pub(super) recvs: usize,
    /// A receive of a stream waits until it is full.
    pub(super) waits_for_all: bool,
    pub(super) wait: Wait,
}

impl Plan {
    /// Returns what the end that sends tells the other one.
    pub(super) fn to_json(self) -> Value {
        json!({
            "type": self.carries.name(),
            "size": self.size,
            "small": self.small,
            "recvs": self.recvs,
            "waitall": self.waits_for_all,
            "wait": self.wait.name(),
        })
    }

    /// Reads a plan of a peer. `None` if it makes no sense, or takes too much memory.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64().and_then(|number| usize::try_from(number).ok());
        let plan = Self {
            carries: Carries::from_str(value["type"].as_str()?, false).ok()?,
            size: number("size").filter(|size| (1..=MAX_SIZE).contains(size))?,
            small: u32::try_from(number("small")?).ok().filter(|small| *small <= MAX_IMMEDIATE)?,
            recvs: number("recvs").filter(|recvs| (1..=MAX_OPERATIONS).contains(&(*recvs as u64)))?,
            waits_for_all: value["waitall"].as_bool()?,
            wait: Wait::from_str(value["wait"].as_str()?, false).ok()?,
        };
        (plan.size.checked_mul(plan.recvs)? <= MAX_MEMORY).then_some(plan)
    }

    /// Returns the options of both ends. Large slots are few.
    pub(super) fn options(&self) -> Options {
        let options = Options { small_packet_max: self.small, ..Options::default() };
        if self.small > LARGE {
            Options { window: 8, send_credits: 8, recv_credits: 8, ..options }
        } else {
            options
        }
    }
}

impl Carries {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Stream => "stream",
        }
    }
}

/// What the option `small_packet_max` is at most.
pub(super) const MAX_IMMEDIATE: u32 = 16 << 20;
/// Octets of a send.
pub(super) const MAX_SIZE: usize = 64 << 20;
/// Operations of each direction that a socket takes.
pub(super) const MAX_OPERATIONS: u64 = 64;
/// Octets of all receives, or of all sends, at a time.
pub(super) const MAX_MEMORY: usize = 1 << 30;
/// Immediate data of which only few slots are made.
const LARGE: u32 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        carries: Carries::Stream,
        size: 4096,
        small: 0,
        recvs: 16,
        waits_for_all: true,
        wait: Wait::Poll,
    };

    #[test]
    fn a_plan_comes_as_it_was_told() {
        assert_eq!(Plan::from_json(&PLAN.to_json()), Some(PLAN));
    }

    #[test]
    fn a_plan_without_sense_is_refused() {
        let wrong = [
            ("type", json!("datagram")),
            ("size", json!(0)),
            ("size", json!(MAX_SIZE + 1)),
            ("small", json!((16 << 20) + 1)),
            ("small", json!(-1)),
            ("recvs", json!(0)),
            ("recvs", json!(65)),
            ("waitall", json!("yes")),
            ("wait", json!("yes")),
        ];
        for (name, value) in wrong {
            let mut told = PLAN.to_json();
            told[name] = value;
            assert_eq!(Plan::from_json(&told), None, "{name}: {told}");
        }
        let much = Plan { size: MAX_SIZE, recvs: 64, ..PLAN };
        assert_eq!(Plan::from_json(&much.to_json()), None);
    }
}
