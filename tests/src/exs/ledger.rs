//! The operations that a side has started, and what has come of them.

use weft_exs::{Buf, Context, Error, Mode, Outcome, Queue};
use weft_exs_core::Kind;

use super::oracle::{Fate, Message, Sent, check_messages, check_octets};
use super::sabotage::Sabotage;
use super::socket::{Socket, Transfer, taken};
use crate::simulate::random::Random;
use crate::simulate::tally::Tally;

/// All operations of a side, in the order of their starts: sends, and receives.
pub(super) struct Ledger {
    kind: Kind,
    entries: [Vec<Entry>; 2],
    /// As many of them have ended, without a gap.
    ended: [usize; 2],
    queue: Option<Queue<Event>>,
    /// Buffers that have come back, with their contents at that time.
    spare: Vec<(Buf, Vec<u8>)>,
    /// The peer has said that nothing more comes.
    has_seen_end: bool,
    /// This side has said so.
    pub(super) is_shut: bool,
    pub(super) tally: Tally,
}

/// The end of an operation in a queue.
pub(super) type Event = (Direction, usize, (Result<Outcome, Error>, Buf));

/// The direction of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Send,
    Receive,
}

/// How an operation may end without success.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Something has gone wrong that ends the connection, or may.
    pub(super) may_break: bool,
    /// This direction has a time limit.
    pub(super) has_limit: [bool; 2],
    /// This side is closed.
    pub(super) is_closed: bool,
    /// A side receives nothing more.
    pub(super) has_stopped: [bool; 2],
}

struct Entry {
    way: Way,
    start: usize,
    len: usize,
    waits_for_all: bool,
    /// Someone has tried to cancel it.
    is_canceled: bool,
    /// It has begun to end so. A receive of a stream may meet octets meanwhile.
    ends_canceled: bool,
    /// It was started behind a shutdown.
    is_behind_end: bool,
    /// It has ended behind a close, which may have cut it off.
    is_cut_off: bool,
    /// As many were under way at its start as a socket takes.
    is_too_much: bool,
    result: Option<Result<Outcome, Error>>,
    /// Contents of the buffer of a send; what has come in a receive.
    octets: Vec<u8>,
}

/// How the side hears of the end of an operation.
enum Way {
    Op(Transfer),
    Queue,
    /// Not at all.
    Dropped,
    Ended,
}

impl Ledger {
    pub(super) fn new(kind: Kind, queue: Option<Queue<Event>>) -> Self {
        Self {
            kind,
            entries: Default::default(),
            ended: [0; 2],
            queue,
            spare: Vec::new(),
            has_seen_end: false,
            is_shut: false,
            tally: Tally::default(),
        }
    }

    /// Starts an operation with so many octets. Returns its number.
    pub(super) fn start(
        &mut self,
        (context, socket): (&Context, &Socket),
        direction: Direction,
        len: usize,
        random: &mut Random,
    ) -> Result<usize, String> {
        let unknown = self.entries[direction as usize].iter().filter(|entry| entry.result.is_none());
        let is_too_much = unknown.count() >= MOST;
        let start = random.below(9);
        let mut buf = self.buffer(context, start + len, random)?;
        let waits_for_all = direction == Direction::Receive && random.percent(30);
        let (op, octets) = match direction {
            Direction::Send => {
                let contents = random.octets(buf.len());
                buf.copy_from_slice(&contents);
                (socket.send(buf, start, len), contents)
            }
            Direction::Receive => {
                buf.fill(FENCE);
                (socket.receive(buf, start, len, waits_for_all), Vec::new())
            }
        };
        let number = self.entries[direction as usize].len();
        let queue = self.queue.as_ref().filter(|_| random.percent(60));
        let way = match queue {
            Some(queue) => {
                let place = queue.reserve().map_err(|error| format!("a queue that has room: {error}"))?;
                op.on(place, move |outcome| (direction, number, outcome));
                Way::Queue
            }
            None => Way::Op(op),
        };
        let waits_for_all = waits_for_all && self.kind == Kind::Stream;
        let entry = Entry {
            way,
            start,
            len,
            waits_for_all,
            is_canceled: false,
            ends_canceled: false,
            is_behind_end: self.is_shut && direction == Direction::Send,
            is_cut_off: false,
            is_too_much,
            result: None,
            octets,
        };
        self.entries[direction as usize].push(entry);
        Ok(number)
    }

    /// Takes what has come of operations. Returns which have ended.
    pub(super) fn collect(
        &mut self,
        rules: &Rules,
        sabotage: &mut Option<Sabotage>,
    ) -> Result<Vec<(Direction, usize)>, String> {
        let mut ended = Vec::new();
        while let Some((direction, number, outcome)) = self.queue.as_ref().and_then(Queue::next) {
            let entry = self.entries[direction as usize].get_mut(number);
            if !entry.is_some_and(|entry| matches!(entry.way, Way::Queue)) {
                return Err(format!("{direction:?} {number} ends twice"));
            }
            ended.push((direction, number, outcome));
        }
        for direction in [Direction::Send, Direction::Receive] {
            let first = self.ended[direction as usize];
            for (number, entry) in self.entries[direction as usize].iter_mut().enumerate().skip(first) {
                if let Way::Op(op) = &mut entry.way
                    && let Some(outcome) = taken(op)
                {
                    ended.push((direction, number, outcome));
                }
            }
        }
        // The two ways have no order between them.
        ended.sort_by_key(|(direction, number, _)| (*direction as usize, *number));
        let mut told = Vec::new();
        for (direction, number, (result, buf)) in ended {
            let has_come = direction == Direction::Receive && matches!(result, Ok(it) if it.octets > 0);
            if has_come && sabotage.take_if(|it| *it == Sabotage::Silent).is_some() {
                self.entries[1][number].way = Way::Queue;
                continue;
            }
            let settled = self.settle(direction, number, (result, buf), rules);
            settled.map_err(|reason| format!("{direction:?} {number}: {result:?}: {reason}"))?;
            told.push((direction, number));
            if has_come && let Some(sabotage) = sabotage.take() {
                self.spoil(number, sabotage);
            }
        }
        self.check_order()?;
        Ok(told)
    }

    /// Cancels an operation that has not ended, if there is one.
    pub(super) fn cancel_one(&mut self, random: &mut Random) {
        let entries = self.entries.iter_mut().flatten();
        let mut open: Vec<_> = entries.filter(|entry| matches!(entry.way, Way::Op(_))).collect();
        let chosen = random.below(open.len());
        if let Some(entry) = open.get_mut(chosen)
            && let Way::Op(op) = &entry.way
        {
            entry.is_canceled = true;
            entry.ends_canceled |= op.cancel();
            self.tally.operation("cancel", 0);
        }
    }

    /// Cancels all operations.
    pub(super) fn cancel_all(&mut self, socket: &Socket) {
        let entries = self.entries.iter_mut().flatten();
        entries.filter(|entry| entry.is_open()).for_each(|entry| entry.is_canceled = true);
        socket.cancel_all();
        self.tally.operation("cancel all", 0);
    }

    /// Drops a send that has not ended, if there is one. It goes on.
    pub(super) fn drop_one(&mut self, random: &mut Random) {
        let open = |entry: &&mut Entry| matches!(entry.way, Way::Op(_));
        let mut sends: Vec<_> = self.entries[0].iter_mut().filter(open).collect();
        let chosen = random.below(sends.len());
        if let Some(entry) = sends.get_mut(chosen) {
            entry.way = Way::Dropped;
            self.tally.operation("operation dropped", 0);
        }
    }

    /// Returns the operations of a direction that have not ended, as far as the side knows.
    pub(super) fn under_way(&self, direction: Direction) -> usize {
        self.entries[direction as usize].iter().filter(|entry| entry.is_open()).count()
    }

    /// Returns whether all operations have ended of which the side hears.
    pub(super) fn is_idle(&self) -> bool {
        [Direction::Send, Direction::Receive].into_iter().all(|direction| self.under_way(direction) == 0)
    }

    /// Returns how an operation has ended.
    pub(super) fn result(&self, direction: Direction, number: usize) -> Option<Result<Outcome, Error>> {
        self.entries[direction as usize].get(number)?.result
    }

    /// Checks what the peer has received, and the buffers of this side. What a peer that has heard of an end has
    /// received is all, unless it `may_be_cut`.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn judge(&self, peer: &Self, may_be_cut: bool) -> Result<(), String> {
        let sent: Vec<_> = self.entries[0].iter().map(|entry| entry.sent(self.kind)).collect();
        let is_all = peer.has_seen_end && !may_be_cut;
        let came = peer.entries[1].iter().filter_map(|entry| {
            let outcome = entry.result?.ok().filter(|outcome| outcome.mode != Mode::End)?;
            Some(Message { octets: entry.octets.clone(), len: outcome.message_len as usize })
        });
        match self.kind {
            Kind::Message => check_messages(&sent, &came.collect::<Vec<_>>(), is_all)?,
            Kind::Stream => {
                check_octets(&sent, &came.flat_map(|part| part.octets).collect::<Vec<_>>(), is_all)?;
            }
        }
        let is_as_it_was = |(buf, contents): &(Buf, Vec<u8>)| buf[..] == contents[..];
        if self.spare.iter().all(is_as_it_was) { Ok(()) } else { Err(LATE.into()) }
    }

    /// Returns a buffer with room for so many octets, perhaps one that was used before.
    fn buffer(&mut self, context: &Context, len: usize, random: &mut Random) -> Result<Buf, String> {
        let fits = |(buf, _): &(Buf, Vec<u8>)| (len..=len * 4 + 64).contains(&buf.len());
        match self.spare.iter().position(fits).filter(|_| random.percent(70)) {
            Some(at) => {
                let (buf, contents) = self.spare.swap_remove(at);
                if buf[..] == contents[..] { Ok(buf) } else { Err(LATE.into()) }
            }
            None => context.buffer(len + random.between(1, 20)).map_err(|error| error.to_string()),
        }
    }

    /// Takes the end of an operation.
    fn settle(
        &mut self,
        direction: Direction,
        number: usize,
        (result, buf): (Result<Outcome, Error>, Buf),
        rules: &Rules,
    ) -> Result<(), String> {
        let kind = self.kind;
        let entry = &mut self.entries[direction as usize][number];
        entry.way = Way::Ended;
        entry.result = Some(result);
        entry.is_cut_off = rules.is_closed;
        let range = entry.start..entry.start + entry.len;
        match direction {
            Direction::Send if buf[..] != entry.octets[..] => return Err("its octets have changed".into()),
            Direction::Send => {}
            Direction::Receive => {
                let outside = buf[..range.start].iter().chain(&buf[range.end..]);
                if outside.into_iter().any(|octet| *octet != FENCE) {
                    return Err("octets beside it have changed".into());
                }
            }
        }
        match result {
            Ok(outcome) => {
                entry.check(direction, kind, outcome)?;
                let octets = outcome.octets as usize;
                if direction == Direction::Receive {
                    entry.octets = buf[range.start..range.start + octets].to_vec();
                    if self.has_seen_end && octets > 0 {
                        return Err("more comes behind the end".into());
                    }
                    let is_short = entry.waits_for_all && octets < entry.len && !entry.is_canceled;
                    let may_be_short = rules.may_break || rules.has_limit[1] || rules.has_stopped[0];
                    let is_short = is_short && !may_be_short && !rules.is_closed;
                    self.has_seen_end |= !rules.has_stopped[0] && (outcome.mode == Mode::End || is_short);
                }
                self.tally.operation(&format!("{direction:?} {:?}", outcome.mode), octets);
                if outcome.is_truncated() {
                    self.tally.operation("truncated", 0);
                }
            }
            Err(error) => {
                entry.check_error(direction, error, rules)?;
                self.tally.status(&format!("{direction:?}: {error}"));
            }
        }
        let contents = buf.to_vec();
        self.spare.push((buf, contents));
        if self.spare.len() > SPARE {
            let (oldest, contents) = self.spare.remove(0);
            if oldest[..] != contents[..] {
                return Err(LATE.into());
            }
        }
        Ok(())
    }

    /// Checks that operations have succeeded in the order of their starts.
    fn check_order(&mut self) -> Result<(), String> {
        let directions = [Direction::Send, Direction::Receive];
        for ((entries, ended), direction) in self.entries.iter().zip(&mut self.ended).zip(directions) {
            let open = entries.iter().skip(*ended).position(Entry::is_open);
            *ended = open.map_or(entries.len(), |open| *ended + open);
            // A canceled receive of a stream may wait for the peer.
            let is_first = |entry: &Entry| entry.is_open() && !entry.is_canceled;
            let first = entries.iter().skip(*ended).position(is_first);
            let first = first.map_or(entries.len(), |first| *ended + first);
            let succeeded = |entry: &Entry| matches!(entry.result, Some(Ok(_)));
            if let Some((early, entry)) = entries.iter().enumerate().skip(first).find(|(_, it)| succeeded(it))
            {
                let result = entry.result;
                return Err(format!("{direction:?} {early} ends before {first}: {result:?}"));
            }
        }
        Ok(())
    }

    /// Falsifies what a receive has brought.
    fn spoil(&mut self, number: usize, sabotage: Sabotage) {
        let entry = &mut self.entries[1][number];
        match sabotage {
            Sabotage::Octet => entry.octets[0] ^= 1,
            Sabotage::Lost => entry.result = Some(Ok(Outcome::END)),
            Sabotage::Twice => {
                let again = Entry { way: Way::Ended, octets: entry.octets.clone(), ..*entry };
                self.entries[1].insert(number, again);
            }
            Sabotage::Late => {
                if let Some((_, contents)) = self.spare.last_mut() {
                    contents[0] ^= 1;
                }
            }
            Sabotage::Silent => {}
        }
        if sabotage == Sabotage::Lost {
            self.entries[1][number].octets.clear();
        }
    }
}

impl Entry {
    /// Returns whether the side waits for its end.
    const fn is_open(&self) -> bool {
        matches!(self.way, Way::Op(_) | Way::Queue)
    }

    /// Returns what the peer has received of a send.
    fn sent(&self, kind: Kind) -> Sent<'_> {
        let fate = match self.result {
            _ if self.is_behind_end => Fate::Never,
            Some(Ok(outcome)) if kind == Kind::Message => Fate::Taken(outcome.octets as usize),
            Some(Err(Error::Canceled)) if self.is_cut_off => Fate::MayBe,
            Some(Err(Error::Canceled | Error::Shutdown | Error::Full)) => Fate::Never,
            Some(Err(Error::TimedOut)) => Fate::MayBe,
            // A cancel of all meets a dropped one as well.
            None => Fate::MayBe,
            Some(_) => Fate::InTurn,
        };
        Sent { octets: &self.octets[self.start..self.start + self.len], fate }
    }

    fn check(&self, direction: Direction, kind: Kind, outcome: Outcome) -> Result<(), String> {
        let (octets, len) = (outcome.octets as usize, outcome.message_len as usize);
        let is_right = match (direction, kind) {
            _ if outcome == Outcome::END => direction == Direction::Receive,
            (Direction::Send, Kind::Message) => len == self.len && octets <= len,
            (Direction::Send, Kind::Stream) => octets == self.len && len == octets,
            (Direction::Receive, Kind::Message) => octets == len.min(self.len),
            (Direction::Receive, Kind::Stream) => {
                octets <= self.len && len == octets && (octets > 0 || self.len == 0)
            }
        };
        let is_canceled = self.ends_canceled && (kind == Kind::Message || direction == Direction::Send);
        if is_right && !is_canceled { Ok(()) } else { Err(format!("wrong for {} octets", self.len)) }
    }

    fn check_error(&self, direction: Direction, error: Error, rules: &Rules) -> Result<(), String> {
        let is_send = direction == Direction::Send;
        let is_allowed = match error {
            Error::Canceled => self.is_canceled || rules.is_closed && (!is_send || rules.may_break),
            Error::TimedOut => rules.may_break || rules.has_limit[direction as usize],
            Error::Shutdown if is_send => self.is_behind_end || rules.has_stopped[1],
            Error::Shutdown => rules.is_closed,
            Error::Reset => rules.may_break,
            Error::Full => self.is_too_much,
            _ => false,
        };
        if is_allowed { Ok(()) } else { Err("nothing is a reason for that".into()) }
    }
}

/// Buffers that are watched for changes.
const SPARE: usize = 16;
/// Operations of a direction that a socket takes at a time.
const MOST: usize = 64;
/// The octets of a receive before anything has come.
const FENCE: u8 = 0xEE;
const LATE: &str = "a buffer that has come back has changed";
