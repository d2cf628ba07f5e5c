//! What each direction of a connection has to be: the reader gets a prefix of what was written, each octet once.

/// A direction. Several senders may share it: each octet tells which one sent it, and the number of its octet.
#[derive(Debug)]
pub(crate) struct Direction {
    salt: u8,
    /// Octets that calls have taken, by sender.
    pub(crate) sent: [u64; SENDERS],
    /// As `sent`, with those of the call that goes on.
    attempted: [u64; SENDERS],
    received: [u64; SENDERS],
    /// Octets that a killed reader may have taken along.
    missing: u64,
    /// When octets were last put into the ring, and when room came.
    pub(crate) put_at: u64,
    pub(crate) room_at: u64,
}

impl Direction {
    pub(crate) const fn new(salt: u8) -> Self {
        Self {
            salt,
            sent: [0; SENDERS],
            attempted: [0; SENDERS],
            received: [0; SENDERS],
            missing: 0,
            put_at: 0,
            room_at: 0,
        }
    }

    /// Returns the next octets of a sender, which is about to send them.
    pub(crate) fn next(&mut self, sender: usize, len: usize) -> Vec<u8> {
        let begin = self.sent[sender];
        self.attempted[sender] = begin + len as u64;
        (begin..self.attempted[sender]).map(|number| self.octet(sender, number)).collect()
    }

    /// A reader has taken octets. They have to be those that come next.
    pub(crate) fn take(&mut self, octets: &[u8]) -> Result<(), String> {
        for octet in octets {
            let name = octet ^ self.salt;
            let sender = usize::from(name / MODULUS);
            let number = u64::from(name % MODULUS);
            if sender >= SENDERS {
                return Err(format!("an octet of another stream: {octet:#x}"));
            }
            let skipped = (number + u64::from(MODULUS) - self.received[sender] % u64::from(MODULUS))
                % u64::from(MODULUS);
            if skipped > self.missing || self.received[sender] + skipped >= self.attempted[sender] {
                return Err(format!(
                    "octet {} of sender {sender} comes where {} is due, of {}",
                    number,
                    self.received[sender] % u64::from(MODULUS),
                    self.attempted[sender]
                ));
            }
            self.missing -= skipped;
            self.received[sender] += skipped + 1;
        }
        Ok(())
    }

    /// A reader was killed in a call for so many octets.
    pub(crate) const fn excuse(&mut self, octets: u64) {
        self.missing += octets;
    }

    /// True if all octets were received.
    pub(crate) fn is_whole(&self) -> bool {
        self.sent.iter().zip(self.received).all(|(sent, received)| *sent <= received + self.missing)
    }

    pub(crate) fn sums(&self) -> (u64, u64) {
        (self.sent.iter().sum(), self.received.iter().sum())
    }

    fn octet(&self, sender: usize, number: u64) -> u8 {
        let name = sender as u64 * u64::from(MODULUS) + number % u64::from(MODULUS);
        u8::try_from(name).unwrap_or(u8::MAX) ^ self.salt
    }
}

/// Octets come again behind so many of a sender: no size of a ring is a multiple.
const MODULUS: u8 = 61;
/// A process and its children.
pub(crate) const SENDERS: usize = 4;
