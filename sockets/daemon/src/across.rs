//! Claims whose other ends are in other network namespaces, of processes with the same daemon.

use core::time::Duration;

use weft_sockets::{Claim, Claimant, Reason};

use crate::containers::{Containers, Station};
use crate::foreign::Foreign;
use crate::state::{Broken, State};

impl State {
    /// Takes a socket of a process's namespace.
    pub(crate) fn add_network(&mut self, id: u64, file: Foreign) -> Result<(), Broken> {
        let uid =
            self.ports.get(&id).filter(|port| port.member.is_some()).map(|port| port.uid).ok_or(Broken)?;
        if self.containers.is_off {
            return Ok(());
        }
        let (namespace, station) = Station::new(uid, file).ok_or(Broken)?;
        self.containers.spaces.entry((uid, namespace)).or_default().insert(id);
        if self.containers.stations.insert((id, namespace), station).is_none() {
            self.limits.take_descriptors(uid, 1);
        }
        Ok(())
    }

    /// Closes the sockets of a process: they keep its namespace alive.
    pub(crate) fn forget_networks(&mut self, id: u64) {
        let Containers { stations, spaces, .. } = &mut self.containers;
        let names: Vec<_> = stations.range((id, 0)..=(id, u64::MAX)).map(|(name, _)| *name).collect();
        for name in names {
            let Some(uid) = stations.remove(&name).map(|station| station.uid) else { continue };
            let space = (uid, name.1);
            if spaces.get_mut(&space).is_some_and(|ports| ports.remove(&id) && ports.is_empty()) {
                spaces.remove(&space);
            }
            self.limits.give_descriptors(uid, 1);
        }
    }

    /// Looks for the other end of a claim that waits in the other namespaces of the same user. Returns true if both have a
    /// channel. Otherwise the answer may come later.
    ///
    /// Other users do not count: a process may give its namespace the addresses of a stranger, and what both ends have said
    /// may be known to it.
    pub(crate) fn look_across(&mut self, me: Claimant, claim: &Claim, now: Duration) -> bool {
        let Some(uid) = self.ports.get(&me.process).map(|port| port.uid) else { return false };
        let own = claim.tuple.namespace;
        if self.containers.station(uid, own).is_none() {
            return false;
        }
        let namespaces = self.containers.namespaces(uid);
        for namespace in namespaces.into_iter().filter(|namespace| *namespace != own) {
            let Some(other) = self.claims.partner_in(namespace, claim) else { continue };
            if self.ports.get(&other.process).is_none_or(|port| port.uid != uid) {
                continue;
            }
            let places = [(namespace, claim.tuple.peer.ip()), (own, claim.tuple.local.ip())];
            if self.containers.proofs.get(&places).is_some_and(|end| now < *end) {
                return self.join_across([other, me]);
            }
            self.containers.ask(uid, places, [other, me], now);
        }
        false
    }

    /// Looks whether datagrams have arrived, and gives channels to the claims that wait for them.
    pub(crate) fn look_at_probes(&mut self, now: Duration) {
        for claims in self.containers.look(now) {
            self.join_across(claims);
        }
    }

    /// Returns when [`look_at_probes`](Self::look_at_probes) has something to do.
    pub(crate) fn probes_deadline(&self) -> Option<Duration> {
        self.containers.probes.iter().map(|probe| probe.next).min()
    }

    /// Gives a channel to two claims, if both wait still.
    fn join_across(&mut self, [first, second]: [Claimant; 2]) -> bool {
        if !self.claims.waits(first) || !self.claims.waits(second) {
            return false;
        }
        self.claims.withdraw(first);
        let Some(claim) = self.claims.take(second) else { return false };
        if self.join(first, second, claim.tuple).is_none() {
            self.drop_claim(first, Reason::Limit);
            self.drop_claim(second, Reason::Limit);
        }
        true
    }
}
