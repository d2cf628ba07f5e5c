//! `weft group create`: a group in a register, and its first epoch.

use clap::Parser;
use weft_group::{Coordinator, Host, Record, Wish};

use super::client::Shape;
use super::members::{ReachArgs, register_name};
use super::repair::{change, host, told};
use crate::failure::Failure;

/// Make a group of replicas that run: write its record to a register, and begin its first epoch.
///
/// A register tells all clients the same members. It is a file, for replicas of one host, or a key of etcd. All replicas
/// have memory of the same size. The first one gives its octets to the others.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "Examples:
  weft group create --register /var/lib/weft/orders 127.0.0.1:7471 127.0.0.1:7472 127.0.0.1:7473
  weft group create --register etcd://10.0.0.9:2379/weft/orders 10.0.0.1:7471 10.0.0.2:7471 --spare 10.0.0.3:7471")]
pub(super) struct Args {
    /// Where the record goes: a file, or etcd://HOST:PORT[,HOST:PORT]/KEY
    #[arg(long, value_name = "FILE|etcd://…", value_parser = register_name)]
    register: String,
    /// The members, the head of the chain first
    #[arg(required = true, value_name = "HOST:PORT")]
    members: Vec<String>,
    /// A replica that takes the place of a member that fails; may be given again
    #[arg(long, value_name = "HOST:PORT")]
    spare: Vec<String>,
    /// How the replicas hang together
    #[arg(long, value_enum, default_value_t = Shape::Chain)]
    topology: Shape,
    /// The group's name
    #[arg(long, value_name = "NAME", default_value = "weft")]
    name: String,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Makes a group.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (options, membership) = (args.reach.options()?, args.reach.register(&args.register)?);
    let hosts: Vec<Host> = args.members.iter().chain(&args.spare).map(|addr| host(addr)).collect();
    let device = args.reach.open()?;
    let coordinator = Coordinator::new(&device, &*membership, &options);
    let mut size = None;
    for host in &hosts {
        let state = coordinator.status(host).map_err(|error| Failure::work(error).of(&host.addr))?;
        let first = *size.get_or_insert(state.size);
        if state.size != first {
            return Err(Failure::usage(format!(
                "{} has {} octets, and {} has {first}: all replicas have the same size",
                host.addr, state.size, hosts[0].addr
            )));
        }
    }
    let shape = (args.topology.into(), size.unwrap_or_default());
    let record = Record::found(&args.name, hosts, args.members.len(), shape);
    record.check().map_err(Failure::usage)?;
    let made = membership.swap(None, &record).map_err(|error| Failure::work(error).of(&args.register))?;
    if !made {
        return Err(Failure::work(format!(
            "{}: there is a group already: `weft group status` shows it",
            args.register
        )));
    }
    let begun = change(&coordinator, Wish { from: Some(0), is_from_storage: false });
    let record = begun.map_err(|error| {
        Failure::work(format!(
            "the record is made, but no epoch has begun (`weft group repair` tries again): {error}"
        ))
    })?;
    told(&record, args.reach.json)
}
