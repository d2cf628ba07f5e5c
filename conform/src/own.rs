//! A connection of a TCP in this process, on its own wire.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::{Capture, ConnectionId, Instant, Llp, LlpState, Stack, StackConfig, Wire};

use crate::arrival::{Arrival, DialError};
use crate::time::{Clock, Deadline};

/// The stack, and the clock that it runs on.
#[derive(Debug)]
pub(crate) struct OwnStack {
    stack: Stack,
    clock: Clock,
    /// The offset of the next connection's port from the first ephemeral one. Ports drawn at random repeat within a
    /// few hundred connections. The target may still wait in TIME-WAIT for the last use of a port.
    next_port: u16,
}

#[derive(Debug)]
pub(crate) struct OwnTcp {
    stack: Rc<RefCell<OwnStack>>,
    id: ConnectionId,
}

impl OwnStack {
    pub(crate) fn new(wire: Wire, config: StackConfig) -> Self {
        let next_port = u16::try_from(config.seed % u64::from(EPHEMERAL_COUNT)).unwrap_or(0);
        Self { stack: Stack::new(wire, config, Instant::ZERO), clock: Clock::start(), next_port }
    }

    /// Runs the stack until `done` returns true or the deadline passes.
    pub(crate) fn run(&mut self, deadline: &Deadline, mut done: impl FnMut(&mut Stack) -> bool) {
        loop {
            let now = self.now();
            self.stack.ingress(now);
            while self.stack.next_ready().is_some() {}
            self.stack.egress(now);
            if done(&mut self.stack) {
                self.stack.egress(self.now());
                return;
            }
            let Some(left) = deadline.left() else { return };
            let now = self.now();
            let next = self
                .stack
                .poll_at(now)
                .map(|next| if next > now { Duration::from(next - now) } else { Duration::ZERO });
            let left = next.map_or(left, |next| left.min(next));
            sleep(self.stack.poll_fd(), self.stack.wire().wants_write(), left);
        }
    }

    pub(crate) fn take_capture(&mut self) -> Option<Capture> {
        self.stack.wire_mut().take_capture()
    }

    fn now(&self) -> Instant {
        Instant::from_micros(i64::try_from(self.clock.elapsed().as_micros()).unwrap_or(i64::MAX))
    }
}

impl OwnTcp {
    pub(crate) fn connect(
        stack: &Rc<RefCell<OwnStack>>,
        target: SocketAddr,
        patience: Duration,
    ) -> Result<Self, DialError> {
        let mut own = stack.borrow_mut();
        let now = own.now();
        let port = EPHEMERAL_FIRST + own.next_port;
        own.next_port = (own.next_port + 1) % EPHEMERAL_COUNT;
        let local = (own.stack.ip().address, port).into();
        let id = own
            .stack
            .connect(target, Some(local), now)
            .map_err(|error| DialError::Impossible(error.to_string()))?;
        own.run(&Deadline::after(patience), |stack| stack.state(id) != Some(LlpState::Connecting));
        let state = own.stack.state(id);
        drop(own);
        let tcp = Self { stack: Rc::clone(stack), id };
        match state {
            Some(LlpState::Established | LlpState::PeerClosed) => Ok(tcp),
            Some(LlpState::Connecting) | None => {
                tcp.abort();
                Err(DialError::Silent)
            }
            Some(LlpState::Reset | LlpState::Closed) => Err(DialError::Refused),
        }
    }

    pub(crate) fn send(&self, octets: &[u8], deadline: &Deadline) -> bool {
        let id = self.id;
        let mut rest = octets;
        self.stack.borrow_mut().run(deadline, |stack| {
            let Some(mut llp) = stack.llp(id) else { return true };
            let len = llp.send_slice(rest);
            rest = &rest[len..];
            rest.is_empty() || matches!(llp.state(), LlpState::Reset | LlpState::Closed)
        });
        rest.is_empty()
    }

    pub(crate) fn receive(&self, deadline: &Deadline) -> Arrival {
        let id = self.id;
        let mut arrival = Arrival::Nothing;
        self.stack.borrow_mut().run(deadline, |stack| {
            arrival = stack.llp(id).map_or(Arrival::Reset, |mut llp| take(&mut llp));
            arrival != Arrival::Nothing
        });
        arrival
    }

    pub(crate) fn finish(&self) {
        self.with_llp(|llp| llp.shutdown());
    }

    pub(crate) fn abort(&self) {
        self.with_llp(|llp| llp.abort());
    }

    /// Returns the octets of payload in the largest segment in either direction, as the MSS options of both sides
    /// say.
    pub(crate) fn emss(&self) -> Option<usize> {
        self.stack.borrow_mut().stack.llp(self.id).map(|llp| llp.emss())
    }

    fn with_llp(&self, act: impl FnOnce(&mut Llp<'_>)) {
        let mut own = self.stack.borrow_mut();
        if let Some(mut llp) = own.stack.llp(self.id) {
            act(&mut llp);
        }
        let now = own.now();
        own.stack.egress(now);
    }
}

/// The stack goes on closing the connection after the drop.
impl Drop for OwnTcp {
    fn drop(&mut self) {
        let mut own = self.stack.borrow_mut();
        own.stack.remove(self.id);
        let now = own.now();
        own.stack.egress(now);
    }
}

fn take(llp: &mut Llp<'_>) -> Arrival {
    let octets = llp.readable().to_vec();
    if !octets.is_empty() {
        llp.consume(octets.len());
        return Arrival::Octets(octets);
    }
    match llp.state() {
        LlpState::Reset => Arrival::Reset,
        _ if llp.is_drained() => Arrival::Fin,
        _ => Arrival::Nothing,
    }
}

fn sleep(fd: Option<BorrowedFd<'_>>, wants_write: bool, time: Duration) {
    let Some(fd) = fd else { return std::thread::sleep(time.min(BLIND_SLEEP)) };
    let out = if wants_write { PollFlags::OUT } else { PollFlags::empty() };
    let timeout = Timespec::try_from(time).ok();
    // An interrupted wait only ends early: the caller looks again.
    let _interrupted = poll(&mut [PollFd::new(&fd, PollFlags::IN | out)], timeout.as_ref());
}

/// The sleep between two looks at a wire without a descriptor.
const BLIND_SLEEP: Duration = Duration::from_millis(1);
const EPHEMERAL_FIRST: u16 = 49_152;
const EPHEMERAL_COUNT: u16 = 16_384;
