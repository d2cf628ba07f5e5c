//! Threads of simulated processes. The scheduler runs one at a time, and takes over before an atomic operation of the
//! core, when the thread waits, and when it ends.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use generator::{Generator, Gn};
use weft_sockets_stepped::sync::stepped;

/// A thread.
pub(crate) struct Task {
    coroutine: Generator<'static, (), ()>,
    /// What it does, until it begins.
    body: Option<Box<dyn FnOnce()>>,
}

/// The thread's process was killed.
struct Killed;

impl Task {
    /// Prepares a thread. A panic in it is kept for [`panic`].
    pub(crate) fn new(body: impl FnOnce() + 'static) -> Self {
        let coroutine = Gn::new_opt(STACK, || {
            let caught = BODY.take().map(|body| catch_unwind(AssertUnwindSafe(body)));
            if let Some(Err(cause)) = caught
                && !cause.is::<Killed>()
            {
                PANIC.set(Some(cause));
            }
        });
        Self { coroutine, body: Some(Box::new(body)) }
    }

    /// Runs the thread until it waits, or for so many operations. Returns false once it has ended.
    pub(crate) fn run(&mut self, steps: u32) -> bool {
        stepped::run_for(steps, pause);
        if let Some(body) = self.body.take() {
            // The coroutine's own closure could not be of one thread alone.
            BODY.set(Some(body));
        }
        IS_RUNNING.set(true);
        self.coroutine.resume();
        IS_RUNNING.set(false);
        stepped::run_for(u32::MAX, pause);
        !self.coroutine.is_done()
    }

    /// Ends the thread where it is.
    pub(crate) fn kill(mut self) {
        if self.body.is_none() && !self.coroutine.is_done() {
            IS_KILLED.set(true);
            let _ended = self.run(u32::MAX);
            IS_KILLED.set(false);
        }
    }
}

/// Lets the scheduler go on.
#[expect(deprecated, reason = "an atomic operation knows no scope of its coroutine")]
pub(crate) fn pause() {
    if !IS_RUNNING.get() {
        return;
    }
    generator::yield_with(());
    if IS_KILLED.get() {
        IS_RUNNING.set(false);
        resume_unwind(Box::new(Killed));
    }
}

/// Returns the panic of a thread.
pub(crate) fn panic() -> Option<Box<dyn Any + Send>> {
    PANIC.take()
}

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    static IS_KILLED: Cell<bool> = const { Cell::new(false) };
    static BODY: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}
/// Words of a stack.
const STACK: usize = 0x4000;
