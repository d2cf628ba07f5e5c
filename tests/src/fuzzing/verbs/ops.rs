//! The operations of the verbs target. Numbers choose among the existing objects, modulo their count.

use arbitrary::Arbitrary;

/// One call of the API.
#[derive(Arbitrary, Clone, Debug)]
pub(super) enum Op {
    Register {
        side: bool,
        pd: bool,
        len: u8,
        access: u8,
        place: Place,
    },
    Deregister {
        side: bool,
        region: u8,
        /// By a drop, whatever is bound to it.
        is_forced: bool,
    },
    AllocMw {
        side: bool,
        pd: bool,
        is_first: bool,
    },
    DeallocMw {
        side: bool,
        window: u8,
    },
    AllocFast {
        side: bool,
        pd: bool,
        len: u8,
        /// For one queue pair only.
        only: Option<u8>,
    },
    /// The call for windows of type 1.
    BindMw {
        side: bool,
        qp: u8,
        bind: BindChoice,
    },
    Invalidate {
        side: bool,
        region: u8,
    },
    /// The application writes into its memory.
    Touch {
        side: bool,
        region: u8,
        offset: u16,
        octets: [u8; 9],
    },
    CreateCq {
        side: bool,
    },
    DestroyCq {
        side: bool,
        cq: u8,
    },
    CreateQp {
        side: bool,
        choice: QpChoice,
    },
    DestroyQp {
        side: bool,
        qp: u8,
    },
    Connect {
        side: bool,
        qp: u8,
        private_len: u16,
        wrong_port: bool,
    },
    Accept {
        side: bool,
        request: u8,
        qp: u8,
        private_len: u16,
    },
    Reject {
        side: bool,
        request: u8,
        private_len: u16,
    },
    Disconnect {
        side: bool,
        qp: u8,
    },
    PostSend {
        side: bool,
        qp: u8,
        request: SendChoice,
        flags: Flags,
    },
    PostRecv {
        side: bool,
        qp: u8,
        sges: Vec<SgeChoice>,
    },
    Poll {
        side: bool,
        cq: u8,
        count: u8,
    },
}

/// The place of registered memory.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Place {
    /// At the address of the memory.
    Address,
    /// At an offset, which may be too high.
    At(Offset),
    /// For one queue pair, which may be of another domain.
    For(u8),
    /// More memory than the device has.
    Nowhere,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Offset {
    Zero,
    Odd,
    /// This far from the end of the offsets.
    FromEnd(u8),
}

#[derive(Arbitrary, Clone, Debug)]
pub(super) struct QpChoice {
    pub(super) pd: bool,
    pub(super) send_cq: u8,
    pub(super) recv_cq: u8,
    pub(super) send_wr: u8,
    pub(super) recv_wr: u8,
    pub(super) send_sge: u8,
    pub(super) recv_sge: u8,
    pub(super) inline: u16,
    pub(super) signal_all: bool,
    /// With a protection domain of the other device.
    pub(super) foreign: bool,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) struct Flags {
    pub(super) signaled: bool,
    pub(super) fence: bool,
    pub(super) solicited: bool,
    /// The engine does not run before the next request, if that is for the same queue pair.
    pub(super) hold: bool,
}

#[derive(Arbitrary, Clone, Debug)]
pub(super) struct SendChoice {
    pub(super) kind: Kind,
    pub(super) data: DataChoice,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Kind {
    Send,
    SendInvalidate {
        target: Target,
    },
    Write {
        target: Target,
    },
    Read {
        target: Target,
    },
    Immediate {
        data: [u8; 8],
    },
    LocalInvalidate {
        region: Target,
    },
    Bind(BindChoice),
    FastRegister {
        region: u8,
        key: u8,
        offset: u8,
        length: u8,
        access: u8,
        iova: Offset,
    },
    FetchAdd {
        target: Target,
        add: u64,
        mask: u64,
    },
    CompareSwap {
        target: Target,
        swap: u64,
        masks: [bool; 2],
        compare: u64,
    },
    WriteImmediate {
        target: Target,
        immediate: [u8; 4],
    },
    /// Mostly NOP. A HOLD, or a WAIT for a completion queue that does not exist, stops all later requests.
    Idle {
        choice: u8,
    },
}

/// A part of a region for a window.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) struct BindChoice {
    pub(super) window: u8,
    pub(super) key: u8,
    pub(super) region: u8,
    pub(super) offset: u8,
    pub(super) length: u8,
    pub(super) access: u8,
}

#[derive(Arbitrary, Clone, Debug)]
pub(super) enum DataChoice {
    Sges(Vec<SgeChoice>),
    Inline(u16),
    /// One element of eight octets, as Atomics want it.
    Word(SgeChoice),
}

/// A place in the peer's memory.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) region: u8,
    pub(super) offset: u8,
    pub(super) twist: u8,
}

/// A piece of local memory.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) struct SgeChoice {
    pub(super) region: u8,
    pub(super) offset: u8,
    pub(super) length: u8,
    pub(super) twist: u8,
}
