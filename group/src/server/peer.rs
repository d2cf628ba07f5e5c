//! A control connection that another side has opened.

use std::net::SocketAddr;

use weft_rnic::Pd;

use crate::control::{Answer, SessionStatus};
use crate::link::{Gone, Link};

use super::hosted::{Hosted, Next};
use super::roster::RosterEntry;
use super::task::Task;

/// A client, or the replica before this one.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) link: Link,
    /// The domain of the link. Nobody else can name what is registered there.
    pub(super) pd: Pd,
    pub(super) address: SocketAddr,
    /// It has said Hello.
    pub(super) is_greeted: bool,
    pub(super) session: Option<Hosted>,
    /// The way to the next replica of a session that has ended, and the number of that replica: it may still say why.
    pub(super) leaving: Option<(Next, usize)>,
    /// What it has asked for that takes long.
    pub(super) task: Option<Task>,
}

impl Peer {
    pub(super) fn new((link, pd): (Link, Pd), address: SocketAddr) -> Self {
        Self { link, pd, address, is_greeted: false, session: None, leaving: None, task: None }
    }

    /// Returns whether nothing is under way that it has asked for.
    pub(super) const fn is_free(&self) -> bool {
        self.session.is_none() && self.leaving.is_none() && self.task.is_none()
    }

    pub(super) fn answer(&mut self, answer: &Answer) -> Result<(), Gone> {
        self.link.send(&answer.encode())
    }

    /// Returns the control connection to the next replica.
    pub(super) fn next(&mut self) -> Option<&mut Next> {
        let session = self.session.as_mut().and_then(|session| session.next.as_mut());
        session.or_else(|| self.leaving.as_mut().map(|(next, _)| next))
    }

    pub(super) fn entry(&self) -> Option<RosterEntry> {
        let qp_num = self.session.as_ref()?.replica.inward().number();
        Some(RosterEntry { status: self.status()?, qp_num })
    }

    pub(super) fn status(&self) -> Option<SessionStatus> {
        let session = self.session.as_ref()?;
        let open = &session.open;
        Some(SessionStatus {
            epoch: open.epoch,
            session: open.session,
            peer: self.address,
            index: open.index,
            replicas: open.members.len(),
            range: open.range.clone(),
            window: open.window,
            is_ready: session.is_begun && session.is_entered,
        })
    }
}
