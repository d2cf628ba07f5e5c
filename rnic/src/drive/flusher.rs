//! The thread that makes memory durable.
//!
//! A disk takes milliseconds, which an engine cannot spare. So each device has one more thread as soon as memory with a
//! copy in a file is registered. All SYNCs that came while it worked share the next fdatasync.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use weft_verbs::Syncer;

use crate::drive::Engines;
use crate::drive::thread::Alarm;
use crate::engine::sync_queue::SyncQueue;

/// Carries out the SYNCs of a device until it is dropped. It finishes those that have begun.
#[derive(Debug)]
pub(crate) struct Flusher {
    queue: Arc<SyncQueue>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(crate) fn start(engines: Arc<Engines>) -> io::Result<Self> {
        let queue = Arc::clone(engines.sync_queue());
        queue.set_closed(false);
        let thread = std::thread::Builder::new().name(NAME.into()).spawn(move || {
            let _alarm = Alarm::set(&engines, NAME);
            run(&engines);
        })?;
        Ok(Self { queue, thread: Some(thread) })
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.queue.set_closed(true);
        if let Some(thread) = self.thread.take() {
            // A panic has been printed by the thread itself; there is nobody to hand it to in a destructor.
            let _printed = thread.join();
        }
    }
}

fn run(engines: &Engines) {
    let (mut syncer, mut begun) = (Syncer::default(), Vec::new());
    while engines.sync_queue().take(&mut begun) {
        syncer.carry_out(begun.iter().map(|begun| &begun.job));
        for begun in begun.drain(..) {
            if let Some(motor) = engines.motors().get(begun.engine) {
                motor.wake(begun.slot);
            }
        }
    }
}

const NAME: &str = "weft-flush";
