//! The messages of one daemon to another, in order, whichever queue pair carries them.

use std::collections::VecDeque;

use crate::broken::Broken;
use crate::far::{low_half, widen};

/// What a daemon has to send to another one, and how much of it that one has received.
///
/// Both daemons count the messages of each direction. A message stays here until the other daemon has told that it has
/// received it. When a queue pair is lost, the next one begins behind the last message that was received. Nothing is lost
/// by that and nothing is received twice, if the old queue pair is destroyed at both ends before either of them tells how
/// much it has received.
///
/// ```
/// use weft_sockets::far::Session;
/// let mut session = Session::new();
/// session.push("one");
/// session.push("two");
/// assert_eq!(session.post(), Some((0, &"one")));
/// assert_eq!(session.post(), Some((1, &"two")));
/// // The queue pair is lost. The other daemon has received one message.
/// session.resume(1, |_| ()).unwrap();
/// assert_eq!(session.post(), Some((1, &"two")));
/// assert_eq!(session.post(), None);
/// ```
#[derive(Clone, Debug)]
pub struct Session<T> {
    /// The messages that the other daemon may not have received, oldest first.
    log: VecDeque<Entry<T>>,
    /// The number of the first.
    first: u64,
    /// The number behind the last that the current queue pair has.
    posted: u64,
    /// The number behind the last that any queue pair had.
    tried: u64,
    /// Messages that were received.
    received: u64,
    /// How many of them the other daemon was told.
    told: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    message: T,
    /// A queue pair has it behind it.
    is_done: bool,
}

impl<T> Session<T> {
    /// A session without a message.
    #[must_use]
    pub const fn new() -> Self {
        Self { log: VecDeque::new(), first: 0, posted: 0, tried: 0, received: 0, told: 0 }
    }

    /// Adds a message behind the others.
    pub fn push(&mut self, message: T) {
        self.log.push_back(Entry { message, is_done: false });
    }

    /// How many messages the other daemon may not have received.
    #[must_use]
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// True if the other daemon has received all messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// True if the queue pair has all messages.
    #[must_use]
    pub fn is_posted(&self) -> bool {
        self.posted - self.first == self.log.len() as u64
    }

    /// Returns the next message for the queue pair, and its number.
    pub fn post(&mut self) -> Option<(u64, &T)> {
        let number = self.posted;
        let at = usize::try_from(number - self.first).ok()?;
        let entry = self.log.get(at)?;
        self.posted += 1;
        self.tried = self.tried.max(self.posted);
        Some((number, &entry.message))
    }

    /// Hears that the queue pair is done with this message. Returns it the first time.
    pub fn complete(&mut self, number: u64) -> Option<&T> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let entry = self.log.get_mut(at).filter(|entry| !entry.is_done)?;
        entry.is_done = true;
        Some(&entry.message)
    }

    /// Counts a message that was received.
    pub const fn receive(&mut self) {
        self.received += 1;
    }

    /// How many messages were received.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// The number of the oldest message that the other daemon may not have received.
    #[must_use]
    pub const fn oldest(&self) -> u64 {
        self.first
    }

    /// True if messages were received of which the other daemon was not told.
    #[must_use]
    pub const fn owes_acknowledgment(&self) -> bool {
        self.received != self.told
    }

    /// Returns what the other daemon has to be told of the messages that were received: if they are many, or if it is
    /// due.
    pub const fn acknowledgment(&mut self, is_due: bool) -> Option<u32> {
        let least = if is_due { 1 } else { OFTEN };
        if self.received - self.told < least {
            return None;
        }
        self.told = self.received;
        Some(low_half(self.received))
    }

    /// The other daemon has received all messages before the one whose number has this low half. `drop` gets those with
    /// which no queue pair was done.
    ///
    /// # Errors
    /// It tells of messages that it cannot have.
    pub fn acknowledge(&mut self, low: u32, drop: impl FnMut(T)) -> Result<(), Broken> {
        let number = widen(self.first, low, self.posted - self.first)?;
        self.forget(number, drop);
        Ok(())
    }

    /// There is a new queue pair. The other daemon says how many messages it has received in all.
    ///
    /// # Errors
    /// As [`acknowledge`](Self::acknowledge).
    pub fn resume(&mut self, received: u64, drop: impl FnMut(T)) -> Result<(), Broken> {
        if !(self.first..=self.tried).contains(&received) {
            return Err(Broken);
        }
        self.forget(received, drop);
        self.posted = self.first;
        self.told = self.received;
        Ok(())
    }

    fn forget(&mut self, number: u64, mut drop: impl FnMut(T)) {
        while self.first < number
            && let Some(entry) = self.log.pop_front()
        {
            self.first += 1;
            if !entry.is_done {
                drop(entry.message);
            }
        }
        self.posted = self.posted.max(self.first);
    }
}

impl<T> Default for Session<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// So many messages are received before the other daemon is told.
const OFTEN: u64 = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One direction between two daemons, and what its queue pair carries.
    #[derive(Default)]
    struct Direction {
        sender: Session<u32>,
        reader: Session<u32>,
        on_its_way: VecDeque<(u64, u32)>,
        acknowledgments: VecDeque<u32>,
        done: Vec<u32>,
        received: Vec<u32>,
        pushed: u32,
    }

    impl Direction {
        fn step(&mut self, step: u8) {
            match step % 8 {
                0 | 1 => {
                    self.sender.push(self.pushed);
                    self.pushed += 1;
                }
                2 | 3 => {
                    let posted = self.sender.post().map(|(number, message)| (number, *message));
                    self.on_its_way.extend(posted);
                }
                4 => {
                    // A completion comes when the message has left, before it arrives or behind that.
                    let number = self.on_its_way.front().map(|(number, _)| *number);
                    let done = number.and_then(|number| self.sender.complete(number)).copied();
                    self.done.extend(done);
                }
                5 | 6 => {
                    if let Some((_, message)) = self.on_its_way.pop_front() {
                        self.reader.receive();
                        self.received.push(message);
                        self.acknowledgments.extend(self.reader.acknowledgment(step == 6));
                    }
                }
                _ => {
                    if let Some(low) = self.acknowledgments.pop_front() {
                        let done = &mut self.done;
                        self.sender.acknowledge(low, |message| done.push(message)).unwrap();
                    }
                }
            }
        }

        fn lose(&mut self) {
            self.on_its_way.clear();
            self.acknowledgments.clear();
            let done = &mut self.done;
            self.sender.resume(self.reader.received(), |message| done.push(message)).unwrap();
        }
    }

    proptest! {
        /// Steps in runs, so that there are enough messages for acknowledgments.
        #[test]
        fn nothing_is_lost_or_received_twice(
            runs in proptest::collection::vec((any::<u8>(), 1..700_u32, any::<bool>()), 1..40),
        ) {
            let mut direction = Direction::default();
            for (step, times, is_lost) in runs {
                (0..times).for_each(|_| direction.step(step));
                if is_lost {
                    direction.lose();
                }
            }
            direction.lose();
            while !direction.sender.is_posted() || !direction.on_its_way.is_empty() {
                [2, 5].into_iter().for_each(|step| direction.step(step));
            }
            direction.lose();
            prop_assert!(direction.sender.is_empty());
            let all: Vec<u32> = (0..direction.pushed).collect();
            prop_assert_eq!(&direction.received, &all);
            direction.done.sort_unstable();
            prop_assert_eq!(&direction.done, &all, "each is done once");
        }
    }

    #[test]
    fn a_daemon_that_tells_of_what_was_never_sent_is_refused() {
        let mut session = Session::new();
        (0..3).for_each(|message| session.push(message));
        session.post();
        session.post();
        assert_eq!(session.clone().acknowledge(3, |_| ()), Err(Broken));
        assert_eq!(session.clone().resume(3, |_| ()), Err(Broken));
        session.acknowledge(1, |_| ()).unwrap();
        assert_eq!(session.clone().acknowledge(0, |_| ()), Err(Broken), "it goes back");
        assert_eq!(session.clone().resume(0, |_| ()), Err(Broken));
        assert_eq!(session.resume(2, |_| ()), Ok(()));
        assert_eq!((session.len(), session.post()), (1, Some((2, &2))));
    }
}
