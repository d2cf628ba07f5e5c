//! Octets one way. As many are under way as the buffers take.

use super::Ends;
use crate::case::{Effort, Sample, Side, Trouble};
use crate::octets::{compare, pattern, round_len};
use crate::setting::Setting;
use crate::watch::Watch;

/// The pieces of a stream: how they are counted and handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    /// Octets of one piece, which counts as one transfer.
    pub(crate) size: usize,
    /// Octets in it that count as user data.
    pub(crate) user: usize,
    /// Octets that are handed over before both ends have a turn.
    pub(crate) at_once: usize,
    /// Transfers of a round; 0 for the usual number.
    pub(crate) round: usize,
}

impl Pieces {
    /// Returns transfers of `size` octets that keep the socket buffer full.
    pub(crate) const fn new(size: usize) -> Self {
        Self { size, user: size, at_once: usize::MAX, round: 0 }
    }
}

/// A stream from the near end to the far one, in pieces that are counted as transfers.
pub(crate) struct Stream {
    ends: Ends,
    pieces: Pieces,
    sent: Vec<u8>,
    came: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(setting: &Setting, pieces: Pieces) -> Result<Self, Trouble> {
        let round = if pieces.round == 0 { round_len(pieces.user) } else { pieces.round };
        let octets = round * pieces.size;
        let (sent, came) = (pattern(octets), vec![0; octets]);
        Ok(Self { ends: Ends::new(setting)?, pieces, sent, came })
    }

    fn round(&mut self) -> Result<(), Trouble> {
        let Self { ends, sent, came, pieces } = self;
        let (mut out, mut back) = (0_usize, 0_usize);
        while back < came.len() {
            let end = sent.len().min(out.saturating_add(pieces.at_once));
            out = ends.near.send(&sent[..end], out)?;
            ends.poll();
            back = ends.far.receive(came, back)?;
        }
        Ok(())
    }
}

impl Side for Stream {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        while watch.goes_on() {
            self.came.fill(0);
            watch.time(|| self.round())?;
            compare(&self.came, &self.sent)?;
            let pieces = (self.sent.len() / self.pieces.size) as u64;
            watch.count(pieces, pieces * self.pieces.user as u64, pieces);
        }
        Ok(watch.finish())
    }
}
