//! The host's end of the cases: a device on the guest's wire, and queue pairs with the memory that `peer` agrees on.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;

use weft_netif::{Capture, Spec, Wire};
use weft_rnic::{
    Access, CLOCK_SCALE, CmEvent, CompChannel, Completion, Config, Cq, Data, Device, DisconnectReason,
    EventChannel, Mr, Pd, Progress, Qp, QpCapacity, QpInit, RecvWr, SendOpcode, SendWr, Sge, Stag, Status,
};

use crate::pattern::{Kind, Pattern, Side};

/// A device, and the objects that all its connections share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) device: Device,
    pub(crate) pd: Pd,
}

/// One queue pair with its mail, and the memory that the peer may use.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) qp: Qp,
    cq: Cq,
    completions: CompChannel,
    pub(crate) events: EventChannel,
    /// The slots of receives, and behind them one for Sends.
    pub(crate) mail: Mr,
    /// The peer may write here and nowhere else.
    pub(crate) window: Mr,
    /// The peer may read here and nowhere else.
    pub(crate) source: Mr,
    pub(crate) peer_window: Remote,
    pub(crate) peer_source: Remote,
}

/// Memory of the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remote {
    pub(crate) address: u64,
    pub(crate) key: u32,
    pub(crate) len: u32,
}

impl Host {
    /// Opens a device on the Unix socket `wire`. `tune` changes settings from their defaults.
    pub(crate) fn open(wire: &Path, pcap: &Path, tune: impl FnOnce(&mut Config)) -> Result<Self, String> {
        let seed = RandomState::new().hash_one(std::process::id());
        let mut config = Config::new("10.0.0.2/24".parse().map_err(text)?, seed);
        // Threads wait for the guest's lines, and meanwhile the guest waits for ours.
        config.progress = Progress::Thread;
        tune(&mut config);
        let file = File::create(pcap).map_err(|error| format!("{}: {error}", pcap.display()))?;
        let capture = Capture::new(file).with_real_time(Duration::ZERO, CLOCK_SCALE);
        let wire = Wire::open(&Spec::Unix(wire.into()), 1500).map_err(text)?.with_capture(capture);
        let device = Device::open(wire, config).map_err(text)?;
        Ok(Self { pd: device.alloc_pd(), device })
    }

    /// Makes a queue pair with a window and a source of `len` octets.
    pub(crate) fn link(&self, events: &EventChannel, len: usize) -> Result<Link, String> {
        let completions = self.device.create_comp_channel().map_err(text)?;
        let cq = self.device.create_cq(2 * DEPTH, Some(&completions)).map_err(text)?;
        let capacity = QpCapacity { send_wr: DEPTH, recv_wr: DEPTH, ..QpCapacity::default() };
        let init = QpInit { capacity, ..QpInit::new(&cq, &cq) };
        let link = Link {
            qp: self.device.create_qp(&self.pd, &init).map_err(text)?,
            cq,
            completions,
            events: events.clone(),
            mail: self.register((MAIL_SLOTS + 1) * MAIL_OCTETS, Access::LOCAL_WRITE)?,
            window: self.register(len, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?,
            source: self.register(len, Access::REMOTE_READ)?,
            peer_window: Remote::default(),
            peer_source: Remote::default(),
        };
        Pattern::new(Side::Host, Kind::Read, 0, 0).fill(&link.source, 0, len)?;
        Ok(link)
    }

    pub(crate) fn events(&self) -> Result<EventChannel, String> {
        self.device.create_event_channel().map_err(text)
    }

    pub(crate) fn register(&self, len: usize, access: Access) -> Result<Mr, String> {
        self.pd.register(len, access).map_err(text)
    }

    /// Completes the capture, after the last frames of the connections.
    pub(crate) fn close(self) -> Result<(), String> {
        std::thread::sleep(GOODBYE);
        let capture = self.device.with_wire(Wire::take_capture).flatten();
        capture.map_or(Ok(()), Capture::finish).map_err(text)
    }
}

impl Link {
    pub(crate) fn post_receive(&self, wr_id: u64, sge: Sge) -> Result<(), String> {
        self.qp.post_recv(&RecvWr { wr_id: wr_id | RECEIVE, sges: &[sge] }).map_err(text)
    }

    /// Posts a receive into one of the slots of mail. The greeting comes into the first.
    pub(crate) fn post_mail(&self, slot: usize) -> Result<(), String> {
        self.post_receive(slot as u64, self.mail.sge(slot * MAIL_OCTETS, MAIL_OCTETS_U32))
    }

    /// Posts a request with a completion.
    pub(crate) fn post(&self, wr_id: u64, opcode: SendOpcode, sge: Sge) -> Result<(), String> {
        self.post_request(wr_id, opcode, Data::Sges(&[sge]), true)
    }

    /// Sends a few octets, with a completion or without.
    pub(crate) fn send_inline(&self, octets: &[u8], signaled: bool) -> Result<(), String> {
        self.post_request(0, SendOpcode::Send, Data::Inline(octets), signaled)
    }

    /// Sends the shortest frame, which changes nothing. siw may leave frames that follow its Reply at once unread
    /// until more octets come.
    pub(crate) fn nudge(&self) -> Result<(), String> {
        self.post_request(0, SendOpcode::Write { stag: Stag(1), to: 0 }, Data::Sges(&[]), false)
    }

    /// Returns the next completion, whatever its status.
    pub(crate) fn next_completion(&self) -> Result<Completion, String> {
        loop {
            self.cq.request_notification(false);
            if let Some(completion) = self.cq.poll_one() {
                return Ok(completion);
            }
            self.completions.wait(Some(PATIENCE)).ok_or("no completion in time")?;
        }
    }

    pub(crate) fn next_event(&self) -> Result<CmEvent, String> {
        self.events.wait(Some(PATIENCE)).ok_or_else(|| "no event in time".into())
    }

    /// Waits until the connection is established. Returns its private data.
    pub(crate) fn wait_established(&self) -> Result<Vec<u8>, String> {
        match self.next_event()? {
            CmEvent::Established { qp_num, private_data, .. } if qp_num == self.qp.number() => {
                Ok(private_data.to_vec())
            }
            other => Err(format!("instead of being established: {other:?}")),
        }
    }

    /// Waits for the end of the connection.
    pub(crate) fn wait_disconnected(&self) -> Result<DisconnectReason, String> {
        match self.next_event()? {
            CmEvent::Disconnected { qp_num, reason } if qp_num == self.qp.number() => Ok(reason),
            other => Err(format!("instead of being disconnected: {other:?}")),
        }
    }

    /// Tells the peer the window and the source, without a completion.
    pub(crate) fn send_greeting(&self) -> Result<(), String> {
        let mut octets = Vec::new();
        for memory in [&self.window, &self.source] {
            octets.extend(memory.addr().to_be_bytes());
            octets.extend(memory.rkey().0.to_be_bytes());
            octets.extend(u32::try_from(memory.len()).map_err(text)?.to_be_bytes());
        }
        self.send_inline(&octets, false)
    }

    /// Waits for the peer's window and source.
    pub(crate) fn receive_greeting(&mut self) -> Result<(), String> {
        let completion = self.next_completion()?;
        let good = completion.status == Status::Success && completion.wr_id == RECEIVE;
        if !good || completion.byte_len != GREETING_OCTETS {
            return Err(format!("no greeting but {completion:?}"));
        }
        let mut octets = [0; GREETING_OCTETS as usize];
        self.mail.read(0, &mut octets).map_err(|error| format!("{error:?}"))?;
        let word = |place: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&octets[place..place + 8]);
            u64::from_be_bytes(word)
        };
        let [window, source] = [0, 16].map(|place| {
            let [a, b, c, d, e, f, g, h] = word(place + 8).to_be_bytes();
            let (key, len) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
            Remote { address: word(place), key, len }
        });
        (self.peer_window, self.peer_source) = (window, source);
        Ok(())
    }

    fn post_request(
        &self,
        wr_id: u64,
        opcode: SendOpcode,
        data: Data<'_>,
        signaled: bool,
    ) -> Result<(), String> {
        let wr = SendWr { wr_id, opcode, data, signaled, fence: false, solicited: false };
        self.qp.post_send(&wr).map_err(text)
    }
}

impl Remote {
    /// Returns a Write to `offset` of this memory.
    pub(crate) const fn write(self, offset: u64) -> SendOpcode {
        SendOpcode::Write { stag: Stag(self.key), to: self.address.wrapping_add(offset) }
    }

    /// Returns a Read from `offset` of this memory.
    pub(crate) const fn read(self, offset: u64) -> SendOpcode {
        SendOpcode::Read { stag: Stag(self.key), to: self.address.wrapping_add(offset) }
    }
}

/// Returns true if a receive has completed, with any status.
pub(crate) const fn is_receive(completion: &Completion) -> bool {
    completion.wr_id & RECEIVE != 0
}

pub(crate) fn text(error: impl core::fmt::Display) -> String {
    error.to_string()
}

/// No step of a case takes longer, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The number of receives for mail.
pub(crate) const MAIL_SLOTS: usize = 4;
pub(crate) const MAIL_OCTETS: usize = 64;
const MAIL_OCTETS_U32: u32 = 64;
/// Marks the identifiers of receives.
pub(crate) const RECEIVE: u64 = 1 << 63;
const GREETING_OCTETS: u32 = 32;
const DEPTH: u32 = 64;
/// FIN and its acknowledgement take less time, and nothing depends on it.
const GOODBYE: Duration = Duration::from_millis(200);
