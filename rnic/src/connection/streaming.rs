//! The phases of a connection in streaming mode, before MPA and after a rejection.

use bytes::Bytes;
use weft_mpa::{Initiator, Responder};
use weft_netif::LlpState;

use crate::connection::state::{Connection, Hold, Interest, Phase, Turn, Verdict};
use crate::error::StreamError;
use crate::events::connection::{CmEvent, ConnectFailure};
use crate::ids::StreamingId;
use crate::stream::ending::Peer;
use crate::stream::startup;

impl Connection {
    /// Begins streaming mode if TCP's handshake is over.
    pub(crate) fn handle_opened(&mut self, turn: &Turn<'_>) -> Verdict {
        match startup::is_open(&turn.llp) {
            Ok(false) => Verdict::Keep,
            Err(reason) => self.fail_opening(reason),
            Ok(true) => {
                self.phase = Phase::Streaming(Interest::default());
                self.deadline = None;
                self.trace.opened();
                self.announce_ready();
                Verdict::Keep
            }
        }
    }

    /// Ends a connection whose TCP handshake has failed.
    pub(crate) fn fail_opening(&self, reason: ConnectFailure) -> Verdict {
        self.trace.startup_failed(&reason);
        self.tell(CmEvent::StreamFailed { id: StreamingId(self.serial), reason });
        Verdict::Remove
    }

    /// Tells the application, once each, when what it waits for has come. The octets stay in TCP until it receives
    /// them.
    pub(crate) fn watch_streaming(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let Phase::Streaming(interest) = &mut self.phase else { return Verdict::Keep };
        let is_over = matches!(turn.llp.state(), LlpState::Closed | LlpState::Reset);
        let seen = interest.octets.unwrap_or(0);
        let has_octets = is_over || turn.llp.unread(seen + 1) > seen || turn.llp.is_complete();
        let has_room = is_over || turn.llp.has_room(1);
        let octets_met = interest.octets.is_some() && has_octets;
        let room_met = (interest.room || interest.more_room) && has_room;
        if octets_met {
            interest.octets = None;
        }
        if room_met {
            (interest.room, interest.more_room) = (false, false);
        }
        let delivery_met = interest.delivery && (is_over || turn.llp.unsent() == 0);
        if delivery_met {
            interest.delivery = false;
        }
        if octets_met || room_met || delivery_met {
            self.announce_ready();
        }
        // A held connection stays for what can still be received; nobody will ever look at one that was not taken.
        if is_over && self.hold == Hold::Untaken { Verdict::Remove } else { Verdict::Keep }
    }

    /// Tells the application that it need not wait any more: the device is shut down.
    pub(crate) fn leave_streaming(&self) {
        match &self.phase {
            _ if self.hold != Hold::Held || self.qp.is_some() => {}
            Phase::Streaming(interest) if interest.is_awaited() => self.announce_ready(),
            Phase::Streaming(_) => {}
            _ => self
                .tell(CmEvent::StreamFailed { id: StreamingId(self.serial), reason: ConnectFailure::Closed }),
        }
    }

    pub(crate) fn start_initiator(
        &mut self,
        turn: &mut Turn<'_>,
        initiator: Initiator,
        private_data: Bytes,
    ) -> Verdict {
        self.phase = Phase::Connecting(initiator, private_data);
        self.deadline = Some(turn.now + turn.startup_timeout);
        self.handle_connected(turn)
    }

    pub(crate) fn start_responder(&mut self, turn: &mut Turn<'_>, responder: Responder) -> Verdict {
        self.attempt += 1;
        self.phase = Phase::AwaitingRequest(responder);
        self.deadline = Some(turn.now + turn.startup_timeout);
        self.handle_request(turn)
    }

    fn announce_ready(&self) {
        self.tell(CmEvent::StreamReady { id: StreamingId(self.serial) });
    }
}

impl Interest {
    /// Gives TCP as many octets as there is room for.
    pub(crate) fn send(&mut self, turn: &mut Turn<'_>, octets: &[u8]) -> Result<usize, StreamError> {
        if matches!(turn.llp.state(), LlpState::Closed | LlpState::Reset) {
            return Err(StreamError::Closed);
        }
        let sent = turn.llp.send_slice(octets);
        self.room |= sent < octets.len();
        Ok(sent)
    }

    /// Counts the octets that the peer has not acknowledged.
    pub(crate) fn unsent(&mut self, turn: &mut Turn<'_>) -> Result<usize, StreamError> {
        if matches!(turn.llp.state(), LlpState::Closed | LlpState::Reset) {
            return Err(StreamError::Closed);
        }
        let unsent = turn.llp.unsent();
        self.delivery |= unsent > 0;
        Ok(unsent)
    }

    /// Whether the application waits for anything.
    const fn is_awaited(&self) -> bool {
        self.octets.is_some() || self.room || self.more_room || self.delivery
    }

    /// Takes octets off TCP as far as they are there and `buffer` holds them, and none behind the first `last`.
    pub(crate) fn receive(
        &mut self,
        turn: &mut Turn<'_>,
        buffer: &mut [u8],
        last: Option<u8>,
    ) -> Result<usize, StreamError> {
        let mut taken = 0;
        while taken < buffer.len() {
            let octets = turn.llp.readable();
            let end = last.and_then(|last| octets.iter().position(|&octet| octet == last));
            let len = end.map_or(octets.len(), |end| end + 1).min(buffer.len() - taken);
            buffer[taken..taken + len].copy_from_slice(&octets[..len]);
            turn.llp.consume(len);
            taken += len;
            if len == 0 || last.is_some_and(|last| buffer[taken - 1] == last) {
                break;
            }
        }
        if taken > 0 || buffer.is_empty() {
            return Ok(taken);
        }
        self.await_octets(turn, 0)
    }

    /// Copies octets that TCP has, as far as `buffer` holds them, and takes none off.
    pub(crate) fn peek(&mut self, turn: &mut Turn<'_>, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let there = turn.llp.peek(buffer);
        if there == buffer.len() || there > 0 && turn.llp.is_complete() {
            return Ok(there);
        }
        self.await_octets(turn, there)
    }

    /// Has the application be told when there are more than `there` octets, unless none can come any more.
    fn await_octets(&mut self, turn: &Turn<'_>, there: usize) -> Result<usize, StreamError> {
        match Peer::of(&turn.llp) {
            Peer::Closed | Peer::Lost if there > 0 => Ok(there),
            Peer::Closed | Peer::Lost => Err(StreamError::Closed),
            Peer::Finished => Err(StreamError::Finished),
            Peer::Open => {
                self.octets = Some(there);
                Ok(there)
            }
        }
    }
}
