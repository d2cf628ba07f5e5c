//! The memory of a link in a model of loom's, whose atomics are values that it has to make.

#![allow(unnameable_types, unreachable_pub, reason = "they stand for public types")]

use crate::layout::Channel;
use crate::leg::RingPlace;
use crate::sync::{AtomicU8, Ordering};

/// A link of one channel and two small rings.
#[derive(Debug)]
pub struct Link {
    // A model's threads have small stacks.
    channel: Box<Channel>,
    rings: [[AtomicU8; 4]; 2],
}

/// The octets of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Octets<'a>(&'a [AtomicU8]);

impl Link {
    pub(crate) fn new() -> Self {
        Self { channel: Box::default(), rings: Default::default() }
    }

    pub(crate) fn channel(&self, channel: u32) -> Option<&Channel> {
        (channel == 0).then_some(&self.channel)
    }

    pub(crate) fn ring(&self, place: RingPlace) -> Octets<'_> {
        Octets(&self.rings[place.unit as usize % 2])
    }
}

impl Octets<'_> {
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn write(&self, at: usize, octets: &[u8]) -> bool {
        for (to, from) in self.0[at..].iter().zip(octets) {
            to.store(*from, Ordering::Relaxed);
        }
        true
    }

    pub(crate) fn read(&self, at: usize, octets: &mut [u8]) -> bool {
        for (to, from) in octets.iter_mut().zip(&self.0[at..]) {
            *to = from.load(Ordering::Relaxed);
        }
        true
    }
}
