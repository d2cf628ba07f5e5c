//! What a run did.

use core::fmt::{Display, Formatter, Result};

use crate::daemon::Held;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) whole: u64,
    pub(crate) broken: u64,
    pub(crate) kills: u64,
    pub(crate) shared: u64,
    pub(crate) children: u64,
    pub(crate) stops: u64,
    pub(crate) restarts: u64,
    /// Octets that went by rings.
    pub(crate) ring: u64,
    /// Ends that could be upgraded, and those that were. A new daemon counts those of living processes again.
    pub(crate) eligible: u64,
    pub(crate) upgraded: u64,
    /// Processes that lived at the end, and the one that held most.
    pub(crate) survivors: usize,
    pub(crate) survivor: Option<Held>,
    /// What the daemon held behind all others.
    pub(crate) daemon: Option<Held>,
}

impl Display for Counts {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { connections, whole, broken, kills, shared, children, stops, restarts, .. } = self;
        let Self { ring, eligible, upgraded, survivors, .. } = self;
        write!(
            f,
            "{kills} kills of workers and {children} of their children, {stops} stops, {restarts} restarts of the \
             daemon; {connections} connections, {shared} of them shared by fork, {whole} ends whole, {broken} broken \
             by kills; {ring} octets by ring, {upgraded} of {eligible} eligible ends upgraded"
        )?;
        if let Some(held) = &self.survivor {
            write!(f, "; of {survivors} survivors one holds {held}, and others less")?;
        }
        if let Some(held) = &self.daemon {
            write!(f, "; the last daemon holds {held}")?;
        }
        Ok(())
    }
}
