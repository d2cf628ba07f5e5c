//! Steps that a test leaves out to see that the model notices it.

/// A step that the programs leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A thread that goes to sleep does not look once more.
    LastLook,
    /// A far reader takes the end of the kernel's stream for that of the link.
    EarlyEnd,
    /// A sender wakes nobody.
    Wake,
    /// A reader that asks for TCP wakes nobody.
    WakeOfQuestion,
    /// A sender does not close the gate before it leaves TCP.
    Gate,
    /// A thread that waits in the kernel does not go inside the gate.
    GateOfWait,
    /// A thread that waits in the kernel for room does not go inside the gate of the sending direction.
    GateOfRoom,
    /// A thread looks whether a direction is on TCP before it goes inside the gate.
    LookBeforeGate,
    /// A reader leaves TCP without the lock.
    AttachUnlocked,
    /// A ring is given back before the reader has left it.
    RingTooEarly,
    /// A far reader that finds a record takes what it has already once more.
    Known,
    /// A daemon that ends a session lets no end go on by TCP.
    SessionEnd,
    /// A sender does not see that its daemon is dead.
    Silence,
}

impl Sabotage {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::LastLook,
        Self::EarlyEnd,
        Self::Wake,
        Self::WakeOfQuestion,
        Self::Gate,
        Self::GateOfWait,
        Self::GateOfRoom,
        Self::LookBeforeGate,
        Self::AttachUnlocked,
        Self::RingTooEarly,
        Self::Known,
        Self::SessionEnd,
        Self::Silence,
    ];
}
