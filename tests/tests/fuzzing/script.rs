//! Input for the stream target, written by name.

use weft_tests::fuzzing::Op;

/// A script: the settings, then operations.
#[derive(Clone, Debug)]
pub(crate) struct Script(pub(crate) Vec<u8>);

/// Flags of the first octet.
pub(crate) const ACTIVE: u8 = 0x01;
pub(crate) const MARKERS: u8 = 0x06;
pub(crate) const NO_CRC: u8 = 0x18;
pub(crate) const OLD: u8 = 0x20;
pub(crate) const PEER_TO_PEER: u8 = 0x40;
pub(crate) const RAW: u8 = 0x80;

/// Areas of the device's memory.
pub(crate) const INBOX: u8 = 0;
pub(crate) const TARGET: u8 = 1;
pub(crate) const WRITABLE: u8 = 2;
pub(crate) const READABLE: u8 = 3;
pub(crate) const LOCAL: u8 = 4;
pub(crate) const FOREIGN: u8 = 5;
pub(crate) const OWN: u8 = 6;
pub(crate) const OWN_READABLE: u8 = 7;

impl Script {
    /// Four receives, IRD and ORD 4, every RTR kind, and a second connection at the end.
    pub(crate) fn new(flags: u8) -> Self {
        Self(vec![flags, 0x44, 0x44, 0x3F, 0x04, 0x01])
    }

    /// Sets another octet of the settings.
    pub(crate) fn set(mut self, index: usize, value: u8) -> Self {
        self.0[index] = value;
        self
    }

    pub(crate) fn op(mut self, op: Op, operands: &[&[u8]]) -> Self {
        self.0.push(op as u8);
        for operand in operands {
            self.0.extend_from_slice(operand);
        }
        self
    }

    /// An operation with octets of variable length.
    pub(crate) fn with(self, op: Op, octets: &[u8]) -> Self {
        self.op(op, &[&len16(octets.len()), octets])
    }

    pub(crate) fn send(self, opcode: u8, area: u8, len: u16) -> Self {
        self.op(Op::Send, &[&[opcode, area], &len.to_be_bytes(), &[0]])
    }

    pub(crate) fn write(self, area: u8, offset: u16, len: u16) -> Self {
        self.op(Op::Write, &[&[area], &offset.to_be_bytes(), &len.to_be_bytes(), &[0]])
    }

    pub(crate) fn read(self, area: u8, offset: u16, size: u32) -> Self {
        self.op(Op::ReadRequest, &[&[area], &offset.to_be_bytes(), &size.to_be_bytes()])
    }

    pub(crate) fn answer(self) -> Self {
        self.op(Op::ReadResponse, &[&[0, 0]])
    }

    pub(crate) fn terminate(self, kind: u8, code: u8, bits: u8) -> Self {
        self.op(Op::Terminate, &[&[kind, code, bits]])
    }

    /// Kind 0 Send, 1 Send with Invalidate, 2 Write, 3 Read.
    pub(crate) fn post(self, kind: u8, area: u8, len: u16) -> Self {
        self.op(Op::PostSend, &[&[kind, 0, area, 0, 0], &len.to_be_bytes(), &[7, 0, 16]])
    }

    pub(crate) fn receive(self, area: u8, offset: u16, len: u16) -> Self {
        self.op(Op::PostRecv, &[&[area], &offset.to_be_bytes(), &len.to_be_bytes()])
    }

    pub(crate) fn then(self, op: Op) -> Self {
        self.op(op, &[])
    }
}

pub(crate) fn len16(len: usize) -> [u8; 2] {
    u16::try_from(len).expect("a short run").to_be_bytes()
}
