//! A connection between the two hosts, each end on a thread, and how its ends wait for each other.

use core::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use weft_rnic::Stag;

use super::relay::Relay;
use super::scene::Scene;
use crate::case::Trouble;
use crate::net::{Work, now};
use crate::process::Outcome;

/// A TCP, with what stands on it.
pub(super) trait Stack: Copy + Send + Sync + 'static {
    /// One end of a connection.
    type End<'a>: End;

    /// Listens on the second host, tells the address, and accepts a connection.
    fn accept<'a>(&self, work: Work, tell: &Sender<Offer>, guard: &'a Guard<'_>) -> Outcome<Self::End<'a>>;

    /// Connects from the first host.
    fn connect<'a>(&self, work: Work, offer: &Offer, guard: &'a Guard<'_>) -> Outcome<Self::End<'a>>;

    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Returns the address that data comes from.
    fn source(&self) -> Ipv4Addr;

    /// Returns the part of a target below which the run fails ([`crate::case::Side::floor`]).
    fn floor(&self) -> Option<f64> {
        None
    }
}

/// An end of a connection, at its messages. Messages are numbered from 0 in each direction.
pub(super) trait End {
    /// Sends a message. Returns false if it is not wanted any more.
    fn send(&mut self, index: usize) -> Outcome<bool>;

    /// Waits for a message, and checks its octets. Returns false if it is not wanted any more.
    fn receive(&mut self, index: usize) -> Outcome<bool>;
}

/// What a server tells its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) address: SocketAddr,
    /// The server's memory for Writes.
    pub(super) memory: Option<(Stag, u64)>,
}

/// What ends a wait: the messages are not wanted any more, another end has failed, or there is no progress.
#[derive(Debug)]
pub(super) struct Guard<'a> {
    relay: &'a Relay,
    begun: Instant,
    is_over: AtomicBool,
    has_failed: AtomicBool,
}

impl<'a> Guard<'a> {
    pub(super) fn new(scene: &'a Scene) -> Self {
        let [is_over, has_failed] = [false; 2].map(AtomicBool::new);
        Self { relay: &scene.relay, begun: now(), is_over, has_failed }
    }

    /// Ends the messages.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Returns true while messages are wanted. Fails if another end has failed, or nothing goes on. Ends ask after each
    /// [`SLICE`] in which nothing came.
    pub(super) fn goes_on(&self) -> Outcome<bool> {
        if self.has_failed.load(Ordering::Acquire) {
            return Err(Trouble::failed(GAVE_UP));
        }
        if self.is_over.load(Ordering::Acquire) {
            return Ok(false);
        }
        if self.relay.idle() > PATIENCE {
            return Err(Trouble::failed(format!("no progress for {} s", PATIENCE.as_secs())));
        }
        Ok(true)
    }

    /// Fails if another end has failed, or the connection is not there after a long time. SYNs get lost, too.
    pub(super) fn may_connect(&self) -> Outcome<()> {
        if self.has_failed.load(Ordering::Acquire) {
            return Err(Trouble::failed(GAVE_UP));
        }
        if self.begun.elapsed() > PATIENCE_TO_CONNECT {
            return Err(Trouble::failed(format!("no connection in {} s", PATIENCE_TO_CONNECT.as_secs())));
        }
        Ok(())
    }

    /// Runs an end. If it fails or panics, the others are told.
    fn run<T>(&self, act: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let alarm = Alarm(self);
        let result = act();
        if result.is_ok() {
            core::mem::forget(alarm);
        }
        result
    }
}

/// Tells the other ends of a failure or panic when it is dropped.
struct Alarm<'a, 'b>(&'a Guard<'b>);

impl Drop for Alarm<'_, '_> {
    fn drop(&mut self) {
        self.0.has_failed.store(true, Ordering::Release);
    }
}

/// Connects the hosts, and returns what the ends make of it: the client's, then the server's.
pub(super) fn converse<S: Stack, C: Send, T: Send>(
    (scene, guard): (&Scene, &Guard<'_>),
    (stack, work): (S, Work),
    client: impl FnOnce(S::End<'_>) -> Outcome<C> + Send,
    server: impl FnOnce(S::End<'_>) -> Outcome<T> + Send,
) -> Outcome<(C, T)> {
    let (tell, told) = channel();
    let serve = move || guard.run(|| server(stack.accept(work, &tell, guard)?));
    let ask = move || guard.run(|| client(stack.connect(work, &hear(&told, guard)?, guard)?));
    let panicked = || Trouble::failed("an end has panicked");
    let (asked, served) = std::thread::scope(|scope| {
        let serving = scope.spawn(|| scene.hosts[1].within(serve)?);
        let asked = scene.hosts[0].within(ask).and_then(|asked| asked);
        (asked, serving.join().unwrap_or_else(|_| Err(panicked())))
    });
    both(asked, served)
}

/// Returns both results. Of two failures the first one knows why, unless it tells of another's.
pub(super) fn both<A, B>(one: Outcome<A>, other: Outcome<B>) -> Outcome<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(one), Err(other)) if one == Trouble::failed(GAVE_UP) => Err(other),
        (Err(one), _) => Err(one),
        (_, Err(other)) => Err(other),
    }
}

/// Waits for the server to listen.
fn hear(told: &Receiver<Offer>, guard: &Guard<'_>) -> Outcome<Offer> {
    loop {
        match told.recv_timeout(SLICE) {
            Ok(offer) => return Ok(offer),
            Err(RecvTimeoutError::Timeout) => guard.may_connect()?,
            Err(RecvTimeoutError::Disconnected) => return Err(Trouble::failed(GAVE_UP)),
        }
    }
}

/// How long an end waits before it asks its guard.
pub(super) const SLICE: Duration = Duration::from_millis(100);
/// The longest time without progress.
const PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE_TO_CONNECT: Duration = Duration::from_secs(30);
const GAVE_UP: &str = "the other end has failed";
