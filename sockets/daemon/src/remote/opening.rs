//! How lanes are opened.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use weft_rnic::{Cause, CmEvent, ConnParam, ConnectFailure, ConnectRequest, DisconnectReason};
use weft_sockets::{Claim, Claimant, Hello, LaneKind, NONCE_LEN, Proof, Slab, VERSION};

use crate::hosts::host::{Contact, Host, OnWire, Opening, Received};
use crate::hosts::key;
use crate::hosts::lane::Lane;
use crate::hosts::rnic::Way;
use crate::hosts::why::Why;
use crate::remote::greeting::{self, Addresses, Answer};
use crate::routes;
use crate::state::{Family, State};

impl State {
    /// Looks for the other end of a claim on another host, if there may be one.
    pub(crate) fn ask_host(&mut self, claimant: Claimant, claim: &Claim, now: Duration) {
        let Some(hosts) = &self.hosts else { return };
        let is_here = claim.tuple.namespace == hosts.namespace;
        let address = key(claim.tuple.local, claim.tuple.peer);
        if !is_here || address.0 == address.1 || address.1.is_loopback() {
            return;
        }
        let Some(name) = self.name_host(address, now) else { return };
        let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) else { return };
        match host.contact {
            _ if host.session.is_some() => self.tell_claim(name, claimant, claim),
            Contact::None(until) if until <= now => self.open_lane(name, None, now),
            _ => {}
        }
    }

    /// Returns the name of the host with this address, which may be new.
    pub(crate) fn name_host(&mut self, address: (IpAddr, IpAddr), now: Duration) -> Option<u64> {
        let known = self.hosts.as_ref()?.by_address.get(&address).copied();
        if known.is_some() {
            return known;
        }
        let hosts = self.hosts.as_mut()?;
        if !hosts.neighbours.have(address.1, now, routes::read) || !self.make_room_for_host(now) {
            return None;
        }
        // Links are shared by two families.
        let slab = Slab::map(Slab::create().ok()?).ok()?;
        let name = self.lasting_name();
        let family = Family {
            uid: self.uid,
            slab,
            members: BTreeMap::new(),
            links: BTreeSet::new(),
            channels: HashMap::new(),
            by_slab: (0, name),
        };
        self.families.insert(name, family);
        let hosts = self.hosts.as_mut()?;
        let pds = hosts.rnics().map(|(way, rnic)| (way, rnic.device.alloc_pd())).collect();
        hosts.hosts.insert(name, Host::new(name, address, pds));
        hosts.names.insert(name);
        hosts.by_address.insert(address, name);
        Some(name)
    }

    /// Makes a queue pair for a host.
    pub(crate) fn lane(&self, name: u64, way: Way) -> Option<Lane> {
        let hosts = self.hosts.as_ref()?;
        let rnic = hosts.rnic(way)?;
        Lane::new(&rnic.device, hosts.hosts.get(&name)?.pds.get(&way)?, &rnic.cq)
    }

    /// What this daemon says of itself to a host, and where its lane ends. `None`: that host is unknown.
    pub(crate) fn hello(
        &self,
        name: u64,
        nonce: [u8; NONCE_LEN],
        proof: Proof,
        wire: Option<SocketAddr>,
    ) -> Option<Vec<u8>> {
        let hosts = self.hosts.as_ref()?;
        let host = hosts.hosts.get(&name)?;
        let session = host.session.as_ref();
        let hello = Hello {
            oldest: VERSION,
            newest: VERSION,
            kind: LaneKind::Interactive,
            epoch: self.epoch,
            boot_id: hosts.boot_id,
            namespace: hosts.namespace,
            session: session.map_or(0, |(name, _)| *name),
            received: session.map_or(0, |(_, session)| session.received()),
            wire,
            local: host.local,
            remote: host.remote,
            nonce,
            proof,
        };
        Some(hello.encode())
    }

    /// Asks for a daemon on a host. `before` has the nonces of both, if the other daemon wants a proof.
    pub(crate) fn open_lane(
        &mut self,
        name: u64,
        before: Option<([u8; NONCE_LEN], [u8; NONCE_LEN])>,
        now: Duration,
    ) {
        let again = self.again(name, now);
        let Some(hosts) = &mut self.hosts else { return };
        let Some(host) = hosts.hosts.get_mut(&name) else { return };
        host.contact = Contact::None(again);
        let addresses = Addresses { initiator: host.local, responder: host.remote };
        let challenge = before.map(|(_, challenge)| challenge);
        let Some(nonce) = before.map(|(nonce, _)| nonce).or_else(|| crate::kernel::random().ok()) else {
            return;
        };
        let wire = hosts.wire.as_ref().map(|(_, own)| *own).filter(|_| host.off_wire <= now);
        let proof = greeting::ask(hosts.key.as_ref(), addresses, nonce, challenge);
        let Some(lane) = self.lane(name, Way::Kernel) else { return };
        let Some(hello) = self.hello(name, nonce, proof, wire) else { return };
        let Some(hosts) = &mut self.hosts else { return };
        let Some(host) = hosts.hosts.get_mut(&name) else { return };
        let (remote, local) = (SocketAddr::new(host.remote, hosts.port), SocketAddr::new(host.local, 0));
        let param = ConnParam {
            private_data: &hello,
            peer_to_peer: Some(true),
            local: Some(local),
            ..ConnParam::NONE
        };
        if hosts.kernel.connect(&lane, remote, param) {
            hosts.by_qp.insert((Way::Kernel, lane.qp.number()), name);
            let opening = Opening { lane, is_asking: true, nonce, challenge, wire: None };
            host.contact = Contact::Opening(opening);
        } else {
            self.note_why(name, Why::NoRoute);
        }
    }

    /// Takes an event of a device.
    pub(crate) fn handle_lane_event(&mut self, way: Way, event: CmEvent, now: Duration) {
        match event {
            CmEvent::ConnectRequest(request) => {
                let answered = match way {
                    Way::Kernel => self.accept_lane(&request, now),
                    Way::Wire => self.accept_on_wire(&request).ok_or_else(Vec::new),
                };
                if let Err(refusal) = answered
                    && let Some(rnic) = self.hosts.as_ref().and_then(|hosts| hosts.rnic(way))
                {
                    // A daemon that has gone meanwhile needs no answer.
                    let _told = rnic.device.reject(request.id, &refusal);
                }
            }
            CmEvent::Established { qp_num, private_data, .. } => {
                let Some(name) = self.host_of(way, qp_num) else { return };
                match way {
                    Way::Kernel => self.establish(name, &private_data, now),
                    Way::Wire => self.establish_on_wire(name, &private_data, now),
                }
            }
            CmEvent::Rejected { qp_num, private_data, .. } => {
                let Some(name) = self.host_of(way, qp_num) else { return };
                match self.challenged(name, &private_data) {
                    Some(nonces) => {
                        self.drop_lane(name, now);
                        self.open_lane(name, Some(nonces), now);
                    }
                    None => {
                        self.note_refusal(name, Hello::decode(&private_data).as_ref());
                        self.lose_lane(name, now);
                    }
                }
            }
            CmEvent::ConnectError { qp_num, reason: ConnectFailure::Refused } if way == Way::Kernel => {
                if let Some(name) = self.host_of(way, qp_num) {
                    self.note_why(name, Why::NoDaemon);
                    self.bury_daemon(name, now);
                }
            }
            CmEvent::Disconnected { qp_num, reason } => {
                let name = self.host_of(way, qp_num);
                if let DisconnectReason::LocalTerminate(Cause::Peer(_)) = reason
                    && let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name?))
                {
                    // The other daemon asked for memory that it was not given.
                    host.faults += 1;
                }
                self.end_lane(way, qp_num, Why::Lost, now);
            }
            CmEvent::ConnectError { qp_num, reason } => {
                let why = match reason {
                    ConnectFailure::Unreachable => Why::NoRoute,
                    ConnectFailure::TimedOut => Why::NoAnswer,
                    ConnectFailure::Refused => Why::NoDaemon,
                    ConnectFailure::Closed | ConnectFailure::Protocol(_) => Why::Refused,
                };
                self.end_lane(way, qp_num, why, now);
            }
            CmEvent::StreamRequest(_) | CmEvent::StreamReady { .. } | CmEvent::StreamFailed { .. } => {}
        }
    }

    /// A connection has ended.
    fn end_lane(&mut self, way: Way, qp_num: u32, why: Why, now: Duration) {
        if let Some(name) = self.host_of(way, qp_num)
            && !(way == Way::Kernel && self.is_past_greeting(name))
        {
            self.note_why(name, why);
            self.lose_lane(name, now);
        }
    }

    /// Notes why this daemon and another one, which has said so much, have no lane.
    fn note_refusal(&mut self, name: u64, theirs: Option<&Hello>) {
        let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) else { return };
        let why = greeting::why(theirs, (host.local, host.remote));
        self.note_why(name, why);
    }

    /// Returns this daemon's nonce and that of the other one, if the other one wants a proof over both.
    fn challenged(&mut self, name: u64, private_data: &[u8]) -> Option<([u8; NONCE_LEN], [u8; NONCE_LEN])> {
        let hosts = self.hosts.as_mut()?;
        let has_key = hosts.key.is_some();
        let theirs = Hello::decode(private_data)?;
        match &hosts.host(name)?.contact {
            Contact::Opening(Opening { is_asking: true, challenge: None, nonce, .. })
                if has_key && theirs.proof == Proof::Wanted && greeting::is_known(&theirs) =>
            {
                Some((*nonce, theirs.nonce))
            }
            _ => None,
        }
    }

    /// Answers a daemon that asks. The error is the private data of a refusal.
    fn accept_lane(&mut self, request: &ConnectRequest, now: Duration) -> Result<(), Vec<u8>> {
        const NOTHING: fn() -> Vec<u8> = Vec::new;
        let theirs = Hello::decode(&request.private_data)
            // This host has several addresses.
            .filter(|theirs| theirs.epoch != self.epoch)
            .ok_or_else(NOTHING)?;
        let address = key(request.local, request.peer);
        let name = self.name_host(address, now).ok_or_else(NOTHING)?;
        let addresses = Addresses { initiator: address.1, responder: address.0 };
        let hosts = self.hosts.as_mut().ok_or_else(NOTHING)?;
        let own_key = hosts.key.clone();
        let host = hosts.host(name).ok_or_else(NOTHING)?;
        // Not taken by a host behind the router that this one knows by the address.
        let challenge = host.challenge.take_if(|_| theirs.knows(address.1, address.0));
        let proof = match greeting::answer(own_key.as_ref(), &theirs, addresses, challenge) {
            Answer::Accept(proof) => proof,
            Answer::Refuse => {
                // The other daemon reads from the hello why it is refused. A lane to another daemon there goes on.
                if !matches!(host.contact, Contact::Up(_)) {
                    self.note_refusal(name, Some(&theirs));
                }
                let proof = if own_key.is_some() { Proof::Wanted } else { Proof::Without };
                return Err(self.hello(name, [0; NONCE_LEN], proof, None).unwrap_or_default());
            }
            Answer::Challenge => {
                let nonce = crate::kernel::random().map_err(|_| NOTHING())?;
                host.challenge = Some(nonce);
                return Err(self.hello(name, nonce, Proof::Wanted, None).unwrap_or_default());
            }
        };
        let remote = theirs.wire.filter(|_| host.off_wire <= now);
        // Of two that cross, that of the lower address stays.
        let is_crossing = matches!(&host.contact, Contact::Opening(opening) if opening.is_asking);
        if is_crossing && address.0 < address.1 {
            return Err(NOTHING());
        }
        let wire = remote.and_then(|remote| Some((hosts.wire_to(remote)?, remote)));
        let way = if wire.is_some() { Way::Wire } else { Way::Kernel };
        // Behind this, no Write of an old lane reaches the memory of this host.
        self.drop_lane(name, now);
        self.meet(name, &theirs, way, now).ok_or_else(NOTHING)?;
        let nonce = match challenge {
            Some(nonce) => nonce,
            None => crate::kernel::random().map_err(|_| NOTHING())?,
        };
        let hello = self.hello(name, nonce, proof, wire.map(|(own, _)| own)).ok_or_else(NOTHING)?;
        let lane = self.lane(name, Way::Kernel).ok_or_else(NOTHING)?;
        let hosts = self.hosts.as_mut().ok_or_else(NOTHING)?;
        let host = hosts.hosts.get_mut(&name).ok_or_else(NOTHING)?;
        let param = ConnParam { private_data: &hello, ..ConnParam::NONE };
        hosts.kernel.device.accept(request.id, &lane.qp, param).map_err(|_| NOTHING())?;
        hosts.by_qp.insert((Way::Kernel, lane.qp.number()), name);
        let wire = wire.map(|(_, remote)| OnWire { remote, nonce: theirs.nonce, lane: None });
        host.contact = Contact::Opening(Opening { lane, is_asking: false, nonce, challenge, wire });
        Ok(())
    }

    /// The other daemon is greeted by the host's TCP. That is the lane, if it is not to be on a wire.
    fn establish(&mut self, name: u64, private_data: &[u8], now: Duration) {
        let Some(hosts) = &mut self.hosts else { return };
        let own_key = hosts.key.clone();
        let Some(host) = hosts.host(name) else { return };
        let Contact::Opening(opening) = &host.contact else { return };
        if opening.is_asking {
            let addresses = Addresses { initiator: host.local, responder: host.remote };
            let theirs = Hello::decode(private_data).filter(|theirs| {
                let (nonce, challenge) = (opening.nonce, opening.challenge);
                greeting::is_answer(own_key.as_ref(), theirs, addresses, nonce, challenge)
                    && theirs.session != 0
            });
            let way = theirs.and_then(|theirs| theirs.wire).map_or(Way::Kernel, |_| Way::Wire);
            let met = theirs.filter(|theirs| self.meet(name, theirs, way, now).is_some());
            let Some(theirs) = met else {
                self.note_refusal(name, Hello::decode(private_data).as_ref());
                return self.drop_lane(name, now + NOBODY);
            };
            if let Some(remote) = theirs.wire {
                return self.connect_on_wire(name, remote, theirs.nonce, now);
            }
        } else if opening.wire.is_some() {
            return;
        }
        let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) else { return };
        (host.lost, host.why) = (None, None);
        let contact = core::mem::replace(&mut host.contact, Contact::None(Duration::ZERO));
        host.contact = match contact {
            Contact::Opening(Opening { lane, .. }) => Contact::Up(lane),
            other => other,
        };
    }

    /// Goes on with the session that both daemons have, or begins a new one. A daemon that answers gives it its name.
    fn meet(&mut self, name: u64, theirs: &Hello, way: Way, now: Duration) -> Option<()> {
        let host = self.hosts.as_mut()?.host(name)?;
        let received = Received::InAll(theirs.received);
        let is_same = theirs.session != 0
            && host.way == way
            && host.session.as_ref().is_some_and(|(session, _)| *session == theirs.session);
        if is_same && host.hear(received).is_ok() {
            host.lost.get_or_insert(now);
            return Some(());
        }
        let is_asking = matches!(&host.contact, Contact::Opening(opening) if opening.is_asking);
        self.end_session(name);
        let session =
            if is_asking { theirs.session } else { u64::from_ne_bytes(crate::kernel::random().ok()?) };
        let host = self.hosts.as_mut()?.host(name)?;
        host.session = Some((session.max(1), weft_sockets::far::Session::new()));
        (host.way, host.lost) = (way, Some(now));
        let address = (host.local, host.remote);
        let is_its = |claim: &Claim| key(claim.tuple.local, claim.tuple.peer) == address;
        let waiting: Vec<(Claimant, Claim)> =
            self.claims.waiting().filter(|(_, claim)| is_its(claim)).collect();
        for (claimant, claim) in waiting {
            self.tell_claim(name, claimant, &claim);
        }
        Some(())
    }

    /// The host to which a queue pair leads.
    pub(crate) fn host_of(&self, way: Way, qp_num: u32) -> Option<u64> {
        self.hosts.as_ref()?.by_qp.get(&(way, qp_num)).copied()
    }
}

/// So long nobody is asked on a host where nobody has answered.
pub(crate) const NOBODY: Duration = Duration::from_secs(60);
