//! How an end waits for a transfer.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::future::Future;
use std::sync::Arc;
use std::task::Wake;
use std::thread::Thread;
use std::time::Duration;

use clap::ValueEnum;
use weft_exs::Op;

/// How an end waits for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Wait {
    /// The thread drives the device, and sleeps on it
    Adaptive,
    /// The thread sleeps until the context's thread wakes it
    Notify,
    /// The thread looks again and again
    Poll,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Wait {
    /// Blocks until the transfer has ended.
    pub(super) fn finish<T>(self, mut op: Op<T>) -> T {
        match self {
            Self::Adaptive => op.wait(),
            Self::Notify => {
                let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
                loop {
                    match Pin::new(&mut op).poll(&mut Context::from_waker(&waker)) {
                        Poll::Ready(outcome) => return outcome,
                        Poll::Pending => std::thread::park(),
                    }
                }
            }
            Self::Poll => loop {
                match op.wait_timeout(Duration::ZERO) {
                    Ok(outcome) => return outcome,
                    Err(under_way) => op = under_way,
                }
                core::hint::spin_loop();
            },
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Notify => "notify",
            Self::Poll => "poll",
        }
    }
}
