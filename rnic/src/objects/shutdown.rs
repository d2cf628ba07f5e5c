//! The end of a device in good order.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_netif::Instant;
use weft_verbs::QpState;

use crate::config::Progress;
use crate::connection::state::{Connection, Phase};
use crate::drive::locked::Motor;
use crate::drive::sleep::{Deadline, sleep};
use crate::engine::Engine;
use crate::events::asynchronous::AsyncEvent;
use crate::objects::device::Device;

impl Device {
    /// Ends everything in good order, and waits until it has ended, at most so long in real time; what is left then is reset.
    /// Answers whether nothing had to be reset.
    ///
    /// Nobody is listened to any more, and what has not become a connection yet is given up. Queue pairs do what is posted to
    /// their send queues by now, close, and flush the rest, so that every request gets its completion; those without a
    /// connection are flushed at once. The device takes no new connection, queue pair, completion queue or shared receive
    /// queue ([`crate::CreateError::ShutDown`], [`crate::CmError::ShutDown`]); its objects can be used and dropped as before.
    ///
    /// With [`Progress::External`] it cannot wait: it begins the end, and answers whether there was nothing to do;
    /// [`Self::is_idle`] says when it is over.
    pub fn shutdown(&self, timeout: Duration) -> bool {
        self.inner.is_shut_down.store(true, Ordering::SeqCst);
        for motor in self.motors() {
            motor.engine().begin_shutdown(self.now());
        }
        self.kick();
        match self.progress_by() {
            Progress::External => self.is_idle(),
            Progress::Manual | Progress::Thread => self.wait_until_idle(timeout) || self.reset_all(),
        }
    }

    /// Whether there is no connection, not even one that only TCP still sees to its end. TIME-WAIT is after that: both sides have
    /// sent and acknowledged everything.
    pub fn is_idle(&self) -> bool {
        self.motors().iter().all(|motor| motor.engine().is_idle())
    }

    fn wait_until_idle(&self, timeout: Duration) -> bool {
        let deadline = Deadline::after(timeout);
        let motors: Vec<&Motor> = self.motors().iter().collect();
        loop {
            self.poll(self.now());
            if self.is_idle() {
                // TCP's last acknowledgement may wait for one more round.
                self.poll(self.now());
                return true;
            }
            let left = deadline.as_ref().map(Deadline::left);
            if left == Some(Duration::ZERO) {
                return false;
            }
            if self.progress_by() == Progress::Manual {
                sleep(&motors, None, left);
            } else {
                // The driver threads are at work, and would have to be parted from what they sleep on.
                std::thread::sleep(left.map_or(NAP, |left| left.min(NAP)));
            }
        }
    }

    fn reset_all(&self) -> bool {
        for motor in self.motors() {
            motor.engine().reset_all(self.now());
        }
        false
    }
}

impl Engine {
    fn begin_shutdown(&mut self, now: Instant) {
        let listeners: Vec<_> = self.listeners.keys().copied().collect();
        for local in listeners {
            self.unlisten(local);
        }
        for slot in 0..self.qps.len() {
            let Some(Some(held)) = self.qps.get(slot) else { continue };
            match (held.qp.queues().state(), held.connection) {
                (QpState::Rts, _) => self.go_to(slot, QpState::Closing, now),
                (QpState::Idle, Some(id)) => self.with_connection(id, now, Connection::give_up),
                (QpState::Idle, None) => self.go_to(slot, QpState::Error, now),
                (QpState::Closing | QpState::Terminate | QpState::Error, _) => {}
            }
        }
        for id in self.ids_in_order() {
            let Some(connection) = self.connections.get(id) else { continue };
            let is_streaming = matches!(connection.phase, Phase::Streaming(_));
            // Those that are being closed already end by themselves.
            if connection.qp.is_some() || matches!(connection.phase, Phase::Ending(_) | Phase::Draining) {
                continue;
            }
            // What was sent in streaming mode still goes out, and FIN behind it.
            if !is_streaming {
                self.reset(id);
            }
            self.remove(id);
        }
        self.stack.egress(now);
    }

    fn is_idle(&self) -> bool {
        self.serials.is_empty() && self.stack.is_settled()
    }

    /// Ends all that there is, of a device that can do nothing any more, and tells the application.
    pub(crate) fn lose(&mut self, now: Instant) {
        self.begin_shutdown(now);
        self.reset_all(now);
        self.async_events.push(AsyncEvent::DeviceFatal);
    }

    fn reset_all(&mut self, now: Instant) {
        for slot in 0..self.qps.len() {
            if self.qps.get(slot).is_some_and(Option::is_some) {
                self.go_to(slot, QpState::Error, now);
            }
        }
        for id in self.ids_in_order() {
            self.reset(id);
            self.remove(id);
        }
        self.stack.reset_all();
        self.stack.egress(now);
    }
}

/// How often a device with threads of its own is asked whether all is over.
const NAP: Duration = Duration::from_millis(1);
