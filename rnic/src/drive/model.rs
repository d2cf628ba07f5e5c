//! The drive under loom: the state and the leader as they are, with stand-ins for descriptors, the engine and time.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-rnic --lib drive::model` explores them. A sleep with a time limit may
//! end at any moment. A sleep without one has to be ended: if no thread ends it, loom reports a deadlock. So each
//! model checks by its end that no wake-up is lost and that nobody sleeps over work.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::time::Duration;

use loom::sync::{Arc, Condvar, Mutex};

use crate::drive::leader::Lead;
use crate::drive::state::Wake;

/// loom orders accesses no more than by acquire and release. Here a `SeqCst` load is an exchange that changes nothing:
/// it sees the latest value, which is the rest of `SeqCst`.
#[derive(Debug)]
pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        Self(loom::sync::atomic::AtomicU64::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        if order == SeqCst { self.0.fetch_or(0, Acquire) } else { self.0.load(order) }
    }

    pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_or(value, order)
    }

    pub(crate) fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_and(value, order)
    }

    pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_sub(value, order)
    }

    pub(crate) fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }
}

/// As [`AtomicU64`].
#[derive(Debug)]
pub(crate) struct AtomicI64(loom::sync::atomic::AtomicI64);

impl AtomicI64 {
    pub(crate) fn new(value: i64) -> Self {
        Self(loom::sync::atomic::AtomicI64::new(value))
    }

    pub(crate) fn store(&self, value: i64, order: Ordering) {
        if order == SeqCst { _ = self.0.swap(value, Release) } else { self.0.store(value, order) }
    }

    pub(crate) fn fetch_min(&self, value: i64, order: Ordering) -> i64 {
        self.0.fetch_min(value, order)
    }
}

/// Descriptors, one for each bit, and poll(2) over them.
#[derive(Debug)]
struct Descriptors {
    ready: Mutex<u8>,
    changed: Condvar,
}

impl Descriptors {
    fn new() -> Self {
        Self { ready: Mutex::new(0), changed: Condvar::new() }
    }

    fn set(&self, bits: u8) {
        *self.ready.lock().unwrap() |= bits;
        self.changed.notify_all();
    }

    /// Clears these descriptors. Returns those that were ready.
    fn clear(&self, bits: u8) -> u8 {
        let mut ready = self.ready.lock().unwrap();
        let before = *ready & bits;
        *ready &= !bits;
        before
    }

    /// Blocks until one of these descriptors is ready, or `is_timed`. Returns those that are ready.
    fn poll(&self, bits: u8, is_timed: bool) -> u8 {
        let mut ready = self.ready.lock().unwrap();
        while *ready & bits == 0 && !is_timed {
            ready = self.changed.wait(ready).unwrap();
        }
        *ready & bits
    }
}

/// The driver thread's signal.
#[derive(Debug)]
pub(crate) struct Signal(Descriptors);

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Descriptors::new()))
    }

    pub(crate) fn wake(&self) {
        self.0.set(1);
    }

    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        self.0.poll(1, timeout.is_some());
        self.0.clear(1);
    }
}

/// The engine's work: each request of `sent` is complete when the engine is driven again after a deadline.
#[derive(Debug, Default)]
struct Work {
    sent: u8,
}

/// The steps of [`crate::drive::locked::Motor`], in its order, without the engine.
struct Machine {
    lead: Lead,
    work: Mutex<Work>,
    doorbells: AtomicU64,
    descriptors: Descriptors,
    is_stopped: AtomicU64,
    is_single: bool,
    sabotage: Sabotage,
}

/// A step that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    Nothing,
    /// A sleeper does not look for work after it has announced itself.
    LookBeforeSleep,
    /// A sleeper announces itself after it has looked.
    AnnounceBeforeLook,
    /// A post does not wake a thread.
    KickAfterPost,
    /// A thread that makes an earlier deadline does not tell the sleepers.
    Hasten,
    /// A leader that goes does not wake a driver thread that sleeps.
    KickAfterLead,
    /// The driver thread does not hand on a wake-up before it stands by.
    KickBeforeStandby,
    /// Closing does not wake a driver thread that sleeps.
    WakeAtClose,
}

/// The eventfd of the sleepers.
const WAKEUP: u8 = 1 << 7;
/// The wire, on which a frame has come. It completes the request [`PEER`].
const WIRE: u8 = 1 << 6;
const PEER: u8 = 1 << 5;

impl Machine {
    fn new(is_single: bool, sabotage: Sabotage) -> Self {
        Self {
            lead: Lead::new().unwrap(),
            work: Mutex::new(Work::default()),
            doorbells: AtomicU64::new(0),
            descriptors: Descriptors::new(),
            is_stopped: AtomicU64::new(0),
            is_single,
            sabotage,
        }
    }

    fn does(&self, step: Sabotage) -> bool {
        self.sabotage != step
    }

    /// Sends what is posted.
    fn send(&self, work: &mut Work) {
        work.sent |= u8::try_from(self.doorbells.fetch_and(0, SeqCst)).unwrap();
    }

    /// Handles the deadlines, and sends what is posted.
    fn poll(&self, work: &mut Work) {
        let mut complete = core::mem::take(&mut work.sent);
        if self.descriptors.clear(WIRE) != 0 {
            complete |= PEER;
        }
        if complete != 0 {
            self.descriptors.set(complete);
        }
        self.send(work);
    }

    /// The next deadline, in two classes: now and later.
    fn poll_at(&self, work: &Work) -> Option<i64> {
        (self.doorbells.load(SeqCst) != 0 || work.sent != 0).then_some(1)
    }

    fn try_drive(&self, act: impl FnOnce(&Self, &mut Work)) -> bool {
        let Ok(mut work) = self.work.try_lock() else { return false };
        act(self, &mut work);
        let next = if self.lead.state.word().sleepers() > 0 { self.poll_at(&work) } else { None };
        drop(work);
        if next.is_some_and(|next| self.does(Sabotage::Hasten) && self.lead.state.is_earlier(next)) {
            self.descriptors.set(WAKEUP);
        }
        true
    }

    /// Posts the requests `bits`.
    fn ring(&self, bits: u8) {
        self.doorbells.fetch_or(bits.into(), SeqCst);
        let is_done = if self.lead.is_standing_by() {
            self.try_drive(Self::send) || self.lead.state.word().is_left_to_polls()
        } else {
            self.lead.state.take_singly() && self.try_drive(Self::send)
        };
        if !is_done && self.does(Sabotage::KickAfterPost) {
            self.kick();
        }
    }

    fn kick(&self) {
        match self.lead.state.change() {
            Wake::Sleepers => self.descriptors.set(WAKEUP),
            wake => self.lead.wake(wake),
        }
    }

    /// Sleeps until one of these descriptors or the wake-up is ready, or the engine has to be driven.
    fn sleep(&self, bits: u8) {
        let announces_first = self.does(Sabotage::AnnounceBeforeLook);
        if announces_first {
            self.lead.state.begin_sleep(self.is_single);
        }
        let next = {
            let work = self.work.lock().unwrap();
            let next = self.poll_at(&work).filter(|_| self.does(Sabotage::LookBeforeSleep));
            self.lead.state.set_deadline(next.unwrap_or(i64::MAX));
            next
        };
        if !announces_first {
            self.lead.state.begin_sleep(self.is_single);
        }
        let ready = self.descriptors.poll(bits | WAKEUP | WIRE, next.is_some());
        self.lead.state.end_sleep();
        if ready & WAKEUP != 0 {
            self.descriptors.clear(WAKEUP);
        }
    }

    /// The driver thread. `is_polled`: at first it leaves the engine to the polls.
    fn run(&self, mut is_polled: bool) {
        while self.is_stopped.load(SeqCst) == 0 {
            if self.lead.is_led() || is_polled {
                if self.does(Sabotage::KickBeforeStandby) {
                    self.kick();
                }
                self.lead.stand_by(is_polled);
                is_polled = false;
                continue;
            }
            self.poll(&mut self.work.lock().unwrap());
            self.sleep(0);
        }
    }

    /// A thread of the application waits for the completions `bits`.
    fn wait(&self, bits: u8) {
        let stay = self.lead.stay();
        let drives = stay.leads();
        if drives && !self.lead.is_standing_by() {
            self.kick();
        }
        loop {
            if drives {
                self.sleep(bits);
                self.poll(&mut self.work.lock().unwrap());
            } else {
                self.descriptors.poll(bits, false);
            }
            if self.descriptors.clear(bits) != 0 {
                break;
            }
        }
        drop(stay);
        if drives && !self.lead.is_standing_by() && self.does(Sabotage::KickAfterLead) {
            self.kick();
        }
    }

    /// A thread of the application polls once, or for so long that polls are dense.
    fn progress(&self) {
        for _ in 0..100 {
            self.lead.note_drive();
        }
        let _driven = self.try_drive(Self::poll);
    }

    fn close(&self) {
        self.is_stopped.fetch_or(1, SeqCst);
        if self.does(Sabotage::WakeAtClose) {
            self.descriptors.set(WAKEUP);
        }
        self.lead.call();
    }
}

/// Explores all orders with at most so many preemptions.
fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

/// Explores `act` with a driver thread beside it, in all orders with at most `preemptions` preemptions.
fn explore(preemptions: usize, is_polled: bool, sabotage: Sabotage, act: fn(&Arc<Machine>)) {
    for is_single in [false, true] {
        bounded(preemptions).check(move || {
            let machine = Arc::new(Machine::new(is_single, sabotage));
            let driver = {
                let machine = Arc::clone(&machine);
                loom::thread::spawn(move || machine.run(is_polled))
            };
            act(&machine);
            machine.close();
            driver.join().unwrap();
        });
    }
}

/// Runs `act` in a thread of its own.
fn beside(machine: &Arc<Machine>, act: fn(&Machine)) -> loom::thread::JoinHandle<()> {
    let machine = Arc::clone(machine);
    loom::thread::spawn(move || act(&machine))
}

/// A thread that waits, and another one that posts meanwhile.
fn a_post_beside_a_wait(machine: &Arc<Machine>) {
    let poster = beside(machine, |machine| machine.ring(1));
    machine.wait(1);
    poster.join().unwrap();
}

/// Two threads that post and wait: one of them leads, and leaves the other one behind.
fn two_posts_and_waits(machine: &Arc<Machine>) {
    let other = beside(machine, |machine| {
        machine.ring(2);
        machine.wait(2);
    });
    machine.ring(1);
    machine.wait(1);
    other.join().unwrap();
}

/// A thread that posts, and waits by a descriptor that the device does not know.
fn a_post_and_a_sleep_elsewhere(machine: &Arc<Machine>) {
    machine.ring(1);
    machine.descriptors.poll(1, false);
}

/// A thread that waits, and then sleeps elsewhere until a frame comes.
fn a_frame_after_a_wait(machine: &Arc<Machine>) {
    machine.ring(1);
    machine.wait(1);
    machine.descriptors.set(WIRE);
    machine.descriptors.poll(PEER, false);
}

/// A thread that polls, asks for an event, and sleeps elsewhere.
fn polls_that_end(machine: &Arc<Machine>) {
    machine.ring(1);
    machine.progress();
    machine.lead.wake(machine.lead.state.end_polls());
    machine.descriptors.poll(1, false);
}

/// Among polls, a thread waits, and another one posts for it.
fn a_post_and_a_poll_beside_a_wait(machine: &Arc<Machine>) {
    let poster = beside(machine, |machine| machine.ring(1));
    let poller = beside(machine, Machine::progress);
    machine.wait(1);
    poster.join().unwrap();
    poller.join().unwrap();
}

#[test]
fn posts_wake_a_thread_that_waits() {
    explore(2, false, Sabotage::Nothing, a_post_beside_a_wait);
}

#[test]
fn leaders_that_leave_are_followed() {
    explore(2, false, Sabotage::Nothing, two_posts_and_waits);
}

#[test]
fn posts_are_sent_while_the_program_sleeps_elsewhere() {
    explore(3, false, Sabotage::Nothing, a_post_and_a_sleep_elsewhere);
}

#[test]
fn frames_are_taken_after_the_leader_has_left() {
    explore(3, false, Sabotage::Nothing, a_frame_after_a_wait);
}

#[test]
fn polls_that_end_leave_nothing_behind() {
    explore(3, true, Sabotage::Nothing, polls_that_end);
}

#[test]
fn posts_beside_polls_wake_a_thread_that_waits() {
    explore(2, true, Sabotage::Nothing, a_post_and_a_poll_beside_a_wait);
}

#[test]
fn one_thread_leads_at_a_time_and_is_known_to() {
    bounded(3).check(|| {
        let lead = Arc::new(Lead::new().unwrap());
        let leaders = Arc::new(AtomicU64::new(0));
        let wait = |lead: &Lead, leaders: &AtomicU64| {
            for _ in 0..2 {
                let stay = lead.stay();
                if stay.leads() {
                    assert_eq!(leaders.fetch_or(1, SeqCst), 0, "two leaders");
                    assert!(lead.is_led(), "a leader that nobody knows of");
                    leaders.fetch_and(0, SeqCst);
                }
            }
        };
        let other = {
            let (lead, leaders) = (Arc::clone(&lead), Arc::clone(&leaders));
            loom::thread::spawn(move || wait(&lead, &leaders))
        };
        wait(&lead, &leaders);
        other.join().unwrap();
        assert!(!lead.is_led() && lead.state.word().waiting() == 0);
    });
}

/// Each step is needed: without it a model has a deadlock. loom's report ends the process, so each has its own.
#[test]
fn a_step_that_is_left_out_is_found() {
    const NAME: &str = "a_step_that_is_left_out_is_found";
    let models: [(Sabotage, bool, fn(&Arc<Machine>)); 7] = [
        (Sabotage::LookBeforeSleep, false, a_post_and_a_sleep_elsewhere),
        (Sabotage::AnnounceBeforeLook, false, a_post_and_a_sleep_elsewhere),
        (Sabotage::KickAfterPost, false, a_post_and_a_sleep_elsewhere),
        (Sabotage::Hasten, false, a_post_beside_a_wait),
        (Sabotage::KickAfterLead, false, two_posts_and_waits),
        (Sabotage::KickBeforeStandby, false, a_post_beside_a_wait),
        (Sabotage::WakeAtClose, false, a_post_and_a_sleep_elsewhere),
    ];
    if let Some(index) = std::env::var_os(NAME) {
        let (sabotage, is_polled, act) = models[index.to_str().unwrap().parse::<usize>().unwrap()];
        return explore(2, is_polled, sabotage, act);
    }
    for (index, (sabotage, ..)) in models.iter().enumerate() {
        let mut run = std::process::Command::new(std::env::current_exe().unwrap());
        let output = run.arg(NAME).args(["--nocapture"]).env(NAME, index.to_string()).output().unwrap();
        let is_found = String::from_utf8_lossy(&output.stderr).contains("deadlock");
        assert!(is_found && !output.status.success(), "{sabotage:?} was not found");
    }
}
