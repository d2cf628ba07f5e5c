//! The second personality: a channel adapter with RoCE v2, whose queue pairs programs may connect by themselves.
//!
//! The program gets GIDs, which are addresses, and numbers of queue pairs, which name ports ([`numbers`]), takes them to the peer by ways of
//! its own, and gives the peer's to `ibv_modify_qp` ([`state`]). What comes of that is a connection of MPA ([`meeting`]) with private data
//! that says who wants whom ([`hello`]). All else is as in the first personality.

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

/// What the process has of it.
#[derive(Debug)]
pub(crate) struct Roce {
    pub(crate) numbers: Arc<Numbers>,
    meetings: Arc<Meetings>,
    /// A program has named a peer.
    has_met: AtomicBool,
}

impl Roce {
    /// Begins with a thread that sees to calls.
    ///
    /// # Errors
    /// When the system has no thread or descriptor left.
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

    /// The program has named the peer of a queue pair, which is `below`. Where that is the queue pair itself, `twin` sends.
    ///
    /// # Errors
    /// What `twin` answers.
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

    /// Whether any queue pair had a peer that its program has named.
    pub(crate) fn has_met(&self) -> bool {
        self.has_met.load(Ordering::Relaxed)
    }

    /// Requests that wait for the peer of this queue pair do so for as long as its attributes say by now.
    pub(crate) fn set_patience(&self, manner: &Manner) {
        let patience = Manner::patience(&manner.attr());
        self.meetings.set_patience(manner.number, patience);
    }

    /// Nobody finds this queue pair by its number any more.
    pub(crate) fn forget(&self, manner: &Manner) {
        self.meetings.forget(manner.number);
    }
}
