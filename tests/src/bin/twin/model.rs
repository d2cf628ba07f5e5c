//! What a script knows of its connections. It is the same in both worlds after each step.

use std::collections::BTreeMap;

use crate::script::Chance;

/// One end of a connection. Ends come in pairs: the peer of end 2 is end 3.
#[derive(Debug, Clone)]
pub(crate) struct End {
    /// The descriptors, each with the process that holds it.
    pub(crate) fds: Vec<(usize, i32)>,
    pub(crate) is_blocking: bool,
    /// SO_RCVTIMEO is set.
    pub(crate) is_timed: bool,
    /// SO_RCVLOWAT
    pub(crate) low_water: u64,
    /// Octets sent to the peer.
    pub(crate) written: u64,
    /// Octets received from the peer.
    pub(crate) read: u64,
    /// Nothing more will be sent.
    pub(crate) is_finished: bool,
    /// Resets and half closed readers: results are compared only with those of plain sockets.
    pub(crate) is_odd: bool,
    /// The worlds have come to differ, which no further step looks at.
    pub(crate) is_lost: bool,
    /// Closing it resets the connection.
    pub(crate) resets: bool,
    /// It went to another program, which cannot send again what its peer has not taken from a ring.
    pub(crate) is_handed: bool,
    pub(crate) has_connected: bool,
}

/// A thread that obeys a channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Actor {
    pub(crate) channel: usize,
    pub(crate) process: usize,
}

/// An epoll set, with the processes that hold it, which all have it under the same number.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) processes: Vec<usize>,
    pub(crate) fd: i32,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) ends: Vec<End>,
    pub(crate) actors: Vec<Actor>,
    pub(crate) sets: Vec<Set>,
    pub(crate) processes: usize,
    /// Children may be programs of their own.
    pub(crate) has_programs: bool,
    /// What the library has told of each member since its registration, by the number of its set and its data.
    pub(crate) told: BTreeMap<(i32, String), u32>,
    /// The channel of a thread that waits.
    pub(crate) busy: Option<usize>,
}

impl End {
    pub(crate) fn new(held: (usize, i32), is_blocking: bool, has_connected: bool) -> Self {
        Self {
            fds: vec![held],
            is_blocking,
            is_timed: false,
            low_water: 1,
            written: 0,
            read: 0,
            is_finished: false,
            is_odd: false,
            is_lost: false,
            resets: false,
            is_handed: false,
            has_connected,
        }
    }
}

impl Model {
    /// Returns the channels of the processes' main threads, forked children first.
    pub(crate) fn mains(&self) -> Vec<usize> {
        let is_first = |process: &usize| self.actors.iter().find(|actor| actor.process == *process);
        (0..self.processes)
            .rev()
            .collect::<Vec<_>>()
            .iter()
            .filter_map(is_first)
            .map(|actor| actor.channel)
            .collect()
    }

    /// From now on only the two worlds are compared on this connection.
    pub(crate) fn make_odd(&mut self, end: usize) {
        self.ends[end].is_odd = true;
        self.ends[end ^ 1].is_odd = true;
    }

    /// Returns an end that is open.
    pub(crate) fn end(&self, chance: &mut Chance) -> Option<usize> {
        let open: Vec<usize> =
            (0..self.ends.len()).filter(|end| self.is_open(*end) && !self.ends[*end].is_lost).collect();
        (!open.is_empty()).then(|| chance.pick(&open))
    }

    /// Returns an end that is open and whose peer is open, without resets.
    pub(crate) fn whole_end(&self, chance: &mut Chance) -> Option<usize> {
        self.end(chance).filter(|&end| {
            self.is_open(end ^ 1)
                && [end, end ^ 1].iter().all(|end| !self.ends[*end].is_odd && !self.ends[*end].is_finished)
        })
    }

    pub(crate) fn is_open(&self, end: usize) -> bool {
        !self.ends[end].fds.is_empty()
    }

    /// Returns how many octets an end has not received yet.
    pub(crate) fn unread(&self, end: usize) -> u64 {
        self.ends[end ^ 1].written - self.ends[end].read
    }

    /// Returns a descriptor of an end, and the channel of a thread that can use it.
    pub(crate) fn user(&self, end: usize, chance: &mut Chance) -> (usize, i32) {
        let users: Vec<(usize, i32)> = self.ends[end]
            .fds
            .iter()
            .flat_map(|(process, fd)| self.free(*process).map(|channel| (channel, *fd)))
            .collect();
        chance.pick(&users)
    }

    /// Returns a channel of a process.
    pub(crate) fn channel(&self, process: usize, chance: &mut Chance) -> usize {
        chance.pick(&self.free(process).collect::<Vec<_>>())
    }

    /// Returns users of two ends that are different threads.
    pub(crate) fn users(&self, ends: [usize; 2], chance: &mut Chance) -> Option<[(usize, i32); 2]> {
        for _ in 0..8 {
            let users = ends.map(|end| self.user(end, chance));
            if users[0].0 != users[1].0 {
                return Some(users);
            }
        }
        None
    }

    /// Returns the channels of a process whose threads do not wait.
    fn free(&self, process: usize) -> impl Iterator<Item = usize> {
        let free = move |actor: &&Actor| actor.process == process && Some(actor.channel) != self.busy;
        self.actors.iter().filter(free).map(|actor| actor.channel)
    }
}
