//! What makes events of connection management, and how they move to another queue.

use crate::error::CmError;
use crate::objects::event_channel::EventQueue;
use crate::objects::listener::Listener;
use crate::objects::qp::Qp;

/// What makes the events that move to another queue.
#[derive(Clone, Copy, Debug)]
pub enum EventSource<'a> {
    /// The connection of a queue pair.
    Qp(&'a Qp),
    /// A listener.
    Listener(&'a Listener),
    /// Nothing at present.
    None,
}

impl EventSource<'_> {
    /// Drops the events that it makes from now on.
    pub fn silence(&self) {
        match self {
            Self::Qp(qp) => {
                // Without a connection there is nothing to silence.
                let _not_connected = qp.device.engines.at(qp.engine).redirect(qp.slot, None);
            }
            Self::Listener(listener) => {
                for engine in &mut listener.device.engines.all() {
                    engine.redirect_listener(listener.local, None);
                }
            }
            Self::None => {}
        }
    }
}

impl EventQueue {
    /// Moves the notices with this name behind those of `to`, in their order. The notices that `source` makes from
    /// now on go there, too. None is lost, none comes twice.
    ///
    /// # Errors
    /// [`CmError::NotConnected`] when the queue pair has no connection (any more); the notices have been moved.
    pub fn migrate(&self, id: u64, source: EventSource<'_>, to: &Self) -> Result<(), CmError> {
        let move_all = || {
            for notice in self.channel.take_all(|notice| notice.id == id) {
                to.channel.push(notice);
            }
        };
        match source {
            EventSource::Qp(qp) => {
                let mut engine = qp.device.engines.at(qp.engine);
                // The engine makes events under its lock only.
                move_all();
                engine.redirect(qp.slot, Some(&to.channel))?;
            }
            EventSource::Listener(listener) => {
                let mut engines = listener.device.engines.all();
                move_all();
                for engine in &mut engines {
                    engine.redirect_listener(listener.local, Some(&to.channel));
                }
            }
            EventSource::None => move_all(),
        }
        Ok(())
    }
}
