//! The counters below the RNIC, and the macro by which every layer declares its counters.

/// Declares a struct of counters, each with its meaning. `list` names them, their layer first. `add` adds those of
/// another engine. They are plain integers, which the owner of the struct changes.
#[doc(hidden)]
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])* $layer:literal $name:ident { $($(#[$meaning:meta])* $counter:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$meaning])* pub $counter: u64,)*
        }

        impl $name {
            /// Returns the name of each counter, its layer first, and its value.
            pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((concat!($layer, ".", stringify!($counter)), self.$counter),)*].into_iter()
            }

            /// Adds the counts of another engine.
            pub const fn add(&mut self, other: &Self) {
                $(self.$counter += other.$counter;)*
            }
        }
    };
}

counters! {
    /// The counters of a [`Wire`](crate::Wire), in frames unless the text says octets.
    "wire" WireCounters {
        /// Frames that the device has taken.
        sent,
        /// Frames that the device has given.
        received,
        /// Frames that the device has lost: its ring was full, or they did not come whole. Counted by `packet` and
        /// `xdp` only.
        receive_lost,
        /// Frames that the device has not taken: it was full or down, or had no other end.
        send_lost,
        /// Frames that were not sent because they were longer than the MTU and the Ethernet header.
        too_long,
        /// Octets of the frames taken by the device, Ethernet headers included.
        octets_sent,
        /// Octets of the frames given by the device, Ethernet headers included.
        octets_received,
    }
}

counters! {
    /// The counters of a [`Stack`](crate::Stack). They are totals, except those that say "now".
    "stack" Counters {
        /// Frames taken from the wire, and frames to the own address.
        frames_in,
        /// Frames given to the wire, and frames to the own address.
        frames_out,
        /// Frames to the own address, which do not reach the wire.
        looped,
        /// Frames to the own address that were lost because too many waited.
        loop_overflows,
        /// Frames for another station, and frames that are malformed, fragments, or from a forged sender.
        refused,
        /// Frames whose checksum of IPv4 or TCP was wrong.
        damaged,
        /// Calls into smoltcp for one connection each: the measure of the work that polling does.
        socket_polls,
        /// SYNs dropped because the backlog was full.
        backlog_drops,
        /// Connections now, half-open and closing ones included.
        connections,
        /// Connections now that were removed and are still closing.
        lingering,
    }
}

counters! {
    /// The calls of a [`HostStack`](crate::HostStack) to the kernel. They are totals, in calls unless the text says
    /// otherwise.
    "host" HostCounters {
        /// Calls for news of all sockets together.
        waits,
        /// Calls to receive octets.
        receives,
        /// Calls to send octets.
        sends,
        /// Octets received.
        octets_received,
        /// Of these, octets that the kernel put straight into registered memory.
        octets_placed,
        /// Octets sent: the kernel has taken them.
        octets_sent,
        /// Of these, octets of FPDUs that the kernel took straight from registered memory.
        octets_lent,
        /// Connections accepted.
        accepted,
        /// Attempts to accept that failed because the system had no descriptor or memory left.
        accept_failures,
        /// Times that a listener let connections wait in the kernel because its backlog was full.
        backlog_waits,
    }
}

counters! {
    /// The counters of TCP on all connections of a [`Stack`](crate::Stack), in segments unless the text says octets
    /// (RFC 9293). RFC 4022 has names for some of them.
    "tcp" TcpCounters {
        /// Segments sent, with repeated ones, pure acknowledgements and resets.
        segments_sent,
        /// Segments received for a connection.
        segments_received,
        /// Octets of payload sent, with repeated ones. The octet of a probe does not count.
        octets_sent,
        /// Octets of payload received in order, each once.
        octets_received,
        /// Segments sent that repeat a SYN, FIN or octets sent before (RFC 4022 tcpRetransSegs).
        segments_retransmitted,
        /// Octets of payload sent that were sent before.
        octets_retransmitted,
        /// Segments received that acknowledge octets that were never sent (RFC 9293 section 3.10.7.4). They are
        /// dropped, and answered with an acknowledgement.
        acknowledged_unsent,
        /// Resets sent (RFC 4022 tcpOutRsts).
        resets_sent,
        /// Connections ended, or refused, by a reset of the peer.
        resets_received,
        /// Connections given up because the peer was silent for too long.
        timeouts,
        /// Connections that this side opened and that were established.
        opened,
        /// Connections that a peer opened and that were established.
        accepted,
        /// Connections, of either kind, that ended before they were established (RFC 4022 tcpAttemptFails).
        failed,
    }
}
