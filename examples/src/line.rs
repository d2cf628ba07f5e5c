//! Two TCP stacks on one wire in memory, in one thread and on a clock of their own.

use weft_mpa::Config;
use weft_netif::{ConnectionId, Instant, Llp, Stack, StackConfig};
use weft_rnic::ulp::{Agreement, Startup, StartupEvent};

use crate::{PORT, Result};

/// One TCP connection with both ends in this thread.
///
/// A program on one host has one [`Stack`]. It sleeps until its wire's descriptor is readable, or until
/// [`Stack::poll_at`]. Here the clock jumps to the next event.
#[derive(Debug)]
pub struct Line {
    stacks: [Stack; 2],
    ids: [ConnectionId; 2],
    now: Instant,
}

impl Line {
    /// Two hosts, 10.0.0.1 and 10.0.0.2, and a connection between them.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn new() -> Result<Self> {
        let (left, right) = weft_netif::pair(1500);
        let stack = |wire, address: &str, seed| -> Result<Stack> {
            Ok(Stack::new(wire, StackConfig { seed, ..StackConfig::new(address.parse()?) }, Instant::ZERO))
        };
        let [mut left, mut right] = [stack(left, "10.0.0.1/24", 1)?, stack(right, "10.0.0.2/24", 2)?];
        let address = right.ip().address;
        right.listen(PORT)?;
        let opened = left.connect((address, PORT).into(), None, Instant::ZERO)?;
        let mut line = Self { stacks: [left, right], ids: [opened, opened], now: Instant::ZERO };
        let mut accepted = None;
        line.run(|line| {
            accepted = line.stacks[1].next_accepted().map(|(id, _)| id);
            Ok(accepted.is_some())
        })?;
        line.ids[1] = accepted.ok_or("no connection")?;
        Ok(line)
    }

    /// Returns the byte streams of one end.
    ///
    /// # Errors
    /// When the stack has forgotten the connection.
    pub fn llp(&mut self, end: usize) -> Result<Llp<'_>> {
        self.stacks[end].llp(self.ids[end]).ok_or_else(|| "the connection is gone".into())
    }

    /// Connects both ends by MPA's startup. The first end is the initiator.
    ///
    /// # Errors
    /// When the settings of the two ends do not fit.
    pub fn start(&mut self, [left, right]: [Config; 2]) -> Result<[Agreement; 2]> {
        let mut startups = [Startup::initiator(left, b"an example")?, Startup::responder(right)];
        let mut agreements = [None, None];
        self.run(|line| {
            for (end, startup) in startups.iter_mut().enumerate() {
                while let Some(event) = startup.poll(&mut line.llp(end)?)? {
                    match event {
                        StartupEvent::Requested { private_data, .. } => {
                            println!("asked with {:?}", String::from_utf8_lossy(&private_data));
                            startup.accept([right.ird, right.ord], b"")?;
                        }
                        StartupEvent::Established(agreement) => agreements[end] = Some(agreement),
                        other => return Err(format!("not connected: {other:?}").into()),
                    }
                }
            }
            Ok(agreements.iter().all(Option::is_some))
        })?;
        let [left, right] = agreements;
        Ok([left.ok_or("not connected")?, right.ok_or("not connected")?])
    }

    /// Runs until `act` returns true.
    ///
    /// # Errors
    /// The error of `act`, or when nothing happens any more.
    pub fn run(&mut self, mut act: impl FnMut(&mut Self) -> Result<bool>) -> Result {
        loop {
            for stack in &mut self.stacks {
                stack.ingress(self.now);
                // With only two connections each gets a look in every round.
                while stack.next_ready().is_some() {}
            }
            if act(self)? {
                return Ok(());
            }
            for stack in &mut self.stacks {
                stack.egress(self.now);
            }
            let next = self.stacks.iter().filter_map(|stack| stack.poll_at(self.now)).min();
            self.now = next.ok_or("nothing happens any more")?.max(self.now);
        }
    }
}
