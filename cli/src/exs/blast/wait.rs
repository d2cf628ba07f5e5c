//! How an end waits for a transfer.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::future::Future;
use std::sync::Arc;
use std::task::Wake;
use std::thread::Thread;

use clap::ValueEnum;
use weft_exs::{Op, Waiting};

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
    /// Has the context's threads wait so.
    pub(super) fn begin(self, on: &weft_exs::Context) {
        on.set_waiting(if self == Self::Poll { Waiting::BusyPoll } else { Waiting::Adaptive });
    }

    /// Blocks until the transfer has ended.
    pub(super) fn finish<T>(self, mut op: Op<T>) -> T {
        if self != Self::Notify {
            return op.wait();
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            match Pin::new(&mut op).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => std::thread::park(),
            }
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
