//! Descriptors that processes have sent, and the threads that close them.
//!
//! The last close of a file may take long: a TCP socket waits for its linger time, and a file in user space for its
//! server. A process that closes its own descriptor first leaves that wait to the daemon. So each user has a thread that
//! closes what its processes have sent, and nobody else waits for it.

use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// A descriptor that came from a process, or one of the daemon's own that goes to processes.
#[derive(Debug)]
pub(crate) struct Foreign {
    file: Option<OwnedFd>,
    closer: Closer,
}

impl Foreign {
    /// Takes a descriptor of a process.
    pub(crate) const fn new(file: OwnedFd, closer: Closer) -> Self {
        Self { file: Some(file), closer }
    }

    /// Takes a descriptor whose close waits for nobody: the daemon has made it, or has seen what it is.
    pub(crate) const fn harmless(file: OwnedFd) -> Self {
        Self::new(file, Closer(None))
    }

    /// The thread that closes it, and others of its process.
    pub(crate) fn closer(&self) -> Closer {
        self.closer.clone()
    }

    /// Notes that the descriptor is of a kind whose close waits for nobody.
    pub(crate) fn found_harmless(mut self) -> Self {
        self.closer = Closer(None);
        self
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().unwrap_or_else(|| unreachable!("it is there until it is dropped")).as_fd()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.closer.close(file);
        }
    }
}

/// The thread that closes a user's descriptors. It ends behind the last of them. Without one they are closed at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closer(Option<Queue>);

#[derive(Clone, Debug)]
struct Queue {
    files: Sender<OwnedFd>,
    /// How many wait to be closed.
    waiting: Arc<AtomicU32>,
}

impl Closer {
    /// Starts a thread. Returns `None` if the kernel gives none.
    pub(crate) fn start() -> Option<Self> {
        let ((files, work), waiting) = (channel::<OwnedFd>(), Arc::new(AtomicU32::new(0)));
        let left = Arc::clone(&waiting);
        let close = move || {
            for file in work {
                drop(file);
                left.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().name("weft-closer".to_owned()).stack_size(STACK);
        thread.spawn(close).ok()?;
        Some(Self(Some(Queue { files, waiting })))
    }

    /// True if a thread closes them.
    pub(crate) const fn has_thread(&self) -> bool {
        self.0.is_some()
    }

    /// Returns how many descriptors wait to be closed.
    pub(crate) fn waiting(&self) -> u32 {
        self.0.as_ref().map_or(0, |queue| queue.waiting.load(Ordering::Relaxed))
    }

    fn close(&self, file: OwnedFd) {
        if let Some(queue) = &self.0 {
            queue.waiting.fetch_add(1, Ordering::Relaxed);
            // The thread takes all that is sent before the last sender goes.
            let _sent = queue.files.send(file);
        }
    }
}

/// The thread only closes.
const STACK: usize = 64 << 10;
