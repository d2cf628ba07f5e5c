//! Small Sends back and forth.

use weft_rnic::{Access, Completion, CompletionOpcode, Data, Mr, QpCapacity, RecvWr, SendOpcode, SendWr};

use super::{Ends, Node};
use crate::case::{Effort, Sample, Side, Trouble};
use crate::octets::{compare, pattern, round_len};
use crate::watch::Watch;

/// A Send and its answer, one after the other. This thread drives both ends.
pub(crate) struct Ping {
    ends: Ends,
    size: usize,
    /// The number of the connection.
    lane: usize,
    trips: usize,
    sources: [Mr; 2],
    sinks: [Mr; 2],
    sent: Vec<u8>,
    came: Vec<u8>,
    zeros: Vec<u8>,
    /// Receives posted at each end.
    receives: [usize; 2],
}

impl Ping {
    /// Uses connection number `lane`, with messages of `size` octets. They go inline up to the queue pair's limit.
    pub(crate) fn new(ends: Ends, size: usize, lane: usize) -> Result<Self, Trouble> {
        let trips = TRIPS.min(round_len(size));
        let octets = trips * size;
        let sent = pattern(octets);
        let source = |node: &Node| -> Result<Mr, Trouble> {
            let source = node.pd.register(octets, Access::LOCAL_READ).map_err(Trouble::failed)?;
            source.write(0, &sent).map_err(Trouble::failed)?;
            Ok(source)
        };
        let sources = [source(&ends.near)?, source(&ends.far)?];
        let sink = |node: &Node| node.pd.register(octets, Access::LOCAL_WRITE).map_err(Trouble::failed);
        let sinks = [sink(&ends.near)?, sink(&ends.far)?];
        let mut ping = Self {
            sources,
            sinks,
            ends,
            size,
            lane,
            trips,
            sent,
            came: vec![0; octets],
            zeros: vec![0; octets],
            receives: [0; 2],
        };
        for _ in 0..RECEIVES {
            ping.post_receive(0)?;
            ping.post_receive(1)?;
        }
        Ok(ping)
    }

    fn round(&mut self) -> Result<(), Trouble> {
        for trip in 0..self.trips {
            self.send(0, trip)?;
            // The end that posted drives its device first, so that the message is sent.
            loop {
                if self.arrived(0)? {
                    return Err(Trouble::failed("an answer to nothing"));
                }
                if self.arrived(1)? {
                    break;
                }
            }
            self.send(1, trip)?;
            loop {
                if self.arrived(1)? {
                    return Err(Trouble::failed("a message that nobody has sent"));
                }
                if self.arrived(0)? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn send(&self, side: usize, trip: usize) -> Result<(), Trouble> {
        let place = trip * self.size;
        let sge = [self.sources[side].sge(place, u32::try_from(self.size).unwrap_or(u32::MAX))];
        let is_inline = self.size <= QpCapacity::default().inline;
        let data =
            if is_inline { Data::Inline(&self.sent[place..place + self.size]) } else { Data::Sges(&sge) };
        let signaled = trip.is_multiple_of(SIGNAL_EVERY);
        let wr = SendWr { data, signaled, ..SendWr::new(SendOpcode::Send) };
        self.node(side).qps[self.lane].post_send(&wr).map_err(Trouble::failed)
    }

    /// Returns true if a message has arrived, and posts the receive for a later one. Otherwise drives the device.
    fn arrived(&mut self, side: usize) -> Result<bool, Trouble> {
        let mut out = [Completion::EMPTY];
        let Some(&completion) = self.node(side).poll(&mut out)?.first() else { return Ok(false) };
        if completion.opcode == CompletionOpcode::Send {
            return Ok(false);
        }
        if completion.opcode != CompletionOpcode::Recv || completion.byte_len as usize != self.size {
            return Err(Trouble::failed(format!("{completion:?}")));
        }
        self.post_receive(side)?;
        Ok(true)
    }

    fn post_receive(&mut self, side: usize) -> Result<(), Trouble> {
        let place = self.receives[side] % self.trips * self.size;
        self.receives[side] += 1;
        let sges = [self.sinks[side].sge(place, u32::try_from(self.size).unwrap_or(u32::MAX))];
        let wr = RecvWr { wr_id: 0, sges: &sges };
        self.node(side).qps[self.lane].post_recv(&wr).map_err(Trouble::failed)
    }

    fn node(&self, side: usize) -> &Node {
        if side == 0 { &self.ends.near } else { &self.ends.far }
    }

    fn check(&mut self) -> Result<(), Trouble> {
        for sink in &self.sinks {
            sink.read(0, &mut self.came).map_err(|_| Trouble::failed("the sink is too small"))?;
            compare(&self.came, &self.sent)?;
            sink.write(0, &self.zeros).map_err(|_| Trouble::failed("the sink is too small"))?;
        }
        Ok(())
    }
}

impl Side for Ping {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        while watch.goes_on() {
            watch.time(|| self.round())?;
            self.check()?;
            let trips = self.trips as u64;
            watch.count(trips, 2 * trips * self.size as u64, trips);
        }
        Ok(watch.finish())
    }
}

/// The poll of a signaled Send frees the places of those before it; less than any queue holds.
const SIGNAL_EVERY: usize = 8;
/// Round trips of one round, if they are short.
const TRIPS: usize = 1024;
/// Receives that are always posted.
const RECEIVES: usize = 8;
