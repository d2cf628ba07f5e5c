//! The share of user data in all octets that TCP carries.

use std::time::Duration;

use weft_rnic::CLOCK_SCALE;

use crate::case::{Case, Effort, Quantity, Reference, Sample, Side, Sides, Target, Trouble};
use crate::ours::{Ends, Op, Stream, Work};
use crate::setting::Setting;

pub(super) static CASES: [Case; 2] = [
    Case {
        name: "pair/payload/mtu-1500",
        quantity: Quantity::Share,
        references: &[Reference::with_target("all payload of TCP", Target::RatioAtLeast(0.98))],
        clock_scale: CLOCK_SCALE,
        open: |_, effort| open(&Setting::new(1500), effort),
    },
    Case {
        name: "pair/payload/mtu-65535",
        quantity: Quantity::Share,
        references: &[Reference::with_target("all payload of TCP", Target::RatioAtLeast(0.999))],
        clock_scale: CLOCK_SCALE,
        open: |_, effort| open(&Setting::new(65_535), effort),
    },
];

fn open(setting: &Setting, effort: &Effort) -> Result<Sides, Trouble> {
    let work = Work::new(Op::Write, effort.octets(1 << 20));
    let stream = Stream::new(Ends::on_pair(setting, 1, 64)?, work)?;
    Ok(Sides { ours: Box::new(Ours(stream)), references: vec![Box::new(All)] })
}

/// The stream. TCP's counters before and after it give the octets that TCP has sent for it.
struct Ours(Stream);

impl Side for Ours {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let before = self.carried();
        let sample = self.0.turn(effort)?;
        let carried = self.carried() - before;
        if carried < sample.octets {
            return Err(Trouble::failed(format!("TCP has carried {carried} octets of {}", sample.octets)));
        }
        Ok(Sample { figure: sample.octets as f64 / carried as f64, ..sample })
    }
}

impl Ours {
    fn carried(&self) -> u64 {
        self.0.ends().near.device.counters().tcp.octets_sent
    }
}

/// All octets of TCP, as the reference of the share. It does no work.
struct All;

impl Side for All {
    fn turn(&mut self, _: &Effort) -> Result<Sample, Trouble> {
        let nothing = Duration::from_nanos(1);
        Ok(Sample { figure: 1.0, transfers: 1, checked: 1, wall: nothing, ..Sample::default() })
    }
}
