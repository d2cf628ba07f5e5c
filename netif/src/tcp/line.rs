//! The wire, and the frames that a station sends to itself.

use std::collections::VecDeque;

use smoltcp::time::Instant;

use crate::config::StackConfig;
use crate::demux::Demux;
use crate::frame::Frame;
use crate::wire::Wire;

/// The wire of a stack, and the frames to its own address that wait.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) wire: Wire,
    pub(crate) demux: Demux,
    looped: VecDeque<Frame>,
    is_loops_turn: bool,
    /// Losses of the wire's other end that were told so far.
    losses: u64,
    pub(crate) frames_out: u64,
    pub(crate) loops: u64,
    pub(crate) loop_overflows: u64,
}

/// What [`Line::take`] has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// No frame.
    Nothing,
    /// A frame from the wire.
    Arrived,
    /// A frame of this station.
    Looped,
}

impl Line {
    pub(crate) fn new(wire: Wire, config: &StackConfig) -> Self {
        Self {
            wire,
            demux: Demux::new(config.mac, config.ip.address),
            looped: VecDeque::new(),
            is_loops_turn: false,
            losses: 0,
            frames_out: 0,
            loops: 0,
            loop_overflows: 0,
        }
    }

    /// Sends a frame, and leaves any frame in its place. A frame in a buffer that may be shared stays. Returns false
    /// if there is no room for it.
    pub(crate) fn send(&mut self, now: Instant, frame: &mut Frame) -> bool {
        let is_taken = if !self.demux.turns_round(frame) {
            self.wire.transmit(now, frame)
        } else if self.wire.hand_over(frame, true) {
            self.loops += 1;
            true
        } else if self.looped.len() < MAX_LOOPED {
            self.loops += 1;
            self.looped.push_back(frame.hand_on(Frame::default));
            true
        } else {
            self.loop_overflows += 1;
            false
        };
        self.frames_out += u64::from(is_taken);
        is_taken
    }

    /// Takes the frames in that other stacks of this station have sent to it.
    pub(crate) fn gather(&mut self) {
        while self.looped.len() < MAX_LOOPED
            && let Some(frame) = self.wire.take_turned()
        {
            self.looped.push_back(frame);
        }
    }

    /// Takes the next frame. Frames to the own address and frames from the wire take turns, so that neither can starve
    /// the other.
    pub(crate) fn take(&mut self, now: Instant, frame: &mut Frame) -> Taken {
        self.is_loops_turn = !self.is_loops_turn && !self.looped.is_empty();
        if !self.is_loops_turn && self.wire.take(now, frame) {
            return Taken::Arrived;
        }
        let Some(next) = self.looped.pop_front() else { return Taken::Nothing };
        *frame = next;
        Taken::Looped
    }

    /// Returns true if the wire has lost its other end since the last call. It knows that only when it has no more
    /// frames of the lost peer.
    pub(crate) fn has_lost_peer(&mut self) -> bool {
        let losses = self.wire.losses();
        core::mem::replace(&mut self.losses, losses) != losses
    }

    /// Returns true if no further frame is known to wait.
    pub(crate) fn is_drained(&self) -> bool {
        self.looped.is_empty() && self.wire.is_drained()
    }

    /// Returns true if a frame is known to wait.
    pub(crate) fn is_readable(&self) -> bool {
        !self.looped.is_empty() || self.wire.is_readable()
    }
}

/// The most frames to the own address that wait.
const MAX_LOOPED: usize = 512;
