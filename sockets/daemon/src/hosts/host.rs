//! A remote host as this daemon knows it.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;

use weft_rnic::{Access, Mr, Pd, Region};
use weft_sockets::far::{Letter, Notice, Session};
use weft_sockets::layout::{LINK_LEN, RINGS_AT};
use weft_sockets::{Claimant, NONCE_LEN};

use crate::hosts::channel::Channel;
use crate::hosts::failure::Lost;
use crate::hosts::half::Half;
use crate::hosts::lane::{Lane, Message};
use crate::hosts::rnic::Way;
use crate::hosts::why::Why;
use crate::link::Link;

/// A remote host, or one that may be one.
#[derive(Debug)]
pub(crate) struct Host {
    /// Its name among the families.
    pub(crate) name: u64,
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) contact: Contact,
    /// Why there was no lane the last time. `None`: there is one, or nobody has asked.
    pub(crate) why: Option<Why>,
    /// What the operator was told of this host, once for each cause.
    pub(crate) complaints: Vec<Why>,
    /// The name of the session with the other daemon, and its messages.
    pub(crate) session: Option<(u64, Session<Message>)>,
    /// When the session lost its lane.
    pub(crate) lost: Option<Duration>,
    /// When the other daemon has to be told of what was received last.
    pub(crate) due: Option<Duration>,
    /// The oldest message of which the other daemon has told nothing, and since when it is the oldest.
    pub(crate) oldest: Option<(u64, Duration)>,
    /// The nonce over which the other daemon has to prove its key.
    pub(crate) challenge: Option<[u8; NONCE_LEN]>,
    /// Only memory that is shared with this host is in its domains, one for each device.
    pub(crate) pds: BTreeMap<Way, Pd>,
    /// The way of the session's lanes. A session stays on one device, whose names of memory both daemons know.
    pub(crate) way: Way,
    /// A wire has not led to the other daemon. Its host's TCP is taken until this time.
    pub(crate) off_wire: Duration,
    /// The rings of links, by the links' names.
    pub(crate) memory: BTreeMap<u64, Mr>,
    pub(crate) channels: BTreeMap<u32, Channel>,
    /// Their numbers here, by link and number in the link.
    pub(crate) by_place: HashMap<(u64, u32), u32>,
    /// The channels that the other daemon has not answered yet.
    pub(crate) halves: BTreeMap<u32, Half>,
    next_channel: u32,
    /// Numbers of channels are used again.
    has_wrapped: bool,
    /// The claims that the other daemon was told.
    pub(crate) told: BTreeMap<u64, Claimant>,
    /// The claims of the other daemon in the second that began then.
    pub(crate) claims: (Duration, u32),
    /// How often the other daemon broke a rule.
    pub(crate) faults: u64,
    pub(crate) next_claim: u64,
}

/// Whether there is a lane.
#[derive(Debug)]
pub(crate) enum Contact {
    /// There is none. This daemon does not ask before this time.
    None(Duration),
    /// One of the daemons has asked.
    Opening(Opening),
    /// There is one.
    Up(Lane),
}

/// A lane that is not open yet.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The queue pair of the greeting. It becomes the lane, if that is not to be on a wire.
    pub(crate) lane: Lane,
    /// This daemon has asked.
    pub(crate) is_asking: bool,
    /// The nonce of this daemon.
    pub(crate) nonce: [u8; NONCE_LEN],
    /// The nonce of the other one, over which this daemon has proved its key.
    pub(crate) challenge: Option<[u8; NONCE_LEN]>,
    /// The lane is to be on the wires of both.
    pub(crate) wire: Option<OnWire>,
}

/// What is known of a lane that is to be on a wire, behind the greeting by the host's TCP.
#[derive(Debug)]
pub(crate) struct OnWire {
    /// The address of the other daemon.
    pub(crate) remote: SocketAddr,
    /// The nonce of its greeting.
    pub(crate) nonce: [u8; NONCE_LEN],
    /// `None`: the other daemon has yet to connect.
    pub(crate) lane: Option<Lane>,
}

impl Host {
    pub(crate) fn new(name: u64, (local, remote): (IpAddr, IpAddr), pds: BTreeMap<Way, Pd>) -> Self {
        Self {
            name,
            local,
            remote,
            contact: Contact::None(Duration::ZERO),
            why: None,
            complaints: Vec::new(),
            session: None,
            lost: None,
            due: None,
            oldest: None,
            challenge: None,
            pds,
            way: Way::Kernel,
            off_wire: Duration::ZERO,
            memory: BTreeMap::new(),
            channels: BTreeMap::new(),
            by_place: HashMap::new(),
            halves: BTreeMap::new(),
            next_channel: 0,
            has_wrapped: false,
            told: BTreeMap::new(),
            claims: (Duration::ZERO, 0),
            faults: 0,
            next_claim: 0,
        }
    }

    /// Sends a letter as soon as there is room.
    pub(crate) fn send(&mut self, letter: Letter) {
        self.push(Message::Letter(letter));
    }

    /// Sends a notice as soon as there is room.
    pub(crate) fn notify(&mut self, notice: Notice) {
        self.push(Message::Notice(notice));
    }

    pub(crate) fn push(&mut self, message: Message) {
        if let Some((_, session)) = &mut self.session {
            session.push(message);
        }
    }

    /// True if the lane takes what is sent now.
    pub(crate) fn has_room(&self) -> bool {
        let Contact::Up(lane) = &self.contact else { return false };
        lane.has_room()
            && self.session.as_ref().is_some_and(|(_, session)| session.is_posted() && session.len() < MANY)
    }

    /// Gives the lane what it has room for.
    pub(crate) fn flush(&mut self) -> Result<(), Lost> {
        let (Contact::Up(lane), Some((_, session))) = (&mut self.contact, &mut self.session) else {
            return Ok(());
        };
        if lane.has_room()
            && let Some(value) = session.acknowledgment(false)
        {
            lane.acknowledge(value)?;
        }
        while lane.has_room()
            && let Some((number, message)) = session.post()
        {
            lane.post(number, message, &self.memory)?;
        }
        // Another daemon that never says what it has received gets no more memory.
        if session.len() < TOO_MANY { Ok(()) } else { Err(Lost) }
    }

    /// Tells the other daemon of what was received, if that is due.
    ///
    /// # Errors
    /// The lane is lost, or the other daemon has told nothing for [`SILENCE`] though it has to.
    pub(crate) fn keep_in_touch(&mut self, now: Duration) -> Result<(), Silent> {
        let (Contact::Up(lane), Some((_, session))) = (&mut self.contact, &mut self.session) else {
            (self.due, self.oldest) = (None, None);
            return Ok(());
        };
        if session.owes_acknowledgment() {
            let is_due = *self.due.get_or_insert(now + SOON) <= now;
            if is_due
                && lane.has_room()
                && let Some(value) = session.acknowledgment(true)
            {
                lane.acknowledge(value).map_err(|Lost| Silent)?;
                self.due = None;
            } else if is_due {
                self.due = Some(now + SOON);
            }
        } else {
            self.due = None;
        }
        let oldest = (!session.is_empty()).then(|| session.oldest());
        self.oldest = match (oldest, self.oldest) {
            (Some(now_oldest), Some((before, since))) if now_oldest == before => Some((before, since)),
            (Some(oldest), _) => Some((oldest, now)),
            (None, _) => None,
        };
        let is_silent = self.oldest.is_some_and(|(_, since)| since + SILENCE <= now);
        if is_silent { Err(Silent) } else { Ok(()) }
    }

    /// Returns when [`keep_in_touch`](Self::keep_in_touch) has something to do.
    pub(crate) fn touch_deadline(&self) -> Option<Duration> {
        self.due.into_iter().chain(self.oldest.map(|(_, since)| since + SILENCE)).min()
    }

    /// Hears that a request of the lane is done.
    pub(crate) fn complete(&mut self, id: u64) {
        let (Contact::Up(lane), Some((_, session))) = (&mut self.contact, &mut self.session) else { return };
        if let Some(Message::Write { own, .. }) =
            lane.complete(id).and_then(|number| session.complete(number))
            && let Some(channel) = self.channels.get_mut(own)
        {
            channel.under_way = channel.under_way.saturating_sub(1);
            channel.seen = None;
        }
    }

    /// Hears how many messages the other daemon has received, of all that any lane had, or of this lane's.
    pub(crate) fn hear(&mut self, received: Received) -> Result<(), weft_sockets::Broken> {
        let Some((_, session)) = &mut self.session else { return Ok(()) };
        let channels = &mut self.channels;
        let done = |message| {
            if let Message::Write { own, .. } = message
                && let Some(channel) = channels.get_mut(&own)
            {
                channel.under_way = channel.under_way.saturating_sub(1);
                channel.seen = None;
            }
        };
        match received {
            Received::ByLane(low) => session.acknowledge(low, done),
            Received::InAll(number) => session.resume(number, done),
        }
    }

    /// Registers the rings of a link, if they are not yet. A tagged offset is the place in the link.
    pub(crate) fn register(&mut self, name: u64, link: &Link) -> Option<&Mr> {
        if !self.memory.contains_key(&name) {
            let len = usize::try_from(LINK_LEN - RINGS_AT).ok()?;
            let region = Region::shared(link.file.as_fd(), RINGS_AT, len).ok()?;
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
            self.memory.insert(name, self.pds.get(&self.way)?.register_at(region, access, RINGS_AT).ok()?);
        }
        self.memory.get(&name)
    }

    /// True if a channel has this number, or has had it.
    pub(crate) const fn has_had(&self, number: u32) -> bool {
        self.has_wrapped || 0 < number && number <= self.next_channel
    }

    /// Returns a number for a channel, which none has.
    pub(crate) fn number(&mut self) -> u32 {
        loop {
            self.next_channel = (self.next_channel + 1) % (1 << 28);
            self.has_wrapped |= self.next_channel == 0;
            let number = self.next_channel;
            if !self.channels.contains_key(&number) && !self.halves.contains_key(&number) {
                return self.next_channel;
            }
        }
    }
}

/// The other daemon is not heard any more.
pub(crate) struct Silent;

/// What the other daemon has received.
pub(crate) enum Received {
    /// The low half of the number, of messages that this lane has sent.
    ByLane(u32),
    /// The number, of messages that any lane has sent.
    InAll(u64),
}

/// How long a daemon may wait until it tells what it has received.
const SOON: Duration = Duration::from_millis(500);
/// How long a daemon waits for the other one's word of what it has received.
const SILENCE: Duration = Duration::from_secs(5);
/// Messages that the other daemon has not received, from which on octets wait.
const MANY: usize = 4096;
/// Messages that the other daemon has not received, from which on it is not served any more.
const TOO_MANY: usize = 1 << 16;
