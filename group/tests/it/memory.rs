//! A group in memory, which forgets at a crash what was not flushed.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use weft_group::{Durability, Group, Op, OpError, OpId, Originals, SessionError, Terms, UNTOUCHED, Window};

/// A session with a group that is in memory. Clones are the same session.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    terms: Terms,
    memory: Vec<u8>,
    /// What a loss of power leaves.
    durable: Vec<u8>,
    window: Window,
    under_way: VecDeque<(Op, Vec<u8>)>,
    done: HashMap<OpId, Originals>,
    /// What the next flush makes durable besides its own octets.
    flushed_later: Vec<Range<usize>>,
    /// How often the file was synchronized.
    syncs: usize,
    /// How many more steps the client makes before it dies.
    steps: u64,
    over: SessionError,
    /// After how many more steps the client dies again, each time after it has recovered.
    recoveries: VecDeque<u64>,
}

impl Memory {
    pub(crate) fn new(len: u64) -> Self {
        Self::of(vec![0; usize::try_from(len).unwrap()])
    }

    fn of(memory: Vec<u8>) -> Self {
        let len = memory.len() as u64;
        let terms = Terms {
            replicas: 1,
            window: 8,
            len,
            piece: 5000,
            epoch: 1,
            session: 1,
            durability: Durability::Volatile,
        };
        let durable = memory.clone();
        let (window, under_way, done) = (Window::new(8), VecDeque::new(), HashMap::new());
        let over = SessionError::Lost(None);
        Self(Arc::new(Mutex::new(State {
            terms,
            memory,
            durable,
            window,
            under_way,
            done,
            flushed_later: Vec::new(),
            syncs: 0,
            steps: u64::MAX,
            over,
            recoveries: VecDeque::new(),
        })))
    }

    /// The session ends after so many steps.
    pub(crate) fn ends_after(&self, steps: u64, why: SessionError) {
        let mut state = self.state();
        (state.steps, state.over) = (steps, why);
    }

    /// When the session ends, another one begins by itself, and ends after so many steps.
    pub(crate) fn recovers(&self, recoveries: impl IntoIterator<Item = u64>) {
        self.state().recoveries.extend(recoveries);
    }

    pub(crate) fn recoveries_left(&self) -> usize {
        self.state().recoveries.len()
    }

    pub(crate) fn steps_left(&self) -> u64 {
        self.state().steps
    }

    pub(crate) fn syncs(&self) -> usize {
        self.state().syncs
    }

    /// Returns a new session after a crash. Operations under way were done in full, in part or not at all. If the power was
    /// lost, any part of what was not flushed is lost.
    pub(crate) fn after_crash(&self, seed: u64, is_power_lost: bool) -> Self {
        let mut random = Random(seed);
        let mut state = self.state();
        for (op, octets) in std::mem::take(&mut state.under_way) {
            let mut after = state.memory.clone();
            apply(&op, &octets, &mut after);
            let pattern = random.next() % 3;
            for range in pieces(after.len()) {
                if pattern == 0 || pattern == 1 && random.next().is_multiple_of(2) {
                    let torn = range.start..range.start + random.below(range.len() + 1);
                    let range = if random.next().is_multiple_of(4) { torn } else { range };
                    state.memory[range.clone()].copy_from_slice(&after[range]);
                }
            }
        }
        let mut left = state.durable.clone();
        for range in pieces(left.len()) {
            if !is_power_lost || random.next().is_multiple_of(2) {
                left[range.clone()].copy_from_slice(&state.memory[range]);
            }
        }
        Self::of(left)
    }

    pub(crate) fn contents(&self) -> Vec<u8> {
        self.state().memory.clone()
    }

    /// Changes octets behind the client's back.
    pub(crate) fn spoil(&self, at: usize, octets: &[u8]) {
        self.state().memory[at..at + octets.len()].copy_from_slice(octets);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn step(&mut self) -> Result<(), SessionError> {
        self.steps = self.steps.checked_sub(1).ok_or_else(|| self.over.clone())?;
        Ok(())
    }

    /// Carries out the oldest operation.
    fn advance(&mut self) -> Result<(), SessionError> {
        self.step()?;
        let (op, octets) = self.under_way.pop_front().ok_or(SessionError::Op(OpError::Unknown))?;
        let originals = apply(&op, &octets, &mut self.memory);
        self.flushed_later.extend(op.flush.clone().map(place));
        if op.flush.is_some() && !op.flushes_later {
            for range in self.flushed_later.drain(..) {
                self.durable[range.clone()].copy_from_slice(&self.memory[range]);
            }
            self.syncs += 1;
        }
        self.done.insert(OpId(self.window.end().unwrap()), originals);
        Ok(())
    }
}

impl Group for Memory {
    fn terms(&self) -> Terms {
        self.state().terms
    }

    fn replicas(&self) -> usize {
        1
    }

    fn submit(&mut self, op: &Op, octets: &[u8]) -> Result<OpId, SessionError> {
        let mut state = self.state();
        op.check(state.terms.len, state.terms.piece)?;
        state.window.check(op, 1)?;
        state.step()?;
        let number = state.window.begin(op)?;
        state.under_way.push_back((op.clone(), octets.to_vec()));
        Ok(OpId(number))
    }

    fn wait(&mut self, id: OpId) -> Result<Originals, SessionError> {
        let mut state = self.state();
        loop {
            if let Some(originals) = state.done.remove(&id) {
                return Ok(originals);
            }
            state.advance()?;
        }
    }

    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), SessionError> {
        let mut state = self.state();
        state.step()?;
        while !state.under_way.is_empty() {
            state.advance()?;
        }
        out.copy_from_slice(&state.memory[place(at..at + out.len() as u64)]);
        Ok(())
    }

    fn recover(&mut self, error: SessionError) -> Result<(), SessionError> {
        let steps = self.state().recoveries.pop_front().ok_or(error)?;
        // A change of epoch makes all members equal, and flushes everything.
        let memory = self.after_crash(steps, false).contents();
        let mut state = self.state();
        (state.durable, state.memory, state.steps) = (memory.clone(), memory, steps);
        state.window = Window::new(8);
        state.under_way.clear();
        state.done.clear();
        state.flushed_later.clear();
        Ok(())
    }
}

fn apply(op: &Op, octets: &[u8], memory: &mut [u8]) -> Originals {
    let mut originals = [UNTOUCHED; 16];
    if let Some(write) = op.write.clone() {
        memory[place(write)].copy_from_slice(octets);
    }
    if let Some(copy) = op.copy {
        memory.copy_within(place(copy.source()), place(copy.sink()).start);
    }
    if let Some(swap) = op.swap {
        let word = &mut memory[place(swap.word())];
        originals[0] = u64::from_le_bytes((&*word).try_into().unwrap());
        if originals[0] == swap.compare {
            word.copy_from_slice(&swap.swap.to_le_bytes());
        }
    }
    originals
}

fn place(range: Range<u64>) -> Range<usize> {
    usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()
}

/// Small pieces, each of which is lost or not.
fn pieces(len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(PIECE).map(move |start| start..(start + PIECE).min(len))
}

/// Random numbers of which a seed tells all (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

const PIECE: usize = 512;
