//! What the device looks like to programs: an RNIC, or a channel adapter with RoCE v2.

/// What the device looks like to programs. What it sends is iWARP in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Personality {
    /// An RNIC, whose queue pairs are connected by connection management.
    Iwarp,
    /// A channel adapter with RoCE v2, whose queue pairs programs may connect by themselves (`roce`).
    Roce,
}

impl Personality {
    /// What the variable says of it; what makes no sense is told when the device is opened.
    pub(crate) fn read(value: Option<&str>) -> Result<Self, String> {
        match value {
            None | Some("iwarp") => Ok(Self::Iwarp),
            Some("roce") => Ok(Self::Roce),
            Some(other) => Err(format!("WEFT_PERSONALITY: {other} is neither iwarp nor roce")),
        }
    }

    /// That of this process.
    pub(crate) fn of_process() -> Self {
        Self::read(std::env::var("WEFT_PERSONALITY").ok().as_deref()).unwrap_or(Self::Iwarp)
    }
}
