//! The kind of device that programs see: an RNIC, or a channel adapter with RoCE v2.

/// The kind of device that programs see. It sends iWARP in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Personality {
    /// An RNIC. Connection management connects its queue pairs.
    Iwarp,
    /// A channel adapter with RoCE v2. Programs may connect its queue pairs themselves (`roce`).
    Roce,
}

impl Personality {
    /// Reads the variable's value.
    ///
    /// # Errors
    /// A line that names the valid values.
    pub(crate) fn read(value: Option<&str>) -> Result<Self, String> {
        match value {
            None | Some("iwarp") => Ok(Self::Iwarp),
            Some("roce") => Ok(Self::Roce),
            Some(other) => Err(format!("WEFT_PERSONALITY: {other} is neither iwarp nor roce")),
        }
    }

    /// Returns the personality of this process, the first one if the variable is wrong. Opening the device reports that
    /// error.
    pub(crate) fn of_process() -> Self {
        Self::read(std::env::var("WEFT_PERSONALITY").ok().as_deref()).unwrap_or(Self::Iwarp)
    }
}
