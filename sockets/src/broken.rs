//! A peer that broke a rule of the link.

/// The peer wrote something into the link that no working peer writes. Its connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl core::fmt::Display for Broken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the peer wrote words into the shared memory that break its rules")
    }
}

impl core::error::Error for Broken {}
