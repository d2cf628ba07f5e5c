//! Which replicas a command talks to, and how.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_group::{Key, Member, Membership, MembershipError, Options, register};
use weft_rnic::Device;

use crate::failure::Failure;
use crate::ground::GroundArgs;
use crate::usage::number;

/// How replicas are reached.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReachArgs {
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

/// The replicas of a group.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MembersArgs {
    /// The replicas, the head of the chain first
    #[arg(
        long,
        value_name = "ADDR:PORT[,...]",
        required_unless_present = "register",
        conflicts_with = "register"
    )]
    #[arg(value_delimiter = ',', value_parser = address)]
    members: Vec<SocketAddr>,
    /// The register that has the members: a file, or etcd://HOST:PORT[,HOST:PORT]/KEY
    #[arg(long, value_name = "FILE|etcd://…", value_parser = register_name)]
    pub(crate) register: Option<String>,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

impl MembersArgs {
    /// Returns the replicas of `--members`.
    pub(crate) fn named(&self) -> Result<Vec<Member>, Failure> {
        let twice =
            (1..self.members.len()).find(|index| self.members[..*index].contains(&self.members[*index]));
        if let Some(index) = twice {
            let address = self.members[index];
            return Err(Failure::usage(format!(
                "--members: {address} is named twice: each replica is another server"
            )));
        }
        Ok(self.members.iter().map(|address| (*address).into()).collect())
    }
}

impl ReachArgs {
    /// Returns the options that are the same for all commands.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
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

    /// Opens a register. etcd is waited for as long as a replica is.
    pub(crate) fn register(&self, name: &str) -> Result<Box<dyn Membership + Send>, Failure> {
        register(name, self.timeout()).map_err(Failure::usage)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }
}

/// Reads the file of `--key`.
pub(crate) fn read_key(file: &Path) -> Result<Key, Failure> {
    Key::read(file).map_err(|error| Failure::usage(format!("--key: {}: {error}", file.display())))
}

/// Reads the name of a register.
pub(crate) fn register_name(text: &str) -> Result<String, MembershipError> {
    register(text, Duration::ZERO).map(|_| text.to_owned())
}

/// Reads an address with a port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no address with a port, as 10.0.0.1:7471 and [fd00::1]:7471 are"))
}
