//! Fuzz input, taken from the front. At its end all numbers are zero and all runs of octets empty.

#[derive(Debug)]
pub(super) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) const fn octet(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((&octet, rest)) => {
                self.rest = rest;
                octet
            }
            None => 0,
        }
    }

    pub(super) fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.octet(), self.octet()])
    }

    pub(super) fn double(&mut self) -> u32 {
        u32::from(self.word()) << 16 | u32::from(self.word())
    }

    pub(super) fn quad(&mut self) -> u64 {
        u64::from(self.double()) << 32 | u64::from(self.double())
    }

    /// Takes up to `len` octets, fewer at the end.
    pub(super) fn octets(&mut self, len: usize) -> &'a [u8] {
        let (octets, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        octets
    }

    /// Takes octets with their length before them.
    pub(super) fn run(&mut self) -> &'a [u8] {
        let len = usize::from(self.word());
        self.octets(len)
    }
}
