//! How the rules are broken. The tests do it from outside: they change what an end hears, or what it has remembered.

/// A rule that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The first advert of an epoch is taken whatever its position.
    FirstWithoutPosition,
    /// The first advert of an epoch does not say that the ring is empty.
    FirstFreesNothing,
    /// The first advert of an epoch does not end a hold.
    FirstEndsNoHold,
    /// Adverts of an epoch that was dropped are taken.
    AnyEpoch,
    /// Each DATA uses its advert up.
    AlwaysLast,
    /// The epoch goes on when octets go through the ring.
    EpochBesideRing,
    /// The sender takes an octet of the ring that is not free.
    RingBeyondFree,
    /// FREE does not end a hold.
    FreeEndsNoHold,
    /// REVOKE has no answer.
    NoAnswer,
    /// REVOKE leaves the adverts.
    RevokeWithoutEffect,
    /// Windows of adverts that are void stay in use.
    VoidInUse,
    /// The advert behind octets of the ring does not begin an epoch.
    NoNewEpoch,
    /// Receives are advertised while REVOKE has no answer.
    AdvertBeforeAnswer,
    /// More receives are advertised than the sender stores.
    TooManyAdverts,
    /// The receiver frees nothing.
    NoFree,
    /// The receiver frees nothing behind a hold.
    NoFreeBehindHold,
    /// The first advert of an epoch counts as FREE.
    FirstCountsAsFree,
    /// A canceled receive leaves while it is advertised.
    CancelWithoutRevoke,
}

impl Broken {
    pub(super) const ALL: [Self; 18] = [
        Self::FirstWithoutPosition,
        Self::FirstFreesNothing,
        Self::FirstEndsNoHold,
        Self::AnyEpoch,
        Self::AlwaysLast,
        Self::EpochBesideRing,
        Self::RingBeyondFree,
        Self::FreeEndsNoHold,
        Self::NoAnswer,
        Self::RevokeWithoutEffect,
        Self::VoidInUse,
        Self::NoNewEpoch,
        Self::AdvertBeforeAnswer,
        Self::TooManyAdverts,
        Self::NoFree,
        Self::NoFreeBehindHold,
        Self::FirstCountsAsFree,
        Self::CancelWithoutRevoke,
    ];
}
