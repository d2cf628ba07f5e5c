//! Scripts: steps that follow from a seed.

/// A script. Its steps mean the same when other steps are left out, as far as the connections allow it.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    /// The number of processes, 1 or 2.
    pub(crate) processes: usize,
    /// The number of threads in each process.
    pub(crate) threads: usize,
    /// Steps start programs, pass connections and interrupt waits.
    pub(crate) has_programs: bool,
    pub(crate) steps: Vec<Step>,
}

/// What one step does. `chance` decides all that is left open.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) number: usize,
    pub(crate) kind: Kind,
    pub(crate) chance: Chance,
}

/// The kinds of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Connect,
    /// Turns of short messages, with time for the daemon.
    Turns,
    Send,
    Receive,
    /// More octets than fit anywhere, sent and received side by side.
    Transfer,
    /// A wait that begins before its cause.
    Blocked,
    Poll,
    EpollCreate,
    EpollControl,
    EpollWait,
    Blocking,
    Option,
    Question,
    Urgent,
    Duplicate,
    Close,
    Shutdown,
    Fork,
    /// Another program in a process.
    Exec,
    /// A connection to another process.
    Pass,
    /// A wait that a signal interrupts.
    Signal,
}

/// A source of numbers: splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Script {
    /// Returns the script of a seed.
    pub(crate) fn new(seed: u64, has_programs: bool) -> Self {
        let mut chance = Chance(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let processes = 1 + chance.below(2) as usize;
        let threads = [1, 1, 2, 3][chance.below(4) as usize];
        let len = 12 + chance.below(50) as usize;
        let first = [Kind::Connect, Kind::Turns];
        let step = |number| {
            let mut chance = Chance(chance.next());
            let kind = first.get(number).copied().unwrap_or_else(|| kind(&mut chance));
            let is_program = matches!(kind, Kind::Exec | Kind::Pass | Kind::Signal);
            let kind = if is_program && !has_programs { Kind::Send } else { kind };
            Step { number, kind, chance }
        };
        Self { seed, processes, threads, has_programs, steps: (0..len).map(step).collect() }
    }

    /// Leaves out all other steps.
    pub(crate) fn keep(&mut self, numbers: &[usize]) {
        self.steps.retain(|step| numbers.contains(&step.number));
    }
}

impl Chance {
    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a limit that is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns true once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns one of a list.
    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// Returns a length up to a limit. Short ones come often.
    pub(crate) fn len(&mut self, limit: u64) -> u64 {
        let most = [8, 40, 41, 600, 5000, 16_384][self.below(6) as usize];
        self.below(limit.min(most) + 1)
    }
}

fn kind(chance: &mut Chance) -> Kind {
    let mut left = chance.below(KINDS.iter().map(|(_, weight)| weight).sum());
    for (kind, weight) in KINDS {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return kind,
        }
    }
    Kind::Send
}

/// How often each kind comes.
const KINDS: [(Kind, u64); 21] = [
    (Kind::Connect, 2),
    (Kind::Turns, 5),
    (Kind::Send, 26),
    (Kind::Receive, 26),
    (Kind::Transfer, 3),
    (Kind::Blocked, 5),
    (Kind::Poll, 8),
    (Kind::EpollCreate, 2),
    (Kind::EpollControl, 8),
    (Kind::EpollWait, 10),
    (Kind::Blocking, 3),
    (Kind::Option, 4),
    (Kind::Question, 4),
    (Kind::Urgent, 1),
    (Kind::Duplicate, 3),
    (Kind::Close, 2),
    (Kind::Shutdown, 1),
    (Kind::Fork, 1),
    (Kind::Exec, 1),
    (Kind::Pass, 1),
    (Kind::Signal, 2),
];
