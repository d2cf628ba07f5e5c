//! Which replicas a command talks to, and how.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_group::{Key, Member, Options};
use weft_rnic::Device;

use super::ground::GroundArgs;
use crate::failure::Failure;
use crate::usage::number;

/// The replicas of a group.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MembersArgs {
    /// The replicas, the head of the chain first
    #[arg(long, value_name = "ADDR:PORT[,...]", required = true, value_delimiter = ',', value_parser = address)]
    members: Vec<SocketAddr>,
    /// A file with the group's key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Seconds for which a replica is waited for
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=3600))]
    timeout: u32,
    /// Print the result as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    ground: GroundArgs,
}

impl MembersArgs {
    /// Returns the replicas.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.members.iter().map(|address| (*address).into()).collect()
    }

    /// Returns the options that are the same for all commands.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let twice =
            (1..self.members.len()).find(|index| self.members[..*index].contains(&self.members[*index]));
        if let Some(index) = twice {
            let address = self.members[index];
            return Err(Failure::usage(format!(
                "--members: {address} is named twice: each replica is another server"
            )));
        }
        let key = self.key.as_deref().map(read_key).transpose()?;
        Ok(Options { key, timeout: self.timeout(), ..Options::default() })
    }

    pub(crate) fn open(&self) -> Result<Device, Failure> {
        self.ground.open(self.timeout())
    }

    /// Returns for how many seconds a replica is waited for.
    pub(crate) const fn seconds(&self) -> u32 {
        self.timeout
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }
}

/// Reads the file of `--key`.
pub(crate) fn read_key(file: &Path) -> Result<Key, Failure> {
    Key::read(file).map_err(|error| Failure::usage(format!("--key: {}: {error}", file.display())))
}

/// Reads an address with a port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no address with a port, as 10.0.0.1:7471 and [fd00::1]:7471 are"))
}
