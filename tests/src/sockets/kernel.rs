//! The kernel's TCP streams below the connections: octets arrive late, and exactly; so do their end and resets.

use std::collections::VecDeque;

/// The sockets of a host. Those of a connection have the numbers `2 n` and `2 n + 1`.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    sockets: Vec<Socket>,
}

#[derive(Debug, Default)]
struct Socket {
    /// What is on its way here, and when it arrives.
    coming: VecDeque<(u64, Segment)>,
    ready: VecDeque<u8>,
    is_ended: bool,
    /// A reset of which nobody has heard.
    is_reset: bool,
    is_dead: bool,
    is_shut: bool,
    is_closed: bool,
    written: u64,
    consumed: u64,
    /// Processes and messages that have the socket.
    holders: u32,
}

#[derive(Debug)]
enum Segment {
    Octets(Vec<u8>),
    End,
    Reset,
}

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// It would wait.
    Again,
    /// ECONNRESET
    Reset,
    /// EPIPE
    Pipe,
}

/// What a look at a socket tells, as `anchor::look` of the library has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Silent,
    Ended,
    Failed,
    Foreign,
}

impl Kernel {
    /// Makes a connection. Returns its first socket.
    pub(crate) fn connect(&mut self) -> usize {
        let first = self.sockets.len();
        self.sockets.extend([(); 2].map(|()| Socket { holders: 1, ..Socket::default() }));
        first
    }

    pub(crate) fn send(&mut self, socket: usize, octets: &[u8], arrival: u64) -> Result<usize, Failed> {
        let queued = self.queued(socket ^ 1);
        let is_deserted = self.sockets[socket ^ 1].is_closed;
        let own = &mut self.sockets[socket];
        if std::mem::take(&mut own.is_reset) {
            own.is_dead = true;
            return Err(Failed::Reset);
        }
        if own.is_dead || own.is_shut {
            return Err(Failed::Pipe);
        }
        let len = octets.len().min(CAPACITY.saturating_sub(queued));
        if len == 0 && !octets.is_empty() {
            return Err(Failed::Again);
        }
        own.written += len as u64;
        if is_deserted {
            self.post(socket, arrival, Segment::Reset);
        } else if len > 0 {
            self.post(socket ^ 1, arrival, Segment::Octets(octets[..len].to_vec()));
        }
        Ok(len)
    }

    /// As `send`, but all octets or none.
    pub(crate) fn send_whole(&mut self, socket: usize, octets: &[u8], arrival: u64) -> Result<usize, Failed> {
        let own = &self.sockets[socket];
        let is_open = !own.is_reset && !own.is_dead && !own.is_shut;
        if is_open && self.queued(socket ^ 1) + octets.len() > CAPACITY {
            return Err(Failed::Again);
        }
        self.send(socket, octets, arrival)
    }

    /// True if all that was written to the socket has arrived at the other end.
    pub(crate) fn has_arrived(&self, socket: usize) -> bool {
        self.sockets[socket ^ 1].coming.is_empty()
    }

    /// Returns up to `len` of the octets that wait here, and leaves them there.
    pub(crate) fn peek(&self, socket: usize, len: usize) -> Vec<u8> {
        self.sockets[socket].ready.iter().copied().take(len).collect()
    }

    /// Takes up to `len` octets. None are the end of the stream.
    pub(crate) fn receive(&mut self, socket: usize, len: usize) -> Result<Vec<u8>, Failed> {
        let own = &mut self.sockets[socket];
        if !own.ready.is_empty() {
            let octets: Vec<u8> = own.ready.drain(..len.min(own.ready.len())).collect();
            own.consumed += octets.len() as u64;
            return Ok(octets);
        }
        if std::mem::take(&mut own.is_reset) {
            own.is_dead = true;
            return Err(Failed::Reset);
        }
        if own.is_ended || own.is_dead { Ok(vec![]) } else { Err(Failed::Again) }
    }

    pub(crate) fn look(&mut self, socket: usize) -> Anchor {
        match self.receive(socket, 0) {
            Ok(_) if self.sockets[socket].ready.is_empty() => Anchor::Ended,
            Ok(_) => Anchor::Foreign,
            Err(Failed::Again) => Anchor::Silent,
            Err(_) => Anchor::Failed,
        }
    }

    /// As `look`, past octets that nobody has taken, as `poll` tells it.
    pub(crate) fn look_beyond(&mut self, socket: usize) -> Anchor {
        match self.look(socket) {
            Anchor::Foreign if self.is_broken(socket) => Anchor::Failed,
            Anchor::Foreign if self.is_ended(socket) => Anchor::Ended,
            look => look,
        }
    }

    /// Octets that were written to the socket, and those that were taken from it.
    pub(crate) fn counts(&self, socket: usize) -> (u64, u64) {
        (self.sockets[socket].written, self.sockets[socket].consumed)
    }

    /// True if no process holds the other end.
    pub(crate) fn is_orphan(&self, socket: usize) -> bool {
        self.sockets[socket ^ 1].is_closed
    }

    pub(crate) fn is_readable(&self, socket: usize) -> bool {
        let own = &self.sockets[socket];
        !own.ready.is_empty() || own.is_ended || own.is_reset || own.is_dead
    }

    /// Octets that wait here.
    pub(crate) fn queued_here(&self, socket: usize) -> usize {
        self.sockets[socket].ready.len()
    }

    pub(crate) fn is_ended(&self, socket: usize) -> bool {
        self.sockets[socket].is_ended
    }

    pub(crate) fn is_writable(&self, socket: usize) -> bool {
        let own = &self.sockets[socket];
        own.is_reset || own.is_dead || own.is_shut || self.queued(socket ^ 1) < CAPACITY * 2 / 3
    }

    /// True if there is a failure of which nobody has heard.
    pub(crate) fn has_failed(&self, socket: usize) -> bool {
        self.sockets[socket].is_reset
    }

    pub(crate) fn is_broken(&self, socket: usize) -> bool {
        self.sockets[socket].is_reset || self.sockets[socket].is_dead
    }

    pub(crate) fn shut_down(&mut self, socket: usize, arrival: u64) {
        if !std::mem::replace(&mut self.sockets[socket].is_shut, true) {
            self.post(socket ^ 1, arrival, Segment::End);
        }
    }

    /// Ends the connection by a reset.
    pub(crate) fn reset(&mut self, socket: usize, arrival: u64) {
        let own = &mut self.sockets[socket];
        (own.is_dead, own.is_shut) = (true, true);
        self.post(socket ^ 1, arrival, Segment::Reset);
    }

    pub(crate) fn hold(&mut self, socket: usize) {
        self.sockets[socket].holders += 1;
    }

    /// One holder less. The last one closes the socket: by a reset if octets are there that nobody has taken.
    pub(crate) fn release(&mut self, socket: usize, arrival: u64) {
        let own = &mut self.sockets[socket];
        own.holders -= 1;
        if own.holders > 0 {
            return;
        }
        own.is_closed = true;
        if own.ready.is_empty() { self.shut_down(socket, arrival) } else { self.reset(socket, arrival) }
    }

    /// Takes what has arrived by now.
    pub(crate) fn arrive(&mut self, now: u64) {
        for number in 0..self.sockets.len() {
            while self.sockets[number].coming.front().is_some_and(|(at, _)| *at <= now) {
                let Some((_, segment)) = self.sockets[number].coming.pop_front() else { break };
                let own = &mut self.sockets[number];
                match segment {
                    Segment::Octets(_) if own.is_closed || own.is_dead => {
                        self.post(number ^ 1, now + 50, Segment::Reset);
                    }
                    Segment::Octets(octets) => own.ready.extend(octets),
                    Segment::End => own.is_ended = true,
                    Segment::Reset => {
                        own.is_reset = !own.is_dead;
                        own.coming.clear();
                    }
                }
            }
        }
    }

    /// When the next segment arrives.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.sockets.iter().filter_map(|socket| Some(socket.coming.front()?.0)).min()
    }

    pub(crate) fn queued(&self, socket: usize) -> usize {
        let own = &self.sockets[socket];
        let coming = own.coming.iter().map(|(_, segment)| match segment {
            Segment::Octets(octets) => octets.len(),
            _ => 0,
        });
        own.ready.len() + coming.sum::<usize>()
    }

    fn post(&mut self, socket: usize, arrival: u64, segment: Segment) {
        let own = &mut self.sockets[socket];
        let last = own.coming.back().map_or(0, |(at, _)| *at);
        own.coming.push_back((arrival.max(last), segment));
    }
}

/// Octets on their way and unread of a direction.
pub(crate) const CAPACITY: usize = 160;
