//! What a world hands back.

use super::tally::Tally;

/// What came of a run in one of the worlds that are not of engines alone.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) result: Result<(), String>,
    pub(crate) hash: u64,
    pub(crate) tally: Tally,
    pub(crate) lines: Vec<String>,
}
