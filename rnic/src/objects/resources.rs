//! The objects of a device and their state, as `rdma resource show` has them. Each list is a snapshot, taken under the engine's
//! lock.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use weft_verbs::{CqCounters, MemoryInfo, QpCounters, QpState, StreamId};

use crate::engine::Engine;
use crate::objects::device::Device;

/// A protection domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PdInfo {
    /// Its number within the device.
    pub pd: u64,
    /// Queue pairs in it.
    pub qps: usize,
    /// Memory regions and windows in it.
    pub mrs: usize,
}

/// A memory region or window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MrInfo {
    /// What it is, and its STag.
    pub memory: MemoryInfo,
    /// The queue pair whose stream alone may use it, if there is one.
    pub qp_num: Option<u32>,
}

/// A completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CqInfo {
    /// Its number within the device.
    pub cq: u64,
    /// Completions that wait to be polled.
    pub used: u64,
    /// Completions that fit.
    pub entries: u64,
    /// A notification was asked for; `Some(true)` when only for solicited or failed completions.
    pub armed: Option<bool>,
    /// It has a completion channel.
    pub has_channel: bool,
    /// A completion was lost.
    pub is_overrun: bool,
    /// What it has counted.
    pub counters: CqCounters,
}

/// A shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SrqInfo {
    /// Its number within the device.
    pub srq: u64,
    /// The protection domain.
    pub pd: u64,
    /// Requests that no message has taken yet, and those that fit.
    pub recv: [u64; 2],
    /// Below so many requests there is an event; 0 for none.
    pub limit: u32,
    /// Queue pairs that use it.
    pub qps: usize,
}

/// A queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QpInfo {
    /// The queue pair number.
    pub qp_num: u32,
    /// The state.
    pub state: QpState,
    /// The protection domain.
    pub pd: u64,
    /// The completion queues of both work queues.
    pub send_cq: u64,
    /// See `send_cq`.
    pub recv_cq: u64,
    /// Requests in the send queue, and those that fit.
    pub send: [u64; 2],
    /// Requests in the receive queue, and those that fit.
    pub recv: [u64; 2],
    /// The shared receive queue in place of a receive queue of its own.
    pub srq: Option<u64>,
    /// The own end of its connection.
    pub local: Option<SocketAddr>,
    /// The peer's end.
    pub peer: Option<SocketAddr>,
    /// What it has counted.
    pub counters: QpCounters,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Its number within the device, never used again.
    pub id: u64,
    /// Where it stands.
    pub phase: &'static str,
    /// This side has opened it.
    pub is_active: bool,
    /// The own end, as long as TCP has it.
    pub local: Option<SocketAddr>,
    /// The peer's end.
    pub peer: SocketAddr,
    /// The queue pair, from connect or accept on.
    pub qp_num: Option<u32>,
}

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerInfo {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its connections begin in streaming mode.
    pub is_streaming: bool,
    /// Connections that the application has not answered yet.
    pub unanswered: usize,
    /// How many of those there may be.
    pub backlog: usize,
}

impl Device {
    /// The protection domains, by number: those with a handle, and those with an object in them.
    pub fn pds(&self) -> Vec<PdInfo> {
        let fresh = |pd| PdInfo { pd, qps: 0, mrs: 0 };
        let mut pds: BTreeMap<u64, PdInfo> =
            self.registry().pds().into_iter().map(|pd| (pd, fresh(pd))).collect();
        for engine in self.engines() {
            for slot in engine.qps.iter().flatten() {
                let pd = slot.qp.pd().0;
                pds.entry(pd).or_insert_with(|| fresh(pd)).qps += 1;
            }
        }
        for memory in self.memory().list() {
            let pd = memory.pd.0;
            pds.entry(pd).or_insert_with(|| fresh(pd)).mrs += 1;
        }
        pds.into_values().collect()
    }

    /// The memory regions and windows.
    pub fn mrs(&self) -> Vec<MrInfo> {
        let mut streams: HashMap<StreamId, u32> = HashMap::new();
        for engine in self.engines() {
            let queues = engine.qps.iter().flatten().map(|slot| slot.qp.queues());
            streams.extend(queues.map(|queues| (queues.stream, queues.number)));
        }
        let list = self.memory().list().into_iter();
        list.map(|memory| MrInfo {
            qp_num: memory.stream.and_then(|stream| streams.get(&stream).copied()),
            memory,
        })
        .collect()
    }

    /// The completion queues, in the order in which they were made.
    pub fn cqs(&self) -> Vec<CqInfo> {
        let cqs = self.registry().cqs();
        cqs.iter()
            .map(|cq| CqInfo {
                cq: cq.id.0,
                used: cq.queue.len(),
                entries: cq.queue.capacity(),
                armed: cq.queue.armed(),
                has_channel: cq.channel.is_some(),
                is_overrun: cq.queue.is_overrun(),
                counters: cq.queue.counters(),
            })
            .collect()
    }

    /// The shared receive queues, in the order in which they were made.
    pub fn srqs(&self) -> Vec<SrqInfo> {
        let engines = self.engines();
        let users = |id: u64| {
            let slots = engines.iter().flat_map(|engine| engine.qps.iter().flatten());
            slots.filter(|slot| slot.srq.as_ref().is_some_and(|srq| srq.id.0 == id)).count()
        };
        let srqs = self.registry().srqs();
        srqs.iter()
            .map(|srq| SrqInfo {
                srq: srq.id.0,
                pd: srq.pd.0,
                recv: [srq.queue.waiting(), srq.queue.capacity()],
                limit: srq.queue.limit(),
                qps: users(srq.id.0),
            })
            .collect()
    }

    /// The queue pairs, by number.
    pub fn qps(&self) -> Vec<QpInfo> {
        let mut list: Vec<_> = self.engines().iter().flat_map(|engine| engine.qp_infos()).collect();
        list.sort_unstable_by_key(|info| info.qp_num);
        list
    }

    /// The connections, in the order in which they began.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let mut list: Vec<_> = self.engines().iter().flat_map(|engine| engine.connection_infos()).collect();
        list.sort_unstable_by_key(|info| info.id);
        list
    }

    /// The listeners, by address.
    pub fn listeners(&self) -> Vec<ListenerInfo> {
        let mut list: BTreeMap<SocketAddr, ListenerInfo> = BTreeMap::new();
        for engine in self.engines() {
            for (&address, slot) in &engine.listeners {
                let fresh = ListenerInfo {
                    address,
                    is_streaming: slot.streaming,
                    unanswered: 0,
                    backlog: slot.backlog,
                };
                list.entry(address).or_insert(fresh).unanswered += slot.asking + slot.silent;
            }
        }
        list.into_values().collect()
    }
}

impl Engine {
    fn qp_infos(&self) -> Vec<QpInfo> {
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

    fn connection_infos(&self) -> Vec<ConnectionInfo> {
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
}
