//! Requests of the control plane, and the answers of the next replica.

use crate::control::{Answer, End, Hello, Open, Request, VERSION, Welcome};
use crate::greeting::Token;
use crate::replica::{Replica, Shape};

use super::hosted::Hosted;
use super::peer::Peer;
use super::{Role, Server};

impl Server {
    /// Reads what a control connection has brought.
    pub(super) fn read_requests(&mut self, number: u64) {
        let Some(peer) = self.peers.get_mut(&number) else { return };
        peer.link.collect();
        self.advance_flush(number);
        loop {
            let Some(peer) = self.peers.get_mut(&number) else { return };
            match peer.link.receive() {
                Ok(Some(octets)) => self.read_request(number, &octets),
                Ok(None) => return,
                Err(_) => return self.drop_peer(number),
            }
        }
    }

    fn read_request(&mut self, number: u64, octets: &[u8]) {
        let answer = match Request::parse(octets) {
            Ok(request) => self.request(number, request),
            Err(error) => Some(Answer::Refused(error.to_string())),
        };
        if let Some(answer) = answer {
            self.answer(number, &answer);
        }
    }

    /// Carries out a request. `None`: the answer follows later.
    fn request(&mut self, number: u64, request: Request) -> Option<Answer> {
        let is_greeted = self.peers.get(&number)?.is_greeted;
        match request {
            Request::Hello(hello) => Some(self.hello(number, &hello)),
            _ if !is_greeted => Some(Answer::Refused("say hello first".into())),
            Request::Status => Some(Answer::Status(self.status())),
            _ if self.broken.is_some() => self.broken.clone().map(Answer::Refused),
            Request::Open(open) => {
                self.open(number, open).unwrap_or_else(|reason| Some(Answer::Refused(reason)))
            }
            Request::Close => {
                self.drop_session(number);
                self.drop_task(number);
                Some(Answer::Closed)
            }
            Request::Seal(seal) => Some(self.seal(seal)),
            Request::Copy(copy) => self.copy(number, copy),
            Request::Fetch(named) => self.lend(number, named),
            Request::Flush(named) => self.flush(number, named),
            Request::Finish(named) => Some(self.finish(named)),
        }
    }

    fn hello(&mut self, number: u64, hello: &Hello) -> Answer {
        if hello.version != VERSION {
            return Answer::Refused(format!(
                "this replica has version {VERSION} of the control plane, not {}",
                hello.version
            ));
        }
        let complaint = match (&self.limits.key, &hello.key) {
            (Some(key), Some(octets)) if !key.is(octets) => Some("the key is not that of the group"),
            (Some(_), None) => Some("the group has a key, and none was given"),
            _ => None,
        };
        if let Some(complaint) = complaint {
            return Answer::Refused(complaint.into());
        }
        if let Some(peer) = self.peers.get_mut(&number) {
            peer.is_greeted = true;
        }
        Answer::Welcome(Welcome { size: self.size, incarnation: self.incarnation() })
    }

    /// Makes the objects of a session. The tail answers at once, the others when the next replica has answered.
    fn open(&mut self, number: u64, open: Open) -> Result<Option<Answer>, String> {
        self.check(number, &open)?;
        self.serve(&open)?;
        let session = self.make(open)?;
        let [inward, outward] = session.numbers;
        let answer = session.opened().map(Answer::Opened);
        let Some(peer) = self.peers.get_mut(&number) else { return Ok(None) };
        let session = peer.session.insert(session);
        session.is_answered = answer.is_some();
        self.roles.insert(inward, Role::Inward(number));
        self.roles.insert(outward, Role::Outward(number));
        if answer.is_none() {
            self.connect_next(number).inspect_err(|_| self.drop_session(number))?;
        }
        Ok(answer)
    }

    fn check(&self, number: u64, open: &Open) -> Result<(), String> {
        let open_now = self.peers.values().filter(|peer| peer.session.is_some()).count();
        if self.peers.get(&number).is_some_and(|peer| !peer.is_free()) {
            return Err("this connection has a session already".into());
        }
        if open_now >= self.limits.sessions {
            return Err(format!("this replica has {open_now} sessions and takes no more"));
        }
        let range = &open.range;
        if range.end > self.size || range.is_empty() {
            return Err(format!("the range ends at {}, and the memory has {} octets", range.end, self.size));
        }
        if !range.start.is_multiple_of(8) {
            return Err(format!("a range starts at a multiple of 8, and not at {}", range.start));
        }
        if !open.window.is_power_of_two() || open.window > self.limits.window {
            return Err(format!(
                "a window is a power of two up to {}, and not {}",
                self.limits.window, open.window
            ));
        }
        Ok(())
    }

    fn make(&mut self, open: Open) -> Result<Hosted, String> {
        let octets = |at: u64| usize::try_from(at).map_err(|_| "the range is too large".to_owned());
        let range = octets(open.range.start)?..octets(open.range.end)?;
        let shape = Shape { index: open.index, replicas: open.members.len(), window: open.window, range };
        let replica = Replica::new(&self.device, &self.memory, shape).map_err(|error| error.to_string())?;
        let mut token =
            || self.random.draw().map(Token).map_err(|error| format!("no random octets: {error}"));
        let (inward, outward) = (token()?, token()?);
        Ok(Hosted {
            open,
            replica,
            inward,
            outward,
            numbers: [self.number(), self.number()],
            next: None,
            is_answered: false,
            is_begun: false,
            is_entered: false,
            waiting: None,
        })
    }

    /// Reads what the next replica of a session has sent.
    pub(super) fn read_answers(&mut self, peer: u64) {
        let Some(next) = self.peers.get_mut(&peer).and_then(Peer::next) else { return };
        next.link.collect();
        loop {
            let Some(next) = self.peers.get_mut(&peer).and_then(Peer::next) else { return };
            match next.link.receive() {
                Ok(Some(octets)) => self.read_answer(peer, &octets),
                Ok(None) => return,
                Err(_) => return self.lose_next(peer, "it has gone"),
            }
        }
    }

    fn read_answer(&mut self, peer: u64, octets: &[u8]) {
        match Answer::parse(octets) {
            Ok(Answer::Welcome(_)) => {
                let Some(session) = self.session(peer) else { return };
                let Some(next) = session.next.as_mut() else { return };
                let open = Open { index: session.open.index + 1, ..session.open.clone() };
                if next.link.send(&Request::Open(open).encode()).is_err() {
                    self.lose_next(peer, "it has gone");
                }
            }
            Ok(Answer::Opened(opened)) => {
                let Some(next) = self.session(peer).and_then(|session| session.next.as_mut()) else { return };
                if next.opened.replace(opened).is_some() {
                    return self.lose_next(peer, "it has answered twice");
                }
                self.answer_opened(peer);
            }
            // It has named itself already.
            Ok(Answer::Refused(reason)) => self.lose_next(peer, &reason),
            Ok(Answer::Ended(end)) => self.end(peer, end),
            Ok(_) => self.lose_next(peer, "it has answered something else"),
            Err(error) => self.lose_next(peer, &error.to_string()),
        }
    }

    /// Connects OUT to the next replica, and tells the predecessor how to connect to IN.
    fn answer_opened(&mut self, peer: u64) {
        if let Err(error) = self.connect_outward(peer) {
            return self.lose_next(peer, &error.to_string());
        }
        let Some(session) = self.session(peer) else { return };
        session.is_answered = true;
        if let Some(opened) = session.opened() {
            self.answer(peer, &Answer::Opened(opened));
        }
    }

    /// Ends a session because the next replica is not there, or does not want it.
    pub(super) fn lose_next(&mut self, peer: u64, reason: &str) {
        if let Some((_, index)) = self.peers.get(&peer).and_then(|peer| peer.leaving.as_ref()) {
            return self.end(peer, End::Lost(*index));
        }
        let Some(session) = self.session(peer) else { return };
        let index = session.open.index + 1;
        match session.successor() {
            Some(member) if !session.is_answered => {
                // The reason of a replica further on begins with its own name.
                let reason = match reason.starts_with(NAMED) {
                    true => reason.to_owned(),
                    false => format!("{NAMED}{index} at {}: {reason}", member.address),
                };
                self.drop_session(peer);
                self.answer(peer, &Answer::Refused(reason));
            }
            Some(_) => self.end(peer, End::Lost(index)),
            None => self.end_here(peer),
        }
    }

    /// Drops the objects of a session whose OUT has ended. The next replica says why: it may have lost the one behind it. If
    /// it does not, its control connection ends.
    pub(super) fn lose_outward(&mut self, peer: u64) {
        let Some(session) = self.session(peer) else { return };
        let (next, index) = (session.next.take(), session.open.index);
        let Some(next) = next else { return self.end_here(peer) };
        self.drop_session(peer);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.leaving = Some((next, index + 1));
        }
        self.read_answers(peer);
    }

    /// Ends a session as lost at this replica.
    pub(super) fn end_here(&mut self, peer: u64) {
        if let Some(index) = self.session(peer).map(|session| session.open.index) {
            self.end(peer, End::Lost(index));
        }
    }

    /// Ends a session, and tells the predecessor why.
    pub(super) fn end(&mut self, peer: u64, end: End) {
        let is_answered = self.session(peer).is_none_or(|session| session.is_answered);
        let answer = match end {
            _ if is_answered => Answer::Ended(end),
            End::Lost(replica) => Answer::Refused(format!("{NAMED}{replica} has gone")),
            End::Sealed(epoch) => Answer::Refused(format!("epoch {epoch} has begun")),
        };
        self.answer(peer, &answer);
        self.drop_session(peer);
    }

    pub(super) fn answer(&mut self, number: u64, answer: &Answer) {
        let Some(peer) = self.peers.get_mut(&number) else { return };
        if peer.answer(answer).is_err() {
            self.drop_peer(number);
        }
    }

    /// Drops the objects of a session, and its connection to the next replica.
    pub(super) fn drop_session(&mut self, number: u64) {
        let Some(peer) = self.peers.get_mut(&number) else { return };
        let (session, leaving) = (peer.session.take(), peer.leaving.take());
        let mut next = leaving.map(|(next, _)| next);
        if let Some(session) = session {
            for connection in session.numbers {
                self.roles.remove(&connection);
            }
            if let Some(waiting) = session.waiting {
                self.refuse(waiting);
            }
            next = session.next.or(next);
        }
        if let Some(next) = next {
            self.forget(next.number, next.link.announced_as());
        }
    }

    /// Drops a control connection with its session.
    pub(super) fn drop_peer(&mut self, number: u64) {
        self.drop_session(number);
        self.drop_task(number);
        if let Some(peer) = self.peers.remove(&number) {
            self.forget(number, peer.link.announced_as());
        }
    }
}

/// How the reason of a refusal begins that another replica has given.
const NAMED: &str = "replica ";
