//! Short texts that are made without allocation.

use core::fmt::Write;

/// A text of at most `LEN` octets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<const LEN: usize> {
    octets: [u8; LEN],
    len: usize,
}

impl<const LEN: usize> Line<LEN> {
    /// Makes an empty text.
    pub(crate) const fn new() -> Self {
        Self { octets: [0; LEN], len: 0 }
    }

    /// The octets written so far.
    pub(crate) fn octets(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

impl<const LEN: usize> Write for Line<LEN> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        self.octets.get_mut(self.len..end).ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
