//! A few octets back and forth.

use super::Ends;
use crate::case::{Effort, Sample, Side, Trouble};
use crate::octets::{compare, pattern, round_len};
use crate::setting::Setting;
use crate::watch::Watch;

/// A message and its answer, one after the other.
pub(crate) struct Ping {
    ends: Ends,
    size: usize,
    sent: Vec<u8>,
    came: [Vec<u8>; 2],
}

impl Ping {
    pub(crate) fn new(setting: &Setting, size: usize) -> Result<Self, Trouble> {
        let octets = TRIPS.min(round_len(size)) * size;
        let came = [vec![0; octets], vec![0; octets]];
        Ok(Self { ends: Ends::new(setting)?, size, sent: pattern(octets), came })
    }

    /// Each end looks only in its turn: an end that has just sent has nothing to do before the other one has answered.
    fn round(&mut self) -> Result<(), Trouble> {
        let Self { ends, size, sent, came: [near_came, far_came] } = self;
        for place in (0..sent.len()).step_by(*size) {
            let end = place + *size;
            let mut out = place;
            let mut back = place;
            while back < end {
                out = ends.near.send(&sent[..end], out)?;
                let now = ends.now();
                ends.near.poll(now);
                ends.far.poll(now);
                back = ends.far.receive(&mut far_came[..end], back)?;
            }
            let (mut out, mut back) = (place, place);
            while back < end {
                out = ends.far.send(&sent[..end], out)?;
                let now = ends.now();
                ends.far.poll(now);
                ends.near.poll(now);
                back = ends.near.receive(&mut near_came[..end], back)?;
            }
        }
        Ok(())
    }
}

impl Side for Ping {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        while watch.goes_on() {
            watch.time(|| self.round())?;
            for came in &mut self.came {
                compare(came, &self.sent)?;
                came.fill(0);
            }
            let trips = (self.sent.len() / self.size) as u64;
            watch.count(trips, 2 * trips * self.size as u64, trips);
        }
        Ok(watch.finish())
    }
}

/// Round trips of one round, if they are short.
const TRIPS: usize = 1024;
