//! A parked message: one that waits for a receive request (`rnr_wait`).
//!
//! Its first segment is taken out of the stream and kept here, accepted by MPA, DDP and RDMAP; nothing behind it is
//! taken, so that the peer's window closes and it has to wait too.

use weft_ddp::Segment;
use weft_rdmap::{Endpoint, Inbound, OutstandingRequest, PendingRequest};

use crate::failure::Failure;
use crate::stream::user::User;

/// RDMAP with as many Reads and Atomics as startup agreed on.
pub(crate) type Rdmap = Endpoint<Box<[OutstandingRequest]>, Box<[PendingRequest]>>;

/// The ULPDU of a Send or of Immediate Data, if one waits.
#[derive(Debug, Default)]
pub(crate) struct Parked(Option<Box<[u8]>>);

impl Parked {
    /// Keeps a segment that has to wait. Returns whether it has.
    #[inline]
    pub(crate) fn keep(&mut self, inbound: &Inbound<'_>, ulpdu: &[u8], user: &mut impl User) -> bool {
        let waits = inbound.takes_receive() && user.lacks_receive();
        if waits {
            self.0 = Some(ulpdu.into());
        }
        waits
    }

    /// Applies the parked segment if there is a receive request for it now.
    pub(crate) fn resume(&mut self, rdmap: &mut Rdmap, user: &mut impl User) -> Result<(), Failure> {
        if self.is_empty() || user.lacks_receive() {
            return Ok(());
        }
        let Some(ulpdu) = self.0.take() else { return Ok(()) };
        let refused = |error| Failure::peer(error, Some(&ulpdu));
        // DDP has counted the segment. RDMAP keeps no account of those that take a receive, so that it may see it
        // again.
        let segment = Segment::parse(&ulpdu).map_err(|error| refused(error.into()))?;
        let inbound = rdmap.accept(segment).map_err(refused)?;
        user.apply(inbound).map_err(|refusal| Failure::refused(refusal, Some(&ulpdu)))
    }

    /// With a ULPDU that waits.
    #[cfg(test)]
    pub(crate) fn with(ulpdu: &[u8]) -> Self {
        Self(Some(ulpdu.into()))
    }

    /// Whether nothing waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}
