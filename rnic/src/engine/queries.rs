//! What an engine has: queue pairs, connections, listeners, counters.

use std::net::{IpAddr, SocketAddr};

use weft_netif::Wire;
use weft_verbs::StreamId;

use crate::counters::Counters;
use crate::engine::info::{ConnectionInfo, ListenerInfo, QpInfo};
use crate::engine::tables::Engine;

impl Engine {
    /// The queue pairs, by slot.
    pub(crate) fn qp_infos(&self) -> Vec<QpInfo> {
        let slots = self.qps.iter().flatten();
        slots
            .map(|slot| {
                let queues = slot.qp.queues();
                let connection = slot.connection.and_then(|id| self.connections.get(id));
                QpInfo {
                    qp_num: queues.number,
                    state: queues.state(),
                    pd: slot.qp.pd().0,
                    send_cq: slot.cqs[0].id.0,
                    recv_cq: slot.cqs[1].id.0,
                    send: [queues.send.len(), queues.send.capacity()],
                    recv: [queues.recv.len(), queues.recv.capacity()],
                    srq: slot.srq.as_ref().map(|srq| srq.id.0),
                    local: connection.and_then(|it| self.stack.local_addr(it.llp)),
                    peer: connection.map(|it| it.peer),
                    counters: slot.qp.counters(),
                }
            })
            .collect()
    }

    /// The queue pairs' numbers by the names of their streams.
    pub(crate) fn qp_streams(&self) -> impl Iterator<Item = (StreamId, u32)> {
        let queues = self.qps.iter().flatten().map(|slot| slot.qp.queues());
        queues.map(|queues| (queues.stream, queues.number))
    }

    /// The connections, in no order.
    pub(crate) fn connection_infos(&self) -> Vec<ConnectionInfo> {
        let number = |slot: usize| Some(self.qps.get(slot)?.as_ref()?.qp.queues().number);
        let connections = self.connections.values();
        connections
            .map(|it| ConnectionInfo {
                id: it.serial,
                phase: it.phase.name(),
                is_active: it.listener.is_none(),
                local: self.stack.local_addr(it.llp),
                peer: it.peer,
                qp_num: it.qp.and_then(number),
            })
            .collect()
    }

    /// The listeners, in no order.
    pub(crate) fn listener_infos(&self) -> impl Iterator<Item = ListenerInfo> {
        self.listeners.iter().map(|(&address, slot)| ListenerInfo {
            address,
            is_streaming: slot.streaming,
            unanswered: slot.asking + slot.silent,
            backlog: slot.backlog,
        })
    }

    /// What was counted in the engine and below.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.wire = self.stack.wire_counters();
        counters.stack = self.stack.counters();
        counters.tcp = self.stack.tcp_counters();
        counters.host = self.stack.host_counters();
        for slot in self.qps.iter().flatten() {
            counters.verbs.add_qp(&slot.qp);
        }
        counters
    }

    /// What the TCP/IP stack below has counted.
    pub(crate) fn stack_counters(&self) -> weft_netif::Counters {
        self.stack.counters()
    }

    /// The wire below, if there is one.
    pub(crate) fn wire(&mut self) -> Option<&mut Wire> {
        self.stack.tcp_mut().map(|stack| stack.wire_mut())
    }

    /// The own address for connections to `remote`, if there is a way.
    pub(crate) fn source_to(&self, remote: SocketAddr) -> Option<IpAddr> {
        self.stack.source_to(remote)
    }

    /// The bits of the own net, or of the net of a route, that `remote` lies in, 0 for a gateway.
    pub(crate) fn route_to(&self, remote: IpAddr) -> Option<u8> {
        self.stack.route_to(remote)
    }
}
