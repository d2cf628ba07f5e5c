//! Limits on how often something is done.

use crate::Micros;

/// Allows something so many times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    per_second: u16,
    used: u16,
    /// When the second began.
    since: Micros,
}

impl RateLimit {
    /// Returns a limit with nothing used.
    pub const fn new(per_second: u16) -> Self {
        Self { per_second, used: 0, since: Micros(0) }
    }

    /// Whether it is allowed once more. It counts then.
    pub fn allows(&mut self, now: Micros) -> bool {
        if now.since(self.since) >= Micros::from_secs(1) {
            (self.since, self.used) = (now, 0);
        }
        let is_allowed = self.used < self.per_second;
        self.used += u16::from(is_allowed);
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_second_allows_as_many_again() {
        let mut limit = RateLimit::new(2);
        let at = |millis| Micros::from_millis(millis);
        let results = [5000, 5500, 5999, 6000, 6500, 6999].map(|millis| limit.allows(at(millis)));
        assert_eq!(results, [true, true, false, true, true, false]);
        assert!(limit.allows(at(9000)));
    }
}
