//! Buffers for FPDUs that arrive in parts, lent to the streams that need one.

use weft_mpa::STAGING_LEN;

use crate::stream::segments::Segments;

/// The buffers that nobody uses at the moment. A stream that waits between two FPDUs has none, so that an idle
/// connection does not keep 64 KiB for the next one that comes in parts.
#[derive(Debug, Default)]
pub(crate) struct StagingPool {
    free: Vec<Box<[u8]>>,
}

impl StagingPool {
    /// Gives the stream a buffer, unless it still has one.
    pub(crate) fn lend(&mut self, segments: &mut Segments) {
        if let Some(staging) = segments.staging_mut() {
            *staging = self.free.pop().unwrap_or_else(|| vec![0; STAGING_LEN].into_boxed_slice());
        }
    }

    /// Takes the buffer back, unless part of an FPDU is in it.
    pub(crate) fn take_back(&mut self, segments: &mut Segments) {
        if let Some(staging) = segments.staging_mut().map(core::mem::take)
            && self.free.len() < MAX_FREE
        {
            self.free.push(staging);
        }
    }
}

/// More than ever go back and forth between two polls; what many parts at once have taken is given up again.
const MAX_FREE: usize = 16;
