//! The drive under loom: [`Lead`] and its state as they are, with stand-ins for descriptors, the engine and time.
//!
//! A sleep with a time limit may end at any moment. A sleep without one has to be ended: if no thread ends it, loom
//! reports a deadlock. So each model checks by its end that no wake-up is lost and that nobody sleeps over work.

use std::sync::atomic::Ordering::SeqCst;

use loom::sync::{Arc, Condvar, Mutex};

use crate::drive::leader::{Lead, Stay};
use crate::drive::stand_ins::{
    AtomicU64, DESCRIPTORS, PEER, Step, WAKEUP, WIRE, is_left_out, leave_out, take,
};
use crate::drive::state::Wake;

/// The engine behind its lock. A thread that has the lock has taken the work out.
///
/// loom explores no thread that finds one of its own locks taken just before the unlocking. Here the unlocking is an
/// access as any other.
struct Engine {
    work: Mutex<Option<Work>>,
    is_free: Condvar,
}

impl Engine {
    fn try_lock(&self) -> Option<Work> {
        self.work.lock().unwrap().take()
    }

    fn lock(&self) -> Work {
        let mut work = self.work.lock().unwrap();
        loop {
            if let Some(work) = work.take() {
                return work;
            }
            work = self.is_free.wait(work).unwrap();
        }
    }

    fn unlock(&self, work: Work) {
        *self.work.lock().unwrap() = Some(work);
        self.is_free.notify_one();
    }
}

/// The engine's work: each request of `sent` is complete when the engine is driven again after a deadline.
#[derive(Default)]
struct Work {
    sent: u8,
}

/// A model of one engine and its threads. It takes the steps of `Motor`, of the driver thread and of `Device::wait_for`
/// in their order.
struct Machine {
    lead: Lead,
    engine: Engine,
    doorbells: AtomicU64,
    is_stopped: AtomicU64,
    setting: Setting,
}

/// What a model begins with.
#[derive(Clone, Copy)]
struct Setting {
    /// There is a driver thread. Without it the threads of the application drive.
    has_driver: bool,
    /// The driver thread has left the engine to the polls.
    is_polled: bool,
    /// Requests are posted one at a time.
    is_single: bool,
}

impl Machine {
    fn new(setting: Setting) -> Self {
        let lead = Lead::new().unwrap();
        if setting.is_polled {
            assert_eq!(lead.state.stand_by(true), Wake::Nobody);
        }
        Self {
            lead,
            engine: Engine { work: Mutex::new(Some(Work::default())), is_free: Condvar::new() },
            doorbells: AtomicU64::new(0),
            is_stopped: AtomicU64::new(0),
            setting,
        }
    }

    /// Sends what is posted.
    fn send(&self, work: &mut Work) {
        work.sent |= u8::try_from(self.doorbells.fetch_and(0, SeqCst)).unwrap();
    }

    /// Handles the deadlines and the wire, and sends what is posted.
    fn poll(&self, work: &mut Work) {
        let mut complete = core::mem::take(&mut work.sent);
        if DESCRIPTORS.clear(WIRE) != 0 {
            complete |= PEER;
        }
        if complete != 0 {
            DESCRIPTORS.set(complete);
        }
        self.send(work);
    }

    /// The next deadline: now, later or none.
    fn poll_at(&self, work: &Work) -> Option<i64> {
        let is_rung = self.doorbells.load(SeqCst) != 0;
        is_rung.then_some(NOW).or((work.sent != 0).then_some(LATER))
    }

    fn drive(&self) {
        let mut work = self.engine.lock();
        self.poll(&mut work);
        self.engine.unlock(work);
    }

    fn try_drive(&self, act: impl FnOnce(&Self, &mut Work)) -> bool {
        let Some(mut work) = self.engine.try_lock() else { return false };
        act(self, &mut work);
        let next = if self.lead.state.word().sleepers() > 0 { self.poll_at(&work) } else { None };
        self.engine.unlock(work);
        if let Some(next) = next {
            take(Step::Hasten, || self.lead.hasten(next));
        }
        true
    }

    /// Posts the requests `bits`.
    fn post(&self, bits: u8) {
        self.doorbells.fetch_or(bits.into(), SeqCst);
        take(Step::Post, || self.lead.post(|| self.try_drive(Self::send)));
    }

    /// Changes an object of the engine so that it has the requests `bits` to complete.
    fn change(&self, bits: u8) {
        let mut work = self.engine.lock();
        work.sent |= bits;
        self.engine.unlock(work);
        take(Step::Change, || self.lead.kick());
    }

    /// A thread of the application polls so often that the polls are dense.
    fn progress(&self) {
        for _ in 0..100 {
            self.lead.note_drive();
        }
        let _driven = self.try_drive(Self::poll);
    }

    /// Sleeps until one of these descriptors or the wake-up is ready, or the engine has to be driven.
    fn sleep(&self, bits: u8) {
        if !is_left_out(Step::Announce) {
            self.announce();
        }
        let next = {
            let work = self.engine.lock();
            let next = self.poll_at(&work).filter(|_| !is_left_out(Step::Look));
            self.lead.state.set_deadline(next.unwrap_or(i64::MAX));
            self.engine.unlock(work);
            next
        };
        if is_left_out(Step::Announce) {
            self.announce();
        }
        let ready =
            if next == Some(NOW) { WAKEUP } else { DESCRIPTORS.poll(bits | WAKEUP | WIRE, next.is_some()) };
        self.lead.end_sleep(ready & WAKEUP != 0);
    }

    fn announce(&self) {
        self.lead.begin_sleep();
        if !self.setting.is_single {
            let _taken = self.lead.state.take_singly();
        }
    }

    /// The driver thread.
    fn run(&self) {
        while self.setting.is_polled && !self.lead.takes_over() {}
        while self.is_stopped.load(SeqCst) == 0 {
            if self.lead.is_led() {
                take(Step::StandBy, || self.lead.stand_by(false));
                continue;
            }
            self.drive();
            self.sleep(0);
        }
    }

    /// A thread of the application waits for the events `bits`.
    fn wait(&self, bits: u8) {
        let stay = self.setting.has_driver.then(|| self.lead.stay());
        let drives = stay.as_ref().is_none_or(Stay::leads);
        loop {
            if drives {
                self.sleep(bits);
                self.drive();
            } else {
                DESCRIPTORS.poll(bits, false);
            }
            if DESCRIPTORS.clear(bits) != 0 {
                break;
            }
        }
        take(Step::Leave, || drop(stay));
        if !self.setting.has_driver {
            take(Step::Leave, || self.lead.kick());
        }
    }

    fn close(&self) {
        self.is_stopped.fetch_or(1, SeqCst);
        take(Step::Close, || self.lead.call());
    }
}

const NOW: i64 = 0;
const LATER: i64 = 1;

/// A model: its setting but `is_single`, the preemptions to explore, and its threads besides the driver thread.
#[derive(Clone, Copy)]
struct Model {
    has_driver: bool,
    is_polled: bool,
    preemptions: usize,
    act: fn(&Arc<Machine>),
}

impl Model {
    const fn with_driver(preemptions: usize, act: fn(&Arc<Machine>)) -> Self {
        Self { has_driver: true, is_polled: false, preemptions, act }
    }

    const fn with_polls(preemptions: usize, act: fn(&Arc<Machine>)) -> Self {
        Self { is_polled: true, ..Self::with_driver(preemptions, act) }
    }

    const fn without_driver(preemptions: usize, act: fn(&Arc<Machine>)) -> Self {
        Self { has_driver: false, ..Self::with_driver(preemptions, act) }
    }

    /// Explores all orders with at most so many preemptions.
    fn explore(self) {
        let Self { has_driver, is_polled, preemptions, act } = self;
        for is_single in [false, true] {
            bounded(preemptions).check(move || {
                let machine = Arc::new(Machine::new(Setting { has_driver, is_polled, is_single }));
                let driver = has_driver.then(|| beside(&machine, Machine::run));
                act(&machine);
                machine.close();
                driver.into_iter().for_each(|driver| driver.join().unwrap());
            });
        }
    }
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

/// Runs `act` in a thread of its own.
fn beside(machine: &Arc<Machine>, act: fn(&Machine)) -> loom::thread::JoinHandle<()> {
    let machine = Arc::clone(machine);
    loom::thread::spawn(move || act(&machine))
}

/// A thread that waits, and another one that posts meanwhile.
fn a_post_beside_a_wait(machine: &Arc<Machine>) {
    let poster = beside(machine, |machine| machine.post(1));
    machine.wait(1);
    poster.join().unwrap();
}

/// Two threads that post and wait. With a driver thread one of them leads, and leaves the other one behind.
fn two_posts_and_waits(machine: &Arc<Machine>) {
    let other = beside(machine, |machine| {
        machine.post(2);
        machine.wait(2);
    });
    machine.post(1);
    machine.wait(1);
    other.join().unwrap();
}

/// Two threads that wait, and another one that posts for one of them.
fn a_post_beside_two_waits(machine: &Arc<Machine>) {
    let other = beside(machine, |machine| machine.wait(2));
    let poster = beside(machine, |machine| machine.post(2));
    machine.post(1);
    machine.wait(1);
    poster.join().unwrap();
    other.join().unwrap();
}

/// A thread that posts, and waits by a descriptor that the device does not know.
fn a_post_and_a_sleep_elsewhere(machine: &Arc<Machine>) {
    machine.post(1);
    DESCRIPTORS.poll(1, false);
}

/// A thread that changes an object, and sleeps elsewhere.
fn a_change_and_a_sleep_elsewhere(machine: &Arc<Machine>) {
    machine.change(1);
    DESCRIPTORS.poll(1, false);
}

/// A thread that waits, and then sleeps elsewhere until a frame comes.
fn a_frame_after_a_wait(machine: &Arc<Machine>) {
    machine.post(1);
    machine.wait(1);
    DESCRIPTORS.set(WIRE);
    DESCRIPTORS.poll(PEER, false);
}

/// A thread that polls, arms a completion queue, and sleeps elsewhere.
fn polls_that_end(machine: &Arc<Machine>) {
    machine.post(1);
    machine.progress();
    machine.lead.end_polls();
    DESCRIPTORS.poll(1, false);
}

/// Among polls, a thread waits, and another one posts for it.
fn a_post_and_a_poll_beside_a_wait(machine: &Arc<Machine>) {
    let poster = beside(machine, |machine| machine.post(1));
    let poller = beside(machine, Machine::progress);
    machine.wait(1);
    poster.join().unwrap();
    poller.join().unwrap();
}

#[test]
fn posts_wake_a_thread_that_waits() {
    Model::with_driver(2, a_post_beside_a_wait).explore();
}

#[test]
fn leaders_that_leave_are_followed() {
    Model::with_driver(2, two_posts_and_waits).explore();
}

#[test]
fn threads_that_wait_without_a_driver_thread_follow_each_other() {
    Model::without_driver(2, a_post_beside_two_waits).explore();
}

#[test]
fn posts_are_sent_while_the_program_sleeps_elsewhere() {
    Model::with_driver(4, a_post_and_a_sleep_elsewhere).explore();
}

#[test]
fn changes_are_looked_at_while_the_program_sleeps_elsewhere() {
    Model::with_driver(4, a_change_and_a_sleep_elsewhere).explore();
}

#[test]
fn frames_are_taken_after_the_leader_has_left() {
    Model::with_driver(3, a_frame_after_a_wait).explore();
}

#[test]
fn polls_that_end_leave_nothing_behind() {
    Model::with_polls(3, polls_that_end).explore();
}

#[test]
fn posts_beside_polls_wake_a_thread_that_waits() {
    Model::with_polls(1, a_post_and_a_poll_beside_a_wait).explore();
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
    let models = [
        (Step::Look, Model::with_driver(2, a_post_and_a_sleep_elsewhere)),
        (Step::Announce, Model::with_driver(2, a_post_and_a_sleep_elsewhere)),
        (Step::Order, Model::with_driver(2, a_post_and_a_sleep_elsewhere)),
        (Step::Post, Model::with_driver(2, a_post_and_a_sleep_elsewhere)),
        (Step::Change, Model::with_driver(2, a_change_and_a_sleep_elsewhere)),
        (Step::Hasten, Model::with_driver(2, a_post_beside_a_wait)),
        (Step::Leave, Model::with_driver(2, two_posts_and_waits)),
        (Step::Leave, Model::without_driver(2, a_post_beside_two_waits)),
        (Step::StandBy, Model::with_driver(2, a_post_beside_a_wait)),
        (Step::Close, Model::with_driver(2, a_post_and_a_sleep_elsewhere)),
    ];
    if let Some(index) = std::env::var_os(NAME) {
        let (step, model) = models[index.to_str().unwrap().parse::<usize>().unwrap()];
        leave_out(step);
        return model.explore();
    }
    for (index, (step, _)) in models.iter().enumerate() {
        let mut run = std::process::Command::new(std::env::current_exe().unwrap());
        let output = run.arg(NAME).args(["--nocapture"]).env(NAME, index.to_string()).output().unwrap();
        let is_found = String::from_utf8_lossy(&output.stderr).contains("deadlock");
        assert!(
            is_found && !output.status.success(),
            "nobody finds that {step:?} is left out of model {index}"
        );
    }
}
