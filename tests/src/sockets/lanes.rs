//! What is on its way between the daemons of two hosts, and from the processes to them.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use weft_sockets_stepped::Link;
use weft_sockets_stepped::far::{Letter, Notice};

use super::places::place;
use super::service::Post;

/// What a daemon hears.
#[derive(Debug)]
pub(crate) enum News {
    /// What a process says of connections.
    Post(usize, Post),
    /// A process has ended.
    Dead(usize),
    /// The other daemon asks for a lane, and says which session it has, and what it has received in that.
    Ask {
        lane: u64,
        session: u64,
        received: u64,
    },
    /// The other daemon has got one.
    Answer {
        lane: u64,
        session: u64,
        received: u64,
    },
    Refusal {
        lane: u64,
    },
    /// There is no other daemon.
    Nobody {
        lane: u64,
    },
    /// The daemon that has asked has heard of the answer.
    Open {
        lane: u64,
    },
    Packet {
        lane: u64,
        packet: Packet,
    },
    /// A lane is done with the message of this number, or with what has no number.
    Done {
        lane: u64,
        number: Option<u64>,
    },
    Lost {
        lane: u64,
    },
}

/// What a lane carries.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    Acknowledgment(u32),
    Message(Message),
}

/// A message of a session.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Letter(Letter),
    Notice(Notice),
    /// Octets, and the notice behind them.
    Write {
        /// The channel, by the number of the daemon that sends.
        own: u32,
        /// The memory of both links, by its numbers.
        memory: [u32; 2],
        /// The place in the memory of each.
        at: [u64; 2],
        len: u32,
        notice: Notice,
    },
}

/// The way between the two daemons, and what has come to each.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    on_its_way: BTreeMap<(u64, u64), (usize, News)>,
    pub(crate) inboxes: [VecDeque<News>; 2],
    /// Daemons that do nothing until then.
    pub(crate) stopped_until: [u64; 2],
    /// The hosts do not reach each other until then.
    pub(crate) apart_until: u64,
    /// Hosts without a daemon.
    is_dead: [bool; 2],
    /// When the latest of a lane arrives, by host.
    latest: [u64; 2],
    number: u64,
    /// The last lane.
    lane: u64,
    /// Whether lanes carry anything to each host.
    is_open: BTreeMap<u64, [bool; 2]>,
    /// The memory of links, by numbers that stand for `STag`s.
    memory: Vec<Rc<Link>>,
}

impl Lanes {
    /// Registers the memory of a link.
    pub(crate) fn register(&mut self, memory: &Rc<Link>) -> u32 {
        self.memory.push(Rc::clone(memory));
        u32::try_from(self.memory.len() - 1).unwrap_or(u32::MAX)
    }

    /// Makes a lane.
    pub(crate) fn open(&mut self) -> u64 {
        self.lane += 1;
        self.is_open.insert(self.lane, [true; 2]);
        self.lane
    }

    /// Sends something to a daemon, behind all that was sent to it before.
    pub(crate) fn send(&mut self, to: usize, news: News, arrival: u64) {
        if let News::Ask { lane, .. } = news
            && arrival < self.apart_until
        {
            return self.later(1 - to, News::Lost { lane }, arrival);
        }
        if let News::Ask { lane, .. } = news
            && self.is_dead[to]
        {
            return self.later(1 - to, News::Nobody { lane }, arrival);
        }
        self.latest[to] = self.latest[to].max(arrival);
        self.later(to, news, self.latest[to]);
    }

    /// Lets a daemon hear of something, in no order.
    pub(crate) fn later(&mut self, to: usize, news: News, arrival: u64) {
        self.number += 1;
        self.on_its_way.insert((arrival, self.number), (to, news));
    }

    /// A host destroys its end of a lane. The other daemon hears of it.
    pub(crate) fn destroy(&mut self, host: usize, lane: u64, arrival: u64) {
        let is_open = self.is_open.entry(lane).or_default();
        if std::mem::take(&mut is_open[host]) {
            self.send(1 - host, News::Lost { lane }, arrival);
        }
    }

    /// The daemon of a host is dead. The other one hears that its lanes are lost. Returns the sockets of claims that it had.
    pub(crate) fn bury(&mut self, host: usize, arrival: u64) -> Vec<usize> {
        self.is_dead[host] = true;
        let on_its_way = std::mem::take(&mut self.on_its_way);
        let (its, others): (BTreeMap<_, _>, _) = on_its_way.into_iter().partition(|(_, (to, _))| *to == host);
        self.on_its_way = others;
        let lanes: Vec<_> = self.is_open.keys().copied().collect();
        lanes.into_iter().for_each(|lane| self.destroy(host, lane, arrival));
        let news = its.into_values().map(|(_, news)| news).chain(self.inboxes[host].drain(..));
        news.filter_map(|news| match news {
            News::Post(_, Post::Claim { socket, .. }) => Some(socket),
            _ => None,
        })
        .collect()
    }

    /// The host has a daemon again.
    pub(crate) fn revive(&mut self, host: usize) {
        self.is_dead[host] = false;
        self.inboxes[host].clear();
    }

    /// The lane breaks. With `is_torn`, a Write that is on its way is placed in part, and nobody is told.
    pub(crate) fn tear(&mut self, arrivals: [u64; 2], is_torn: bool) {
        let write = self.on_its_way.values().find_map(|(_, news)| match news {
            News::Packet { packet: Packet::Message(write @ Message::Write { .. }), .. } => {
                Some(write.clone())
            }
            _ => None,
        });
        if let Some(Message::Write { memory, at, len, .. }) = write.filter(|_| is_torn) {
            self.place(memory, at, len / 2);
        }
        for lane in std::mem::take(&mut self.is_open).into_keys() {
            self.on_its_way.retain(|_, (_, news)| !news.is_of(lane));
            for (host, arrival) in arrivals.into_iter().enumerate() {
                self.later(host, News::Lost { lane }, arrival);
            }
        }
    }

    /// When the next news arrive.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let mut all = self.on_its_way.iter();
        all.next().map(|((at, _), (to, _))| (*at).max(self.stopped_until[*to]))
    }

    /// Moves what has arrived to the daemons.
    pub(crate) fn arrive(&mut self, now: u64) {
        let due: Vec<_> =
            self.on_its_way.range(..=(now, u64::MAX)).map(|(key, (to, _))| (*key, *to)).collect();
        for (key, to) in due {
            if self.stopped_until[to] > now {
                continue;
            }
            let Some((_, news)) = self.on_its_way.remove(&key) else { continue };
            if let News::Packet { lane, packet } = &news {
                if !self.is_open.get(lane).is_some_and(|is_open| is_open[to]) {
                    continue;
                }
                if let Packet::Message(Message::Write { memory, at, len, .. }) = *packet {
                    self.place(memory, at, len);
                }
            }
            self.inboxes[to].push_back(news);
        }
    }

    /// Copies octets from ring to ring.
    fn place(&self, memory: [u32; 2], at: [u64; 2], len: u32) {
        let [from, to] = memory.map(|number| &self.memory[number as usize]);
        let mut octets = vec![0; len as usize];
        let [source, target] = at.map(place);
        let is_copied =
            from.ring(source.0).read(source.1, &mut octets) && to.ring(target.0).write(target.1, &octets);
        assert!(is_copied, "a Write beside the rings");
    }
}

impl News {
    /// True if it is lost with this lane.
    const fn is_of(&self, own: u64) -> bool {
        match self {
            Self::Ask { lane, .. }
            | Self::Answer { lane, .. }
            | Self::Refusal { lane }
            | Self::Nobody { lane }
            | Self::Open { lane }
            | Self::Packet { lane, .. }
            | Self::Done { lane, .. } => *lane == own,
            _ => false,
        }
    }
}
