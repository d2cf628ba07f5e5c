//! The hosts of a run: their clock, their kernels, their daemons and their processes, and the scheduler, which draws the thread that
//! goes on and what goes wrong.

mod trouble;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::fmt;
use std::rc::Rc;

use weft_netif::Instant;
use weft_sockets::{Claim, Digests, Tuple};

use super::connection::Connection;
use super::kernel::Kernel;
use super::lanes::{Lanes, News};
use super::plan::{Event, Plan};
use super::process::Process;
use super::sabotage::Sabotage;
use super::service::{Post, Service};
use super::task::{self, Task};
use crate::simulate::random::Random;
use crate::simulate::tally::Tally;
use crate::simulate::trace::{Trace, text_of};

/// What all threads share.
pub(crate) struct World {
    /// In microseconds.
    pub(crate) now: Cell<u64>,
    pub(crate) random: RefCell<Random>,
    pub(crate) trace: RefCell<Trace>,
    pub(crate) tally: RefCell<Tally>,
    pub(crate) kernel: RefCell<Kernel>,
    /// The daemons, by host.
    pub(crate) services: [RefCell<Service>; 2],
    pub(crate) lanes: RefCell<Lanes>,
    is_far: bool,
    pub(crate) processes: RefCell<Vec<Rc<Process>>>,
    pub(crate) connections: RefCell<Vec<Rc<Connection>>>,
    /// When a process or a daemon last died, stopped or went on.
    pub(crate) trouble: Cell<Option<u64>>,
    /// Why a thread may wait for ever. A process was killed in the middle of a receive: a relative waits for what it took
    /// along.
    excuse: Cell<Option<&'static str>>,
    pub(crate) is_eager: bool,
    pub(crate) sabotage: Option<Sabotage>,
    failure: RefCell<Option<String>>,
    /// Threads that the running one has begun.
    begun: RefCell<Vec<Thread>>,
    /// What the running thread waits for, and whether it woke because the time was over.
    waits: RefCell<Option<Waits>>,
    is_late: Cell<bool>,
    woken: RefCell<Vec<usize>>,
    /// The processes whose threads hear that a relative has died.
    bereaved: RefCell<Vec<usize>>,
    threads: Cell<u32>,
    /// The longest delay of what is on its way.
    delay: usize,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) until: Option<u64>,
    pub(crate) readable: Option<usize>,
    /// The socket, of whose end the kernel tells before its octets are read.
    pub(crate) ended: Option<usize>,
    pub(crate) writable: Option<usize>,
    /// The socket, of whose failure the kernel tells in any case.
    pub(crate) broken: Option<usize>,
    pub(crate) bell: Option<(usize, usize)>,
    pub(crate) futex: Option<usize>,
    /// The host for whose daemon there may be news.
    pub(crate) news: Option<usize>,
}

/// What the scheduler has.
struct Course {
    threads: Vec<Thread>,
    /// Processes that have ended, and when the daemon hears of it.
    dead: Vec<(u64, usize)>,
    /// What goes wrong, the next at the end.
    events: Vec<(u64, Event)>,
    round: u64,
}

/// A thread of a process.
struct Thread {
    process: Rc<Process>,
    task: Option<Task>,
    waits: Option<Waits>,
    is_late: bool,
}

impl Course {
    /// Lets something happen so many rounds later.
    fn postpone(&mut self, event: Event, rounds: u64) {
        self.events.push((self.round + rounds, event));
        self.events.sort_by_key(|(at, _)| Reverse(*at));
    }
}

impl World {
    pub(crate) fn new(plan: &mut Plan, trace: Trace, sabotage: Option<Sabotage>) -> Rc<Self> {
        Rc::new(Self {
            now: Cell::new(1),
            random: RefCell::new(plan.random.fork()),
            trace: RefCell::new(trace),
            tally: RefCell::default(),
            kernel: RefCell::default(),
            services: Default::default(),
            lanes: RefCell::default(),
            is_far: plan.is_far,
            processes: RefCell::default(),
            connections: RefCell::default(),
            trouble: Cell::default(),
            excuse: Cell::default(),
            is_eager: plan.is_eager,
            sabotage,
            failure: RefCell::default(),
            begun: RefCell::default(),
            waits: RefCell::default(),
            is_late: Cell::new(false),
            woken: RefCell::default(),
            bereaved: RefCell::default(),
            threads: Cell::new(0),
            delay: plan.delay,
        })
    }

    /// Runs until all threads have ended.
    pub(crate) fn run(self: &Rc<Self>, plan: &Plan) -> Result<(), String> {
        let events = plan.events.clone();
        let mut course = Course { threads: Vec::new(), dead: Vec::new(), events, round: 0 };
        let result = loop {
            if let Some(result) = self.turn(&mut course) {
                break result;
            }
        };
        for thread in &course.threads {
            self.note(format_args!("process {} waits: {:?}", thread.process.number, thread.waits));
        }
        let begun = std::mem::take(&mut *self.begun.borrow_mut());
        let left = course.threads.into_iter().chain(begun);
        left.filter_map(|thread| thread.task).for_each(Task::kill);
        let mut tally = self.tally.borrow_mut();
        (tally.steps, tally.virtual_micros) = (course.round, self.now.get());
        let is_late = course.round > ROUNDS || self.now.get() > LIMIT;
        if let Some(excuse) = self.excuse.get().filter(|_| is_late) {
            tally.fault(excuse, 1);
            return Ok(());
        }
        result
    }

    /// Lets what is due happen, and a thread run. Returns the result once all have ended.
    fn turn(self: &Rc<Self>, course: &mut Course) -> Option<Result<(), String>> {
        course.threads.append(&mut self.begun.borrow_mut());
        while let Some((_, event)) = course.events.pop_if(|(at, _)| *at <= course.round) {
            self.strike(event, course);
        }
        self.move_on(&mut course.dead);
        if let Some(failure) = self.failure.borrow_mut().take() {
            return Some(Err(failure));
        }
        let before = course.threads.len();
        course.threads.retain(|thread| thread.task.is_some());
        if course.threads.len() < before {
            self.exit(course);
        }
        if course.threads.iter().all(|thread| thread.process.is_daemon) {
            return Some(self.judge());
        }
        course.round += 1;
        let threads = &mut course.threads;
        let ready: Vec<_> = (0..threads.len()).filter(|at| self.is_ready(&mut threads[*at])).collect();
        if ready.is_empty() {
            return self.pass(threads, &course.dead).err().map(Err);
        }
        if course.round > ROUNDS {
            return Some(Err("the threads run without an end".to_owned()));
        }
        let next = self.random.borrow_mut().pick(&ready);
        self.let_run(&mut threads[next]);
        None
    }

    /// Begins a thread.
    pub(crate) fn begin(&self, process: &Rc<Process>, body: impl FnOnce() + 'static) {
        let task = Some(Task::new(body));
        process.has_begun.set(true);
        let thread = Thread { process: Rc::clone(process), task, waits: None, is_late: false };
        self.begun.borrow_mut().push(thread);
    }

    pub(crate) fn new_thread(&self) -> u32 {
        self.threads.set(self.threads.get() + 1);
        self.threads.get()
    }

    pub(crate) fn new_process(&self, make: impl FnOnce(usize) -> Process) -> Rc<Process> {
        let mut processes = self.processes.borrow_mut();
        let process = Rc::new(make(processes.len()));
        processes.push(Rc::clone(&process));
        process
    }

    pub(crate) fn new_daemon(&self, host: usize) -> Rc<Process> {
        self.new_process(|number| Process::of_daemon(number, host, self))
    }

    pub(crate) fn connect(&self) -> Rc<Connection> {
        let socket = self.kernel.borrow_mut().connect();
        let mut connections = self.connections.borrow_mut();
        let salts = [(); 2].map(|()| self.random.borrow_mut().below(256).to_le_bytes()[0]);
        let connection = Rc::new(Connection::new(connections.len(), socket, salts));
        connections.push(Rc::clone(&connection));
        connection
    }

    /// The thread waits. Returns true if it goes on because the time is over.
    pub(crate) fn wait(&self, waits: Waits) -> bool {
        *self.waits.borrow_mut() = Some(waits);
        task::pause();
        self.is_late.get()
    }

    /// Wakes a thread that waits for a lock.
    pub(crate) fn wake_futex(&self, futex: usize) {
        self.woken.borrow_mut().push(futex);
    }

    /// Draws when something arrives that is sent now.
    pub(crate) fn later(&self) -> u64 {
        let mut random = self.random.borrow_mut();
        let delay = if random.percent(5) { 10 * self.delay } else { self.delay };
        self.now.get() + random.between(5, delay) as u64
    }

    pub(crate) fn fail(&self, failure: String) {
        self.note(format_args!("{failure}"));
        self.failure.borrow_mut().get_or_insert(failure);
        task::pause();
    }

    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let now = Instant::from_micros(i64::try_from(self.now.get()).unwrap_or(i64::MAX));
        self.trace.borrow_mut().note(now, what);
    }

    fn let_run(&self, thread: &mut Thread) {
        let Some(task) = &mut thread.task else { return };
        let steps = {
            let mut random = self.random.borrow_mut();
            self.now.set(self.now.get() + random.below(4) as u64);
            let most = random.pick(&[4, 30, 30, 200]);
            random.below(most)
        };
        self.is_late.set(std::mem::take(&mut thread.is_late));
        thread.waits = None;
        let goes_on = task.run(u32::try_from(steps).unwrap_or(0));
        thread.waits = self.waits.borrow_mut().take();
        if !goes_on {
            thread.task = None;
        }
        if let Some(cause) = task::panic() {
            let text = text_of(&*cause).to_owned();
            self.failure.borrow_mut().get_or_insert(format!("panic: {text}"));
        }
    }

    fn is_ready(&self, thread: &mut Thread) -> bool {
        let now = self.now.get();
        if thread.process.stopped_until.get() > now {
            return false;
        }
        let Some(waits) = thread.waits else { return true };
        let kernel = self.kernel.borrow();
        let is_bereaved = self.bereaved.borrow().contains(&thread.process.number) && waits.futex.is_none();
        let is_woken = is_bereaved
            || waits.readable.is_some_and(|socket| kernel.is_readable(socket))
            || waits.ended.is_some_and(|socket| kernel.is_ended(socket))
            || waits.writable.is_some_and(|socket| kernel.is_writable(socket))
            || waits.broken.is_some_and(|socket| kernel.is_broken(socket))
            || waits.bell.is_some_and(|(process, line)| self.processes.borrow()[process].rang(line))
            || waits.news.is_some_and(|host| !self.lanes.borrow().inboxes[host].is_empty())
            || waits.futex.is_some_and(|futex| self.woken.borrow().contains(&futex));
        if let Some(futex) = waits.futex.filter(|_| is_woken) {
            let mut woken = self.woken.borrow_mut();
            let at = woken.iter().position(|other| *other == futex);
            at.map(|at| woken.swap_remove(at));
        }
        thread.is_late = !is_woken && waits.until.is_some_and(|until| until <= now);
        if is_woken || thread.is_late {
            thread.waits = None;
        }
        is_woken || thread.is_late
    }

    /// Moves what is on its way.
    fn move_on(&self, dead: &mut Vec<(u64, usize)>) {
        let now = self.now.get();
        self.bereaved.borrow_mut().clear();
        self.kernel.borrow_mut().arrive(now);
        self.lanes.borrow_mut().arrive(now);
        (0..1 + usize::from(self.is_far)).for_each(|host| self.move_host(host, dead));
    }

    /// Moves what is on its way between a daemon and processes.
    fn move_host(&self, host: usize, dead: &mut Vec<(u64, usize)>) {
        let now = self.now.get();
        let mut service = self.services[host].borrow_mut();
        let mut is_changed = service.deadline().is_some_and(|deadline| deadline <= now);
        service.expire(now);
        while let Some((process, post)) = service.next_post(now) {
            if self.is_far && post.is_of_connection() {
                self.lanes.borrow_mut().later(host, News::Post(process, post), now);
                continue;
            }
            let told = format!("{post:?}");
            let claim =
                if let Post::Claim { socket, .. } = post { Some(self.read_claim(socket)) } else { None };
            if !service.handle(process, post, claim, now) {
                self.failure
                    .borrow_mut()
                    .get_or_insert(format!("process {process} breaks a rule of messages: {told}"));
            }
        }
        let is_relative_unknown = |process: usize| {
            let processes = self.processes.borrow();
            let family = &processes[process].family;
            let mut relatives = processes.iter().filter(|other| Rc::ptr_eq(&other.family, family));
            relatives.any(|other| {
                let is_there = other.is_alive.get() || service.has_post(other.number);
                is_there && !service.knows(other.number)
            })
        };
        // The daemon watches relatives without a port, too.
        let (due, later): (Vec<_>, Vec<_>) = dead.drain(..).partition(|(at, process)| {
            *at <= now
                && self.processes.borrow()[*process].host == host
                && service.stopped_until <= now
                && !service.has_post(*process)
                && !is_relative_unknown(*process)
        });
        *dead = later;
        for (_, process) in due {
            is_changed = true;
            service.bury(process, now);
            if self.is_far {
                self.lanes.borrow_mut().later(host, News::Dead(process), now);
            }
        }
        if is_changed {
            service.flush(now, || self.later() - now);
            self.processes.borrow().iter().for_each(|process| process.hear_bells());
        }
        while let Some((process, message, file)) = service.next_mail(now) {
            self.processes.borrow()[process].deliver(message, file);
        }
    }

    /// Lets time pass until something happens.
    fn pass(&self, threads: &[Thread], dead: &[(u64, usize)]) -> Result<(), String> {
        let untils = threads.iter().filter_map(|thread| {
            let stopped = thread.process.stopped_until.get();
            if stopped > self.now.get() { Some(stopped) } else { thread.waits?.until }
        });
        let [one, other] = self.services.each_ref().map(|service| service.borrow_mut().deadline());
        let others = [self.kernel.borrow().deadline(), one, other, self.lanes.borrow().deadline()];
        let burials = dead.iter().map(|(at, _)| (*at).max(self.now.get() + 1000));
        let next = untils.chain(others.into_iter().flatten()).chain(burials).min();
        let Some(next) = next else {
            return Err("all threads wait, and nothing is on its way".to_owned());
        };
        self.now.set(next.max(self.now.get() + 1));
        if self.now.get() > LIMIT { Err("the threads do not end".to_owned()) } else { Ok(()) }
    }

    /// What the kernel says of a claim's socket, which the daemon closes.
    fn read_claim(&self, socket: usize) -> Claim {
        let address = |socket: usize| ([127, 0, 0, 1], u16::try_from(socket).unwrap_or(0) + 1).into();
        let mut kernel = self.kernel.borrow_mut();
        let (written, consumed) = kernel.counts(socket);
        kernel.release(socket, self.later());
        let tuple = Tuple::new(1, address(socket), address(socket ^ 1));
        let digests = Digests::default();
        Claim { tuple, window_scales: (7, 7), options: 0, written, consumed, digests, is_far: false }
    }

    /// All threads have ended: each stream of which nothing has died is whole.
    fn judge(&self) -> Result<(), String> {
        for connection in &*self.connections.borrow() {
            for (direction, side) in connection.directions.iter().zip(["left", "right"]) {
                let direction = direction.borrow();
                let (sent, received) = direction.sums();
                self.tally.borrow_mut().octets += received;
                if !connection.is_excused() && !direction.is_whole() {
                    return Err(format!("{received} of {sent} octets came, {} {side}", connection.number));
                }
            }
        }
        Ok(())
    }
}

/// No run has so many rounds.
const ROUNDS: u64 = 300_000;
/// No run takes so long, in microseconds.
const LIMIT: u64 = 300_000_000;
