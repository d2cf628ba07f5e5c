//! Keeps a member's state where it outlives the member's process.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::atomic::replace;
use crate::epoch::{MemberState, Refusal};
use crate::random::random;

/// A member's state, and where it is stored.
#[derive(Debug)]
pub struct Keeper {
    state: MemberState,
    /// `None`: it is lost with the process.
    store: Option<Box<dyn StateStore>>,
}

/// Where the state of a member outlives its process.
pub trait StateStore: core::fmt::Debug + Send {
    /// Replaces the stored state. It is durable when this returns.
    ///
    /// # Errors
    /// What the system says. Either state may be the stored one then.
    fn store(&self, state: &MemberState) -> io::Result<()>;
}

/// A file.
impl StateStore for PathBuf {
    fn store(&self, state: &MemberState) -> io::Result<()> {
        let value = json!({
            "incarnation": state.incarnation,
            "sealed": state.sealed,
            "served": state.served,
            "spoiled": state.is_spoiled,
        });
        replace(self, format!("{value}\n").as_bytes())
    }
}

/// Why a state has not changed.
#[derive(Debug)]
pub enum KeeperError {
    /// The member refuses.
    Refused(Refusal),
    /// The file cannot be read or written, or it holds something else.
    Io(io::Error),
}

impl Keeper {
    /// Keeps the state of a member whose memory is lost with its process.
    pub const fn volatile(incarnation: u64) -> Self {
        Self { state: MemberState::new(incarnation), store: None }
    }

    /// Keeps the state of a member that starts, in a file if its memory is stored. Draws its incarnation.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn start(path: Option<&Path>) -> io::Result<Self> {
        let incarnation = u64::from_ne_bytes(random()?);
        path.map_or_else(|| Ok(Self::volatile(incarnation)), |path| Self::open(path, incarnation))
    }

    /// Reads the state of a member that starts again with stored memory, or makes the file. The member goes on as
    /// `incarnation`, which the caller has drawn.
    ///
    /// # Errors
    /// Those of the system, and [`io::ErrorKind::InvalidData`] for a file that has something else.
    pub fn open(path: &Path, incarnation: u64) -> io::Result<Self> {
        let state = match File::open(path) {
            Ok(file) => {
                let mut text = String::new();
                file.take(LONGEST).read_to_string(&mut text)?;
                parse(&text).ok_or_else(|| {
                    let text = format!("{} is not the state of a member", path.display());
                    io::Error::new(io::ErrorKind::InvalidData, text)
                })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => MemberState::new(incarnation),
            Err(error) => return Err(error),
        };
        Self::restart(state, incarnation, Box::new(path.to_owned()))
    }

    /// Goes on with a state that was stored before, as `incarnation`.
    ///
    /// # Errors
    /// Those of the store.
    pub fn restart(mut state: MemberState, incarnation: u64, store: Box<dyn StateStore>) -> io::Result<Self> {
        state.restart(incarnation);
        store.store(&state)?;
        Ok(Self { state, store: Some(store) })
    }

    /// Changes the state. It is stored when this returns.
    ///
    /// # Errors
    /// [`KeeperError`]. Then the state is what it was, but the file may have the new one.
    pub fn change<T>(
        &mut self,
        change: impl FnOnce(&mut MemberState) -> Result<T, Refusal>,
    ) -> Result<T, KeeperError> {
        let mut state = self.state;
        let value = change(&mut state).map_err(KeeperError::Refused)?;
        if state != self.state {
            self.store(&state).map_err(KeeperError::Io)?;
            self.state = state;
        }
        Ok(value)
    }

    /// Notes that a flush has failed, and stores it.
    ///
    /// # Errors
    /// Those of the system. The member has noted it all the same, but the file has not. A server that goes on then would
    /// offer, after a power loss, what it has not got.
    pub fn spoil(&mut self, incarnation: u64) -> io::Result<()> {
        self.state.spoil(incarnation);
        self.store(&self.state)
    }

    /// Returns the state.
    pub const fn state(&self) -> &MemberState {
        &self.state
    }

    /// Returns true if all octets that were flushed are there after a restart.
    pub const fn is_stored(&self) -> bool {
        self.store.is_some() && !self.state.is_spoiled
    }

    fn store(&self, state: &MemberState) -> io::Result<()> {
        self.store.as_ref().map_or(Ok(()), |store| store.store(state))
    }
}

/// A file that is longer has something else.
const LONGEST: u64 = 4096;

fn parse(text: &str) -> Option<MemberState> {
    let value: Value = serde_json::from_str(text).ok()?;
    let number = |name| value.get(name).and_then(Value::as_u64);
    Some(MemberState {
        incarnation: number("incarnation")?,
        sealed: number("sealed")?,
        served: number("served")?,
        is_spoiled: value.get("spoiled")?.as_bool()?,
    })
    .filter(|state| state.served <= state.sealed)
}

impl std::fmt::Display for KeeperError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KeeperError {}
