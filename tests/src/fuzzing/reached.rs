//! The milestones that an input has reached.

use std::collections::BTreeSet;

/// The milestones that a run has passed. A test requires them, so that a corpus that no longer gets into Full
/// Operation is noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached(BTreeSet<Milestone>);

/// An event that only a stack in Full Operation produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Milestone {
    /// The device sent the Request, and the stream was established.
    EstablishedAsInitiator,
    /// The peer sent the Request, and the stream was established.
    EstablishedAsResponder,
    /// The device rejected the Request.
    Rejected,
    /// The peer rejected the Request.
    RejectedByPeer,
    /// Startup failed on the device's side.
    StartupFailed,
    /// A Send of the peer was delivered, with these properties.
    SendDelivered {
        /// It asked for an event.
        solicited: bool,
        /// It invalidated an STag.
        invalidate: bool,
    },
    /// Immediate Data of the peer was delivered.
    ImmediateDelivered {
        /// It asked for an event.
        solicited: bool,
    },
    /// The peer's Write changed memory.
    WritePlaced,
    /// A Read Response with payload came from the device.
    ReadAnswered,
    /// An Atomic Response came from the device.
    AtomicAnswered,
    /// A Send of the device completed.
    SendCompleted,
    /// Immediate Data of the device completed.
    ImmediateCompleted,
    /// A Write of the device completed.
    WriteCompleted,
    /// A Read of the device completed.
    ReadCompleted,
    /// An Atomic of the device completed.
    AtomicCompleted,
    /// A local request of the device, without a message, completed.
    CarriedOut,
    /// The device sent a Terminate of this layer.
    TerminateSent(u8),
    /// The device reported a Terminate of the peer of this layer.
    TerminateReceived(u8),
    /// The peer closed gracefully.
    ClosedByPeer,
    /// The application closed gracefully.
    ClosedLocally,
    /// The connection was lost.
    Lost,
    /// FPDUs with Markers came from the device.
    MarkersFromDevice,
    /// FPDUs with Markers went to the device, and it took them.
    MarkersToDevice,
    /// An FPDU without a CRC went to the device, and it took it.
    CrcOff,
    /// The device served a second connection after the end of the first.
    SecondConnection,
}

impl Reached {
    /// Returns true if the milestone was passed.
    pub fn contains(&self, milestone: Milestone) -> bool {
        self.0.contains(&milestone)
    }

    /// Adds the milestones of another run.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub(super) fn add(&mut self, milestone: Milestone) {
        self.0.insert(milestone);
    }
}
