//! What reads may find: the history of each word is linearizable.
//!
//! A word has one writer, and its values only grow. So a read has to find at least what was acknowledged, or read, before it
//! began, and at most what was begun before it ended. A read ends when all replicas have answered. It has the least of what
//! they hold, since values below that are gone at each of them.

/// The words, and what is known of each.
#[derive(Debug)]
pub(super) struct History(Vec<Word>);

#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// The last value of which a write was begun.
    begun: u64,
    /// The largest value that was acknowledged, and so was flushed.
    acknowledged: u64,
    /// The largest value that was acknowledged or read.
    known: u64,
}

impl History {
    pub(super) fn new(words: usize) -> Self {
        Self(vec![Word::default(); words])
    }

    /// Returns the value of the next write.
    pub(super) fn begin_write(&mut self, word: usize) -> u64 {
        self.0[word].begun += 1;
        self.0[word].begun
    }

    pub(super) fn end_write(&mut self, word: usize, value: u64) {
        let word = &mut self.0[word];
        word.acknowledged = word.acknowledged.max(value);
        word.known = word.known.max(value);
    }

    /// Returns what a read has to find at least that begins now.
    pub(super) fn begin_read(&self, word: usize) -> u64 {
        self.0[word].known
    }

    pub(super) fn end_read(&mut self, word: usize, least: u64, value: u64) -> Result<(), String> {
        let Word { begun, .. } = self.0[word];
        if value < least || value > begun {
            return Err(format!("word {word} has {value}: {least} was known, and {begun} is the last one"));
        }
        self.0[word].known = self.0[word].known.max(value);
        Ok(())
    }

    /// The group goes on with what was flushed. Reads may have found more.
    pub(super) fn restore(&mut self) {
        for word in &mut self.0 {
            word.known = word.acknowledged;
        }
    }

    /// Checks the words of a member.
    pub(super) fn check(&self, words: &[u64]) -> Result<(), String> {
        for (number, (word, found)) in self.0.iter().zip(words).enumerate() {
            if *found < word.known || *found > word.begun {
                return Err(format!("word {number} is {found} in memory: {word:?}"));
            }
        }
        Ok(())
    }
}
