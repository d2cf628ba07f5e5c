//! The second personality: a channel adapter with RoCE v2, whose queue pairs programs may connect themselves.
//!
//! A program gets GIDs, which are addresses, and numbers of queue pairs, which name ports ([`numbers`]). It carries
//! them to the peer by its own means, and gives the peer's to `ibv_modify_qp` ([`state`]). The two queue pairs then
//! find each other over a connection of MPA ([`meeting`]). Its private data names the two queue pairs ([`hello`]).
//! Everything else is as in the first personality.

mod hello;
mod meeting;
mod numbers;
mod state;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use weft_rnic::{Device, EventQueue};

use crate::raw::Blocked;
pub(crate) use hello::End;
use meeting::{Meeting, Meetings};
pub(crate) use numbers::Numbers;
pub(crate) use state::{Manner, Step};

/// The state of the second personality in this process.
#[derive(Debug)]
pub(crate) struct Roce {
    pub(crate) numbers: Arc<Numbers>,
    meetings: Arc<Meetings>,
    /// Set when the program has named the first peer.
    has_met: AtomicBool,
}

impl Roce {
    /// Starts the thread that handles calls of peers.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub(crate) fn begin(device: &Device, max_qps: usize) -> io::Result<Self> {
        let queue = EventQueue::new()?;
        let numbers = Arc::new(Numbers::new(device.clone(), device.events_on(&queue), max_qps));
        let meetings = Arc::new(Meetings::new(device, queue, Arc::clone(&numbers)));
        let attending = Arc::clone(&meetings);
        let blocked = Blocked::begin();
        let thread = std::thread::Builder::new().name("weft-roce".into()).spawn(move || attending.attend());
        drop(blocked);
        thread?;
        Ok(Self { numbers, meetings, has_met: AtomicBool::new(false) })
    }

    /// Begins a meeting with the peer that the program has named for the queue pair `below`. If the peer is the queue
    /// pair itself, `twin` makes the sender.
    ///
    /// # Errors
    /// Those of `twin`.
    pub(crate) fn meet(
        &self,
        ends: [End; 2],
        to: SocketAddr,
        below: &Arc<weft_rnic::Qp>,
        twin: impl FnOnce() -> Result<Arc<weft_rnic::Qp>, Errno>,
    ) -> Result<(), Errno> {
        self.has_met.store(true, Ordering::Relaxed);
        let below = Arc::clone(below);
        let (sender, receiver) = if ends[0] == ends[1] { (twin()?, Some(below)) } else { (below, None) };
        self.meetings.begin(Meeting::new(ends, to, sender, receiver));
        Ok(())
    }

    /// Returns true if the program has named a peer for any queue pair.
    pub(crate) fn has_met(&self) -> bool {
        self.has_met.load(Ordering::Relaxed)
    }

    /// Sets how long requests of a queue pair wait for its peer, by its attributes.
    pub(crate) fn set_patience(&self, manner: &Manner) {
        let patience = Manner::patience(&manner.attr());
        self.meetings.set_patience(manner.number, patience);
    }

    /// Ends the meeting of a queue pair. Peers no longer find it by its number.
    pub(crate) fn forget(&self, manner: &Manner) {
        self.meetings.forget(manner.number);
    }
}
