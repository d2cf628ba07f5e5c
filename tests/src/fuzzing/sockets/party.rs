//! An end of a connection, driven as the library drives it, and what the kernel and the model know of both.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use weft_sockets_stepped::end::{Attach, Switch};
use weft_sockets_stepped::layout::{ATTACHED, DECLINED, End};
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{
    Broken, Carrier, Digests, Gate, Inbound, MIN_LOG2, Outbound, RingPlace, Sink, Source, ToDaemon, ToProcess,
};

use super::daemon::{CHANNEL, Daemon, gift, wish};
use super::shared::{Shared, Stream, octet};

/// An end.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) number: usize,
    shared: Rc<Shared>,
    is_claimed: bool,
    is_offered: bool,
    /// It goes back to TCP for good.
    stays: Cell<bool>,
    /// The reader has asked for TCP and waits.
    asks: Cell<bool>,
    /// The ring for the next leg.
    next: Option<RingPlace>,
    /// The ring that the last leg has left.
    left: Option<RingPlace>,
    /// Another thread is in a kernel call: octets that it sends, and how many it wants.
    sending: Option<usize>,
    receiving: Option<usize>,
}

impl Party {
    pub(super) fn new(number: usize, shared: Rc<Shared>) -> Self {
        Self {
            number,
            shared,
            is_claimed: false,
            is_offered: false,
            stays: Cell::new(false),
            asks: Cell::new(false),
            next: None,
            left: None,
            sending: None,
            receiving: None,
        }
    }

    pub(super) fn claim(&mut self, daemon: &mut Daemon) {
        if !self.is_claimed && self.sending.is_none() && self.receiving.is_none() {
            self.is_claimed = true;
            let (slot, digests) = (self.slot(), Digests::default());
            daemon.tell(self.number, &ToDaemon::Claim { slot, generation: 1, digests });
        }
    }

    pub(super) fn hear(&mut self, message: &[u8]) {
        match ToProcess::decode(message).expect("a message") {
            ToProcess::Offer { ring, channel, party, .. } => {
                assert_eq!((channel, usize::from(party)), (CHANNEL, self.number));
                (self.is_offered, self.next) = (true, Some(ring));
            }
            ToProcess::RingMade { ring, .. } => self.next = Some(ring),
            other => panic!("nobody sends {other:?}"),
        }
    }

    /// A call of the program, or what follows from one.
    pub(super) fn call(&mut self, call: u8, len: usize, more: u8, daemon: &mut Daemon) {
        match call {
            3..9 => self.send(len, more.is_multiple_of(4)),
            9..15 => _ = self.receive(len),
            15 => self.peek(len, more.into()),
            16 => self.discard(len),
            17 | 18 => self.attach(),
            19 | 20 => self.switch(),
            21 => self.want_ring(daemon),
            22 | 23 => self.grow(daemon),
            24 => self.begin_send(len),
            25 => self.begin_receive(len),
            26 => self.end_kernel_calls(),
            27 if more.is_multiple_of(8) => self.lower(),
            28 if self.stays.get() && self.is_offered => self.leave_ring(),
            28 => self.obey(),
            29 => self.look_for_answer(),
            30 => self.take_over(more),
            31 if more == 0 => self.shut(),
            _ => {}
        }
    }

    /// Sends as many octets as the carrier takes.
    pub(super) fn send(&self, len: usize, more: bool) {
        let (gate, stream) = (Gate::new(&self.end().outbound.inside, false), self.stream());
        let octets = stream.borrow().next(if stream.borrow().is_shut { 0 } else { len });
        if gate.enter() {
            let len = stream.borrow_mut().push(&octets);
            self.end().outbound.count(len as u64);
            stream.borrow_mut().sent += len as u64;
            return gate.leave();
        }
        self.obey();
        let outbound = self.outbound();
        let len = match outbound.sink() {
            Sink::Ring if octets.is_empty() => {
                outbound.publish(0, false).expect("a reader that keeps the rules");
                0
            }
            Sink::Ring => outbound.gather([&octets[..]], more).expect("a reader that keeps the rules"),
            Sink::Tcp if self.resend() => {
                let len = stream.borrow_mut().push(&octets);
                self.end().outbound.count(len as u64);
                len
            }
            Sink::Tcp => 0,
        };
        stream.borrow_mut().sent += len as u64;
    }

    /// Receives up to `len` octets. Returns how many.
    pub(super) fn receive(&self, len: usize) -> usize {
        let (gate, stream) = (Gate::new(&self.end().inbound.inside, false), self.other_stream());
        let octets = if gate.enter() {
            let octets = stream.borrow_mut().pop(len);
            self.end().inbound.count(octets.len() as u64);
            gate.leave();
            octets
        } else if self.asks.get() {
            // The reader holds the lock until the sender has answered.
            Vec::new()
        } else {
            let inbound = self.inbound();
            match inbound.source().expect("a sender that keeps the rules") {
                Source::Ring { .. } => {
                    let mut octets = vec![0; len];
                    let len = inbound.read(&mut octets).expect("a sender that keeps the rules");
                    octets.truncate(len);
                    octets
                }
                Source::Tcp { left } => {
                    let left = left.map_or(usize::MAX, |left| usize::try_from(left).expect("a size"));
                    let octets = stream.borrow_mut().pop(len.min(left));
                    self.end().inbound.count(octets.len() as u64);
                    octets
                }
            }
        };
        stream.borrow_mut().take(&octets);
        octets.len()
    }

    fn peek(&self, len: usize, offset: u64) {
        if Gate::new(&self.end().inbound.inside, false).is_closed() && !self.asks.get() {
            let mut octets = vec![0; len];
            let len = self.inbound().peek(offset, &mut octets).expect("a sender that keeps the rules");
            let from = self.other_stream().borrow().received + offset;
            assert!(
                (from..).zip(&octets[..len]).all(|(at, found)| *found == octet(at)),
                "octets from {from} on"
            );
        }
    }

    fn discard(&self, len: usize) {
        if Gate::new(&self.end().inbound.inside, false).is_closed() && !self.asks.get() {
            let len = self.inbound().discard(len).expect("a sender that keeps the rules");
            self.other_stream().borrow_mut().received += len as u64;
        }
    }

    fn attach(&self) {
        let (gate, inbound) = (Gate::new(&self.end().inbound.inside, false), self.inbound());
        let consumed = self.end().inbound.consumed.load(Relaxed);
        let attach = Attach {
            is_offered: self.is_offered,
            is_alone: true,
            consumed,
            kernel: self.shared.kernel(self.number).1,
        };
        if self.stays.get() || attach.decide().is_none() || !gate.try_close() {
            return;
        }
        assert_eq!(attach.decide(), Some(Ok(())), "nobody is inside, so that the counts agree");
        inbound.attach();
    }

    fn switch(&mut self) {
        let (gate, outbound) = (Gate::new(&self.end().outbound.inside, false), self.outbound());
        let is_attached = outbound.is_attached();
        let (false, Some(is_attached), Some(ring)) = (self.stays.get(), is_attached, self.next) else {
            return;
        };
        if self.stream().borrow().is_shut || !gate.try_close() {
            return;
        }
        let attached = if is_attached { ATTACHED } else { DECLINED };
        let (written, kernel) = (self.end().outbound.accepted(), self.shared.kernel(self.number).0);
        match (Switch { attached, is_alone: true, is_held: false, written, kernel }).decide() {
            Some(Ok(())) if self.outbound().commit() => {
                assert_eq!(self.outbound().begin_leg(Carrier::Ring(ring)), Ok(true));
                self.next = None;
            }
            answer => {
                assert_ne!(answer, Some(Err(weft_sockets_stepped::Reason::Evidence)), "the counts agree");
                gate.open();
            }
        }
    }

    /// Asks the daemon for a ring of four times the size.
    fn want_ring(&self, daemon: &mut Daemon) {
        if let Carrier::Ring(ring) = self.end().outbound.leg().carrier
            && ring.log2 < MIN_LOG2 + 4
            && self.next.is_none()
            && self.left.is_none()
            && daemon.orders[self.number].is_empty()
        {
            daemon.tell(self.number, &wish(self.number, ring.log2 + 2));
        }
    }

    /// Goes on in the larger ring that has come, and gives the old one back once the reader has left it.
    fn grow(&mut self, daemon: &mut Daemon) {
        let Carrier::Ring(old) = self.end().outbound.leg().carrier else { return };
        if let Some(ring) = self.left.filter(|_| self.outbound().is_adopted()) {
            self.left = None;
            daemon.tell(self.number, &gift(self.number, ring));
        } else if let Some(ring) = self.next
            && self.left.is_none()
            && self.outbound().begin_leg(Carrier::Ring(ring)).expect("a reader that keeps the rules")
        {
            (self.next, self.left) = (None, Some(old));
        }
    }

    /// Another thread begins to send by the kernel.
    fn begin_send(&mut self, len: usize) {
        let is_shut = self.stream().borrow().is_shut;
        if !is_shut && self.sending.is_none() && Gate::new(&self.end().outbound.inside, false).enter() {
            self.sending = Some(len);
        }
    }

    /// Another thread begins to receive from the kernel.
    fn begin_receive(&mut self, len: usize) {
        if self.receiving.is_none() && Gate::new(&self.end().inbound.inside, false).enter() {
            self.receiving = Some(len);
        }
    }

    /// The kernel's calls of other threads end.
    pub(super) fn end_kernel_calls(&mut self) {
        if let Some(len) = self.sending.take() {
            let mut stream = self.stream().borrow_mut();
            let octets = stream.next(len);
            let len = stream.push(&octets) as u64;
            stream.sent += len;
            self.end().outbound.count(len);
            Gate::new(&self.end().outbound.inside, false).leave();
        }
        if let Some(len) = self.receiving.take() {
            let mut stream = self.other_stream().borrow_mut();
            let octets = stream.pop(len);
            stream.take(&octets);
            self.end().inbound.count(octets.len() as u64);
            Gate::new(&self.end().inbound.inside, false).leave();
        }
    }

    /// Takes the sending direction back to TCP, if the reader is in its ring.
    fn leave_ring(&self) {
        self.obey();
        if self.outbound().sink() == Sink::Ring && !self.stream().borrow().is_shut {
            let is_back = self.outbound().begin_leg(Carrier::Tcp).expect("a reader that keeps the rules");
            self.shared.is_left.set(self.shared.is_left.get() || is_back);
        }
    }

    /// Takes both directions back to TCP.
    fn lower(&self) {
        self.stays.set(true);
        if !self.is_offered || self.asks.get() {
            return;
        }
        self.leave_ring();
        let (gate, inbound) = (Gate::new(&self.end().inbound.inside, false), self.inbound());
        if !gate.is_closed() {
            inbound.decline();
        } else if inbound.withdraw() || inbound.is_at_end() {
            gate.open();
        } else {
            inbound.ask_back();
            self.asks.set(true);
        }
    }

    /// The reader looks whether the sender has answered its question.
    pub(super) fn look_for_answer(&self) {
        let (gate, inbound) = (Gate::new(&self.end().inbound.inside, false), self.inbound());
        if !self.asks.get() {
            return;
        }
        let is_final = inbound.end().is_some();
        if inbound.is_answered() {
            assert_eq!(inbound.come_back(), Ok(()), "the answer is a leg by TCP");
            self.asks.set(false);
            gate.open();
        } else if is_final {
            // The sender cannot answer any more. The reader takes the rest from the ring.
            inbound.ask_no_more();
            self.asks.set(false);
        }
    }

    /// The sender goes back to TCP if its reader has asked for that.
    pub(super) fn obey(&self) {
        let outbound = self.outbound();
        if !outbound.is_asked_back() {
            return;
        }
        match outbound.obey() {
            Ok(true) => {
                self.stays.set(true);
                self.resend();
            }
            Ok(false) => {}
            // The rest of a ring cannot go behind what went by TCP since then.
            Err(Broken) => {
                assert!(self.shared.is_left.get(), "a reader that keeps the rules");
                self.shared.is_reset.set(true);
            }
        }
    }

    /// Sends what the reader has left in rings. Returns true once all of it is out.
    fn resend(&self) -> bool {
        let outbound = self.outbound();
        while let Some(pieces) = outbound.backlog() {
            let octets: Vec<u8> = pieces.into_iter().flat_map(|piece| self.shared.read(piece)).collect();
            let taken = self.stream().borrow_mut().push(&octets);
            if taken == 0 {
                return false;
            }
            outbound.resent(taken);
        }
        let gate = Gate::new(&self.end().outbound.inside, false);
        if gate.is_closed() {
            gate.open();
        }
        true
    }

    /// A relative takes the directions over from an owner that was killed between its own words and the link's.
    fn take_over(&self, which: u8) {
        if self.is_offered
            && which.is_multiple_of(2)
            && Gate::new(&self.end().outbound.inside, false).is_closed()
        {
            self.outbound().republish();
        }
        if self.is_offered && which % 2 == 1 && Gate::new(&self.end().inbound.inside, false).is_closed() {
            self.inbound().republish();
        }
    }

    /// Ends the sending direction.
    pub(super) fn shut(&self) {
        self.obey();
        let is_ready = self.sending.is_none() && self.outbound().backlog().is_none();
        if is_ready && self.is_offered {
            self.outbound().finish().expect("a reader that keeps the rules");
        }
        self.stream().borrow_mut().is_shut |= is_ready;
    }

    /// The own counts are those of the model.
    pub(super) fn check(&self) {
        let (own, stream) = (self.end(), self.stream().borrow());
        assert_eq!(own.outbound.accepted(), stream.sent, "octets that were written");
        assert_eq!(
            own.inbound.consumed.load(Relaxed),
            self.other_stream().borrow().received,
            "octets that were read"
        );
    }

    /// All that the other end has sent is here.
    pub(super) fn check_end(&self) {
        let stream = self.other_stream().borrow();
        assert_eq!(stream.received, stream.sent, "all octets of the other end");
        assert!(stream.is_shut && !self.asks.get(), "nothing is under way");
        assert!(
            !self.is_offered || self.inbound().end().is_none_or(|end| end == stream.sent),
            "the end of the stream"
        );
    }

    fn slot(&self) -> u32 {
        u32::try_from(self.number).expect("a number")
    }

    fn end(&self) -> &End {
        self.shared.slab.end(self.slot()).expect("an end")
    }

    fn outbound(&self) -> Outbound<'_> {
        Outbound::new(&self.end().outbound, &self.shared.link, CHANNEL, self.slot()).expect("a channel")
    }

    fn inbound(&self) -> Inbound<'_> {
        Inbound::new(&self.end().inbound, &self.shared.link, CHANNEL, self.slot()).expect("a channel")
    }

    /// The direction in which this party sends.
    fn stream(&self) -> &RefCell<Stream> {
        &self.shared.streams[self.number]
    }

    fn other_stream(&self) -> &RefCell<Stream> {
        &self.shared.streams[1 - self.number]
    }
}
