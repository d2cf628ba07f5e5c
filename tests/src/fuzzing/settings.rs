//! The first octets of the stream target's input.

use weft_mpa::RtrSet;

use super::input::Input;

/// The settings of the two sides. See [`Settings::take`] for the octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// The device sends the Request.
    pub(super) is_active: bool,
    /// The input has the startup octets, too.
    pub(super) is_raw: bool,
    /// The application rejects.
    pub(super) rejects: bool,
    /// The application polls its queues only when the input says so.
    pub(super) is_lazy: bool,
    pub(super) has_small_cq: bool,
    pub(super) signals_all: bool,
    pub(super) comes_again: bool,
    pub(super) mtu: usize,
    pub(super) receives: u8,
    pub(super) device: weft_mpa::Config,
    pub(super) peer: weft_mpa::Config,
}

impl Settings {
    /// Six octets:
    ///
    /// ```text
    /// 0   0x01 the device sends the Request, 0x02 it wants Markers, 0x04 the peer does, 0x08 the device does not ask
    ///     for a CRC, 0x10 the peer does not, 0x20 the peer (or, if it is active, the device) speaks RFC 5044 only,
    ///     0x40 peer-to-peer, 0x80 startup is part of the input
    /// 1   IRD and ORD of the device, four bits each, IRD in the lower ones
    /// 2   the same of the peer
    /// 3   0x07 RTR kinds of the peer (Send, Write, Read), 0x38 of the device, 0x40 the application rejects, 0x80 a
    ///     completion queue that overruns
    /// 4   0x0F receives that are posted before startup, 0x10 the queue pair signals everything, 0x20 the application is lazy,
    ///     0xC0 MTU
    /// 5   0x01 a second connection at the end
    /// ```
    pub(super) fn take(input: &mut Input<'_>) -> Self {
        let [flags, device, peer, more, first, last] = core::array::from_fn(|_| input.octet());
        let is_active = flags & 0x01 != 0;
        let is_old = flags & 0x20 != 0;
        let config = |markers, no_crc, depths: u8, rtr: u8, enhanced| weft_mpa::Config {
            crc: flags & no_crc == 0,
            markers: flags & markers != 0,
            enhanced,
            ird: u16::from(depths & 0x0F),
            ord: u16::from(depths >> 4),
            peer_to_peer: flags & 0x40 != 0 && enhanced,
            rtr: RtrSet { send: rtr & 0x01 != 0, write: rtr & 0x02 != 0, read: rtr & 0x04 != 0 },
        };
        Self {
            is_active,
            is_raw: flags & 0x80 != 0,
            rejects: more & 0x40 != 0,
            has_small_cq: more & 0x80 != 0,
            receives: first & 0x0F,
            signals_all: first & 0x10 != 0,
            is_lazy: first & 0x20 != 0,
            mtu: [1500, 576, 9000, 1499][usize::from(first >> 6)],
            comes_again: last & 0x01 != 0,
            device: config(0x02, 0x08, device, more >> 3, !(is_active && is_old)),
            peer: config(0x04, 0x10, peer, more, !is_old),
        }
    }
}
