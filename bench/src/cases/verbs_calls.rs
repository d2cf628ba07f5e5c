//! The cost of single calls, beside an uncontended lock and unlock of a Mutex.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use weft_rnic::{Access, CLOCK_SCALE, Completion, Data, Mr, Progress, RecvWr, SendOpcode, SendWr};

use crate::case::{Case, Effort, Quantity, Reference, Sample, Side, Sides, Target, Trouble};
use crate::octets::{compare, pattern};
use crate::ours::{Ends, Node};
use crate::setting::Setting;
use crate::watch::Watch;

pub(super) static CASES: [Case; 3] = [
    Case {
        name: "verbs/post-send-8",
        quantity: Quantity::Nanos,
        references: &[Reference::with_target(MUTEX, Target::RatioAtMost(3.0))],
        clock_scale: CLOCK_SCALE,
        open: |_, _| Ok(Sides { ours: Box::new(Posts::new()?), references: vec![mutex()] }),
    },
    Case {
        name: "verbs/poll-empty",
        quantity: Quantity::Nanos,
        references: &[Reference::with_target(MUTEX, Target::RatioAtMost(1.0))],
        clock_scale: CLOCK_SCALE,
        open: |_, _| polls(Progress::External),
    },
    Case {
        name: "verbs/poll-empty/manual",
        quantity: Quantity::Nanos,
        references: &[Reference::shown(MUTEX)],
        clock_scale: CLOCK_SCALE,
        open: |_, _| polls(Progress::Manual),
    },
];

/// With manual progress a poll that finds nothing drives the engine, which has nothing to do here.
fn polls(progress: Progress) -> Result<Sides, Trouble> {
    let setting = Setting { progress, ..Setting::new(1500) };
    let [wire, _] = setting.wires();
    let idle = Node::open(wire, setting.device(0), 1, 16)?;
    Ok(Sides { ours: Box::new(Polls(idle)), references: vec![mutex()] })
}

fn mutex() -> Box<dyn Side> {
    Box::new(Locks(Mutex::new(0)))
}

/// `post_send` of 8 octets inline, without a completion, on a connection that no thread drives meanwhile.
struct Posts {
    ends: Ends,
    sink: Mr,
    sent: Vec<u8>,
    came: Vec<u8>,
}

impl Posts {
    fn new() -> Result<Self, Trouble> {
        let depth = u32::try_from(CALLS).unwrap_or(u32::MAX);
        let ends = Ends::on_pair(&Setting::new(1500), 1, depth)?;
        let octets = CALLS * 8;
        let sink = ends.far.pd.register(octets, Access::LOCAL_WRITE).map_err(Trouble::failed)?;
        let posts = Self { ends, sink, sent: pattern(octets), came: vec![0; octets] };
        (0..CALLS).try_for_each(|place| posts.post_receive(place))?;
        Ok(posts)
    }

    fn post_receive(&self, place: usize) -> Result<(), Trouble> {
        let sges = [self.sink.sge(place * 8, 8)];
        let wr = RecvWr { wr_id: place as u64, sges: &sges };
        self.ends.far.qps[0].post_recv(&wr).map_err(Trouble::failed)
    }

    fn post_all(&self) -> Result<(), Trouble> {
        let qp = &self.ends.near.qps[0];
        for (place, octets) in self.sent.chunks_exact(8).enumerate() {
            let signaled = place + 1 == CALLS;
            let wr = SendWr { data: Data::Inline(octets), signaled, ..SendWr::new(SendOpcode::Send) };
            qp.post_send(&wr).map_err(Trouble::failed)?;
        }
        Ok(())
    }

    fn take_all(&self) -> Result<(), Trouble> {
        let mut out = [Completion::EMPTY; 64];
        let (mut arrived, mut done) = (0, 0);
        while arrived < CALLS || done == 0 {
            done += self.ends.near.poll(&mut out)?.len();
            let taken = self.ends.far.poll(&mut out)?.len();
            for place in arrived..arrived + taken {
                self.post_receive(place)?;
            }
            arrived += taken;
        }
        Ok(())
    }
}

impl Side for Posts {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        while watch.goes_on() {
            watch.time(|| self.post_all())?;
            self.take_all()?;
            self.sink.read(0, &mut self.came).map_err(|_| Trouble::failed("the sink is too small"))?;
            compare(&self.came, &self.sent)?;
            self.came.fill(0);
            self.sink.write(0, &self.came).map_err(|_| Trouble::failed("the sink is too small"))?;
            watch.count(CALLS as u64, 0, CALLS as u64);
        }
        Ok(watch.finish())
    }
}

/// Polls of an empty completion queue.
struct Polls(Node);

impl Side for Polls {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        let mut out = [Completion::EMPTY];
        while watch.goes_on() {
            let found: usize =
                watch.time(|| (0..CALLS).map(|_| black_box(&self.0.cq).poll(black_box(&mut out))).sum());
            let empty = (CALLS - found.min(CALLS)) as u64;
            watch.count(CALLS as u64, 0, empty);
        }
        Ok(watch.finish())
    }
}

/// A Mutex that is locked, and unlocked.
struct Locks(Mutex<u64>);

impl Side for Locks {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        while watch.goes_on() {
            let before = *self.lock();
            watch.time(|| {
                for _ in 0..CALLS {
                    *black_box(&self.0).lock().unwrap_or_else(PoisonError::into_inner) += 1;
                }
            });
            watch.count(CALLS as u64, 0, *self.lock() - before);
        }
        Ok(watch.finish())
    }
}

impl Locks {
    fn lock(&self) -> std::sync::MutexGuard<'_, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const MUTEX: &str = "a Mutex, locked and unlocked";
/// Calls of one round.
const CALLS: usize = 4096;
