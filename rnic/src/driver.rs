//! The thread that drives an engine.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weft_netif::Duration;

use crate::device::Inner;

/// Drives the engine until it is dropped: spins while there is news, then sleeps.
#[derive(Debug)]
pub(crate) struct Driver {
    inner: Arc<Inner>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    pub(crate) fn start(inner: Arc<Inner>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (inner, stop) = (Arc::clone(&inner), Arc::clone(&stop));
            std::thread::Builder::new().name("weft-driver".into()).spawn(move || run(&inner, &stop))?
        };
        Ok(Self { inner, stop, thread: Some(thread) })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.inner.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed by the thread itself; there is nobody to hand it to in a destructor.
            let _printed = thread.join();
        }
    }
}

fn run(inner: &Inner, stop: &AtomicBool) {
    let mut spin_until = None;
    while !stop.load(Ordering::Acquire) {
        let (now, next) = inner.drive();
        if next.is_some_and(|next| next <= now) {
            spin_until = Some(now + SPIN);
            continue;
        }
        match spin_until {
            Some(until) if now < until => std::hint::spin_loop(),
            _ => {
                inner.sleep(None, None);
                spin_until = Some(inner.now() + SPIN);
            }
        }
    }
}

/// How long the thread looks for news before it sleeps, in the engine's time: a wake-up costs several microseconds, and
/// what follows a frame is often the next one.
const SPIN: Duration = Duration::from_micros(200);
