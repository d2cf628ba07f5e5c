//! Lists of the objects of a device with their state, as `rdma resource show` has them. Each list is a snapshot,
//! taken under the engine's lock.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use weft_verbs::StreamId;

use crate::engine::info::{ConnectionInfo, CqInfo, ListenerInfo, MrInfo, PdInfo, QpInfo, SrqInfo};
use crate::objects::device::Device;

impl Device {
    /// The protection domains, by number: those with a handle, and those with an object in them.
    pub fn pds(&self) -> Vec<PdInfo> {
        let fresh = |pd| PdInfo { pd, qps: 0, mrs: 0 };
        let mut pds: BTreeMap<u64, PdInfo> =
            self.engines.registry().pds().into_iter().map(|pd| (pd, fresh(pd))).collect();
        for engine in self.engines.all() {
            for qp in engine.qp_infos() {
                pds.entry(qp.pd).or_insert_with(|| fresh(qp.pd)).qps += 1;
            }
        }
        for memory in self.engines.memory().list() {
            let pd = memory.pd.0;
            pds.entry(pd).or_insert_with(|| fresh(pd)).mrs += 1;
        }
        pds.into_values().collect()
    }

    /// The memory regions and windows.
    pub fn mrs(&self) -> Vec<MrInfo> {
        let mut streams: HashMap<StreamId, u32> = HashMap::new();
        for engine in self.engines.all() {
            streams.extend(engine.qp_streams());
        }
        let list = self.engines.memory().list().into_iter();
        list.map(|memory| MrInfo {
            qp_num: memory.stream.and_then(|stream| streams.get(&stream).copied()),
            memory,
        })
        .collect()
    }

    /// The completion queues, in the order in which they were made.
    pub fn cqs(&self) -> Vec<CqInfo> {
        let cqs = self.engines.registry().cqs();
        cqs.iter()
            .map(|cq| CqInfo {
                cq: cq.id.0,
                used: cq.queue.len(),
                entries: cq.queue.capacity(),
                armed: cq.queue.armed(),
                has_channel: cq.has_channel,
                is_overrun: cq.queue.is_overrun(),
                counters: cq.queue.counters(),
            })
            .collect()
    }

    /// The shared receive queues, in the order in which they were made.
    pub fn srqs(&self) -> Vec<SrqInfo> {
        let qps = self.qps();
        let users = |id: u64| qps.iter().filter(|qp| qp.srq == Some(id)).count();
        let srqs = self.engines.registry().srqs();
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
        let mut list: Vec<_> = self.engines.all().iter().flat_map(|engine| engine.qp_infos()).collect();
        list.sort_unstable_by_key(|info| info.qp_num);
        list
    }

    /// The connections, in the order in which they began.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let mut list: Vec<_> =
            self.engines.all().iter().flat_map(|engine| engine.connection_infos()).collect();
        list.sort_unstable_by_key(|info| info.id);
        list
    }

    /// The listeners, by address.
    pub fn listeners(&self) -> Vec<ListenerInfo> {
        let mut list: BTreeMap<SocketAddr, ListenerInfo> = BTreeMap::new();
        for engine in self.engines.all() {
            for info in engine.listener_infos() {
                let fresh = ListenerInfo { unanswered: 0, ..info };
                list.entry(info.address).or_insert(fresh).unanswered += info.unanswered;
            }
        }
        list.into_values().collect()
    }
}
