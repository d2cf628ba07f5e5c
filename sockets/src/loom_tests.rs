//! Models of a direction. Loom runs each with all interleavings of its threads, up to the preemptions that
//! `.ci/run loom` allows, and with all values that a load may see.
//!
//! Each model is run again with an ordering weakened or a step left out, to see that loom finds that. A thread that
//! would sleep ends instead: a model checks at its end that each of them was woken if there is something for it.

mod counts;
mod locks;
mod lowering;
mod switch;
mod waits;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use loom::thread::JoinHandle;

use crate::layout::{OwnInbound, OwnOutbound};
use crate::leg::{Carrier, RingPlace};
use crate::memory::Link;
use crate::sync::model::{Weakened, weaken};
use crate::sync::{AtomicU32, Ordering};
use crate::{Inbound, Outbound, Sleep, Sleepers, Source, WaiterName};

/// Runs a model as it is, which has to pass, and with each of the orderings weakened, which loom has to find.
fn check(weakened: &[Weakened], model: impl Fn() + Copy + Sync + Send + 'static) {
    check_within(None, weakened, model);
}

/// As [`check`], with so many preemptions at most; `None` leaves it to the environment.
fn check_within(
    preemptions: Option<usize>,
    weakened: &[Weakened],
    model: impl Fn() + Copy + Sync + Send + 'static,
) {
    weaken(Weakened::Nothing);
    run(preemptions, model);
    for &each in weakened {
        weaken(each);
        assert!(is_found(preemptions, model), "loom does not find {each:?}");
    }
    weaken(Weakened::Nothing);
}

/// Runs a model that leaves out a step: loom has to find that.
fn find(model: impl Fn() + Sync + Send + 'static) {
    weaken(Weakened::Nothing);
    assert!(is_found(None, model), "loom does not find it");
}

fn run(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.or(builder.preemption_bound);
    builder.check(model);
}

/// Returns whether an assertion of the model fails, and not something else.
fn is_found(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) -> bool {
    let text = |panic: Box<dyn Any + Send>| {
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.into()))
    };
    match catch_unwind(AssertUnwindSafe(|| run(preemptions, model))).map_err(text) {
        Ok(()) => false,
        Err(Some(text)) if text.contains("model:") => true,
        Err(text) => panic!("the model itself failed: {text:?}"),
    }
}

/// The memory of a direction: party 0 sends to party 1. The octet at position `p` is `p + 1`.
#[derive(Debug)]
struct World {
    link: Link,
    outbound: OwnOutbound,
    inbound: OwnInbound,
    /// The lines and bells of the two threads that may sleep.
    sender: Waiter,
    reader: Waiter,
}

/// A thread that may sleep.
#[derive(Debug, Default)]
struct Waiter {
    asleep: AtomicU32,
    /// Wake-ups that were sent.
    bell: AtomicU32,
}

const SLEEP: Sleep = Sleep { waiter: WaiterName { member: 0, line: 0 }, number: 1 };

impl World {
    /// A direction that is in the first ring already.
    fn ringed() -> Arc<Self> {
        let world = Self::on_tcp();
        assert_eq!(world.outbound().begin_leg(ring(0)), Ok(true));
        assert_eq!(world.inbound().source(), Ok(Source::Ring { available: 0 }));
        world
    }

    fn on_tcp() -> Arc<Self> {
        Arc::new(Self {
            link: Link::new(),
            outbound: OwnOutbound::default(),
            inbound: OwnInbound::default(),
            sender: Waiter::default(),
            reader: Waiter::default(),
        })
    }

    fn outbound(&self) -> Outbound<'_> {
        Outbound::new(&self.outbound, &self.link, 0, 0).unwrap()
    }

    fn inbound(&self) -> Inbound<'_> {
        Inbound::new(&self.inbound, &self.link, 0, 1).unwrap()
    }

    /// Sends the next `len` octets, and wakes the reader if it has to be. Returns how many the ring had room for.
    fn send(&self, len: u8) -> u8 {
        let begin = self.outbound.accepted() as u8;
        let octets: Vec<u8> = (begin + 1..=begin + len).collect();
        let sent = self.outbound().write(&octets).expect("model: a reader that keeps the rules");
        self.reader.ring(self.outbound().sleepers());
        sent as u8
    }

    /// Takes up to `len` octets, and wakes the sender if it has to be. Returns how many there were.
    fn receive(&self, len: u8) -> u8 {
        let begin = self.inbound.consumed.load(Ordering::Relaxed) as u8;
        let mut octets = vec![0; len.into()];
        let received = self.inbound().read(&mut octets).expect("model: a sender that keeps the rules") as u8;
        let expected: Vec<u8> = (begin + 1..=begin + received).collect();
        assert_eq!(octets[..received.into()], expected, "model: the octets that were sent");
        self.sender.ring(self.inbound().sleepers());
        received
    }
}

impl Waiter {
    /// Wakes the thread if it sleeps and was named.
    fn ring(&self, named: Option<Sleepers>) {
        if named.is_some() && self.asleep.load(Ordering::Relaxed) == 1 {
            self.bell.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn was_woken(&self) -> bool {
        self.bell.load(Ordering::Relaxed) > 0
    }
}

/// A ring of four octets.
fn ring(number: u32) -> Carrier {
    Carrier::Ring(RingPlace::new(64 + number, 16).unwrap())
}

/// Runs `act` in a thread of its own.
fn beside<T: 'static>(world: &Arc<World>, act: impl Fn(&World) -> T + 'static) -> JoinHandle<T> {
    let world = Arc::clone(world);
    loom::thread::spawn(move || act(&world))
}
