//! How a lane is opened on a wire, by two daemons that have greeted each other by the TCP of their hosts.
//!
//! A wire says nothing of who is there. So each daemon shows there the nonce that the other one has told in its
//! greeting. Only the daemon at the host's address has heard it, and with a key, only one that has proved the key.

use core::net::SocketAddr;
use core::time::Duration;

use weft_rnic::{ConnParam, ConnectRequest};
use weft_sockets::{Hello, NONCE_LEN, Proof};

use crate::hosts::host::{Contact, OnWire, Opening};
use crate::hosts::rnic::Way;
use crate::remote::opening::NOBODY;
use crate::state::State;

impl State {
    /// Connects to a daemon on its wire. If the own wire does not lead there, greets it once more without one.
    pub(crate) fn connect_on_wire(
        &mut self,
        name: u64,
        remote: SocketAddr,
        nonce: [u8; NONCE_LEN],
        now: Duration,
    ) {
        if self.try_on_wire(name, remote, nonce).is_none() {
            if let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) {
                host.off_wire = now + NOBODY;
            }
            self.drop_lane(name, now);
            self.open_lane(name, None, now);
        }
    }

    fn try_on_wire(&mut self, name: u64, remote: SocketAddr, nonce: [u8; NONCE_LEN]) -> Option<()> {
        self.hosts.as_ref()?.wire_to(remote)?;
        let lane = self.lane(name, Way::Wire)?;
        let hello = self.hello(name, nonce, Proof::Without, None)?;
        let hosts = self.hosts.as_mut()?;
        let Contact::Opening(opening) = &mut hosts.hosts.get_mut(&name)?.contact else { return None };
        let (rnic, _) = hosts.wire.as_ref()?;
        let param = ConnParam { private_data: &hello, peer_to_peer: Some(true), ..ConnParam::NONE };
        if !rnic.connect(&lane, remote, param) {
            return None;
        }
        hosts.by_qp.insert((Way::Wire, lane.qp.number()), name);
        opening.wire = Some(OnWire { remote, nonce, lane: Some(lane) });
        Some(())
    }

    /// Answers a daemon that comes on the wire. `None`: it has not been greeted, or it has come already.
    pub(crate) fn accept_on_wire(&mut self, request: &ConnectRequest) -> Option<()> {
        let theirs = Hello::decode(&request.private_data)?;
        let hosts = self.hosts.as_ref()?;
        let is_its = |opening: &Opening| {
            let is_awaited = |wire: &OnWire| wire.lane.is_none() && wire.remote.ip() == request.peer.ip();
            opening.nonce == theirs.nonce && opening.wire.as_ref().is_some_and(is_awaited)
        };
        let greeted = |contact: &Contact| matches!(contact, Contact::Opening(opening) if is_its(opening));
        let (name, host) = hosts.hosts.iter().find(|(_, host)| greeted(&host.contact))?;
        let Contact::Opening(Opening { wire: Some(OnWire { nonce, .. }), .. }) = host.contact else {
            return None;
        };
        let (name, lane) = (*name, self.lane(*name, Way::Wire)?);
        let hello = self.hello(name, nonce, Proof::Without, None)?;
        let hosts = self.hosts.as_mut()?;
        let (rnic, _) = hosts.wire.as_ref()?;
        let param = ConnParam { private_data: &hello, ..ConnParam::NONE };
        rnic.device.accept(request.id, &lane.qp, param).ok()?;
        hosts.by_qp.insert((Way::Wire, lane.qp.number()), name);
        let Contact::Opening(opening) = &mut hosts.hosts.get_mut(&name)?.contact else { return None };
        opening.wire.as_mut()?.lane = Some(lane);
        Some(())
    }

    /// A lane is open on the wire. The connection of the greeting ends.
    pub(crate) fn establish_on_wire(&mut self, name: u64, private_data: &[u8], now: Duration) {
        let Some(hosts) = &mut self.hosts else { return };
        let Some(host) = hosts.host(name) else { return };
        let contact = core::mem::replace(&mut host.contact, Contact::None(now));
        host.contact = match contact {
            Contact::Opening(Opening {
                wire: Some(OnWire { lane: Some(lane), .. }),
                is_asking,
                nonce,
                ..
            }) if !is_asking || Hello::decode(private_data).is_some_and(|theirs| theirs.nonce == nonce) => {
                (host.lost, host.why) = (None, None);
                Contact::Up(lane)
            }
            Contact::Opening(_) => return self.lose_lane(name, now),
            other => other,
        };
    }

    /// True if the connection of the greeting is not needed any more, because the lane is on its way on the wire.
    pub(crate) fn is_past_greeting(&self, name: u64) -> bool {
        let host = self.hosts.as_ref().and_then(|hosts| hosts.hosts.get(&name));
        match host.map(|host| (&host.contact, host.way)) {
            Some((Contact::Opening(Opening { wire: Some(wire), .. }), _)) => wire.lane.is_some(),
            Some((Contact::Up(_), way)) => way == Way::Wire,
            _ => false,
        }
    }
}
