//! Two threads on a ring alone: what sockets in shared memory cost without calls, tables and waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use weft_sockets::layout::End;
use weft_sockets::{Carrier, Inbound, Link, Outbound, RingPlace, Slab};

use crate::case::{Effort, Sample, Side, Trouble};
use crate::cores::keep_to;
use crate::process::{Outcome, say};
use crate::watch::Watch;

/// Messages of 8 octets through a ring.
pub(super) struct Ring {
    world: Arc<World>,
    goes_back: bool,
}

/// One thread that writes to a ring what it reads from it: messages of 8 octets.
pub(super) struct Alone(World);

/// The memory of a connection and of its two ends.
struct World {
    link: Link,
    slab: Slab,
}

impl Ring {
    /// Messages there and back, one at a time.
    pub(super) fn round_trips() -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Self { world: Arc::new(World::new()?), goes_back: true }))
    }

    /// Messages one way.
    pub(super) fn messages() -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Self { world: Arc::new(World::new()?), goes_back: false }))
    }
}

impl Alone {
    pub(super) fn messages() -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Self(World::new()?)))
    }
}

impl Side for Alone {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let (outbound, inbound) = (self.0.outbound(0)?, self.0.inbound(1)?);
        let mut watch = Watch::new(effort);
        while watch.goes_on() {
            watch.time(|| {
                (0..ROUND).try_for_each(|number| {
                    let mut came = [0; 8];
                    let sent = outbound.write(&number.to_le_bytes());
                    let is_whole = sent == Ok(8) && inbound.read(&mut came) == Ok(8);
                    if is_whole && came == number.to_le_bytes() { Ok(()) } else { Err(lost()) }
                })
            })?;
            watch.count(ROUND, ROUND * 8, ROUND);
        }
        Ok(watch.finish())
    }
}

impl World {
    fn new() -> Outcome<Self> {
        let link = Link::create().and_then(Link::map).map_err(say("making a link"))?;
        let slab = Slab::create().and_then(Slab::map).map_err(say("making a slab"))?;
        let world = Self { link, slab };
        for party in 0..2 {
            let place = RingPlace::new(64 + party, 16).ok_or_else(lost)?;
            world.outbound(party)?.begin_leg(Carrier::Ring(place)).map_err(|_| lost())?;
        }
        Ok(world)
    }

    fn end(&self, party: u32) -> Outcome<&End> {
        self.slab.end(party).ok_or_else(lost)
    }

    fn outbound(&self, party: u32) -> Outcome<Outbound<'_>> {
        Outbound::new(&self.end(party)?.outbound, &self.link, 0, party).ok_or_else(lost)
    }

    fn inbound(&self, party: u32) -> Outcome<Inbound<'_>> {
        Inbound::new(&self.end(party)?.inbound, &self.link, 0, party).ok_or_else(lost)
    }

    /// Answers messages, or only takes them, until the last one.
    fn serve(&self, goes_back: bool, ends: &AtomicBool) -> Outcome<()> {
        let (inbound, outbound) = (self.inbound(1)?, self.outbound(1)?);
        let mut expected = 0_u64;
        let mut octets = [0; 4096];
        while !ends.load(Ordering::Relaxed) {
            let wanted = if goes_back { 8 } else { octets.len() };
            let len = inbound.read(&mut octets[..wanted]).map_err(|_| lost())?;
            for message in octets[..len].chunks_exact(8) {
                if message != expected.to_le_bytes() {
                    return Err(lost());
                }
                expected += 1;
            }
            if goes_back && len > 0 {
                outbound.write(&octets[..len]).map_err(|_| lost())?;
            }
            if len == 0 {
                core::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Takes a turn with numbers from `next` on.
    fn ask(&self, goes_back: bool, effort: &Effort, next: &mut u64) -> Outcome<Sample> {
        let (inbound, outbound) = (self.inbound(0)?, self.outbound(0)?);
        let mut watch = Watch::new(effort);
        while watch.goes_on() {
            watch.time(|| -> Outcome<()> {
                for _ in 0..ROUND {
                    while outbound.write(&next.to_le_bytes()).map_err(|_| lost())? == 0 {
                        core::hint::spin_loop();
                    }
                    let mut came = [0; 8];
                    while goes_back && inbound.read(&mut came).map_err(|_| lost())? == 0 {
                        core::hint::spin_loop();
                    }
                    if goes_back && came != next.to_le_bytes() {
                        return Err(lost());
                    }
                    *next += 1;
                }
                while outbound.unread().map_err(|_| lost())? > 0 {
                    core::hint::spin_loop();
                }
                Ok(())
            })?;
            watch.count(ROUND, ROUND * 8, ROUND);
        }
        Ok(watch.finish())
    }
}

impl Side for Ring {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let ends = AtomicBool::new(false);
        // Numbers begin anew in each turn, as the other thread does.
        let mut next = 0;
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                keep_to(1).map_err(say("keeping to a core"))?;
                self.world.serve(self.goes_back, &ends)
            });
            let asked = scope.spawn(|| {
                let kept = keep_to(0).map_err(say("keeping to a core"));
                let sample = kept.and_then(|()| self.world.ask(self.goes_back, effort, &mut next));
                ends.store(true, Ordering::Relaxed);
                sample
            });
            let sample = asked.join().unwrap_or_else(|_| Err(lost()));
            server.join().unwrap_or_else(|_| Err(lost()))?;
            sample
        })
    }
}

fn lost() -> Trouble {
    Trouble::failed("the bare ring lost a message")
}

const ROUND: u64 = 16_384;
