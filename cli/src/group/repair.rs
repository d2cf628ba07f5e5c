//! `weft group repair`: another epoch, with members that answer.

use std::io::Write;
use std::sync::Arc;

use clap::Parser;
use serde_json::json;
use weft_group::{Ask, ChangeError, Coordinator, Host, Membership, Record, RepairError, Report, Wish};

use super::members::{ReachArgs, register_name};
use super::status::line;
use crate::failure::Failure;
use crate::progress::Progress;

/// Begin a new epoch: members that do not answer leave, spares take their place and get all octets.
///
/// Every session of the epoch before ends. If all members are there nothing is done, unless --force asks for it.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "Examples:
  weft group repair --register /var/lib/weft/orders
  weft group repair --register etcd://10.0.0.9:2379/weft/orders --spare 10.0.0.4:7471
  weft group repair --register etcd://10.0.0.9:2379/weft/orders --from-storage")]
pub(super) struct Args {
    /// The register of the group: a file, or etcd://HOST:PORT[,HOST:PORT]/KEY
    #[arg(long, value_name = "FILE|etcd://…", value_parser = register_name)]
    register: String,
    /// Another spare, from now on; may be given again
    #[arg(long, value_name = "HOST:PORT")]
    spare: Vec<String>,
    /// A spare that is one no more; may be given again
    #[arg(long, value_name = "HOST:PORT")]
    forget: Vec<String>,
    /// All members have restarted: go on with what one of them has in its file. Octets that were not flushed are lost
    #[arg(long)]
    from_storage: bool,
    /// Begin an epoch though all members are there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Changes the epoch, if there is a reason to.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (options, membership) = (args.reach.options()?, args.reach.register(&args.register)?);
    let device = args.reach.open()?;
    let coordinator = Coordinator::new(&device, &*membership, &options);
    let of = |error| Failure::work(error).of(&args.register);
    let size = coordinator.record().map_err(of)?.size;
    for spare in &args.spare {
        check_spare(&coordinator, &host(spare), size)?;
    }
    change_spares(&*membership, args)?;
    let record = coordinator.record().map_err(of)?;
    if !args.force && answer(&coordinator, &record) {
        let is_spare = |spare: &Host| check_spare(&coordinator, spare, size).is_ok();
        let missing = record.replicas - record.members.len().min(record.replicas);
        if missing == 0 || !record.spares.iter().any(is_spare) {
            if missing > 0 {
                let words =
                    format!("{missing} of {} members are missing, and no spare answers", record.replicas);
                Failure::work(words).print("group repair");
            }
            return told(&record, args.reach.json);
        }
    }
    let begun = change(&coordinator, Wish { from: None, is_from_storage: args.from_storage });
    told(&*begun.map_err(|error| explain(&error))?, args.reach.json)
}

/// Changes the epoch, and shows a person what happens meanwhile.
pub(super) fn change(coordinator: &Coordinator<'_>, wish: Wish) -> Result<Arc<Record>, RepairError> {
    let mut witness = Witness { bar: None };
    let begun = coordinator.change(wish, |report| witness.see(report));
    witness.end();
    begun
}

/// Adds spares to the record, and takes some away.
fn change_spares(membership: &dyn Membership, args: &Args) -> Result<(), Failure> {
    let of = |error| Failure::work(error).of(&args.register);
    while !args.spare.is_empty() || !args.forget.is_empty() {
        let old = membership.record().map_err(of)?;
        let mut new = old.clone();
        if let Some(none) =
            args.forget.iter().find(|addr| !old.spares.iter().any(|spare| spare.addr == **addr))
        {
            return Err(Failure::usage(format!("--forget: {none} is no spare of the group")));
        }
        new.spares.retain(|spare| !args.forget.contains(&spare.addr));
        let is_known = |addr: &str| old.hosts().any(|host| host.addr == addr);
        new.spares.extend(args.spare.iter().filter(|addr| !is_known(addr)).map(|addr| host(addr)));
        new.check().map_err(Failure::usage)?;
        if old == new || membership.swap(Some(&old), &new).map_err(of)? {
            break;
        }
    }
    Ok(())
}

/// Checks that a spare answers and has as much memory as the members.
fn check_spare(coordinator: &Coordinator<'_>, spare: &Host, size: u64) -> Result<(), Failure> {
    let state = coordinator.status(spare).map_err(|error| Failure::work(error).of(&spare.addr))?;
    if state.size == size {
        return Ok(());
    }
    let words = format!("{} has {} octets, and the members have {size}", spare.addr, state.size);
    Err(Failure::usage(words))
}

/// Returns whether each member of the group is the one that the record means. There is one at least.
fn answer(coordinator: &Coordinator<'_>, record: &Record) -> bool {
    !record.members.is_empty()
        && record.members.iter().all(|seat| {
            coordinator
                .status(&seat.host)
                .is_ok_and(|state| (state.incarnation, state.sealed) == (seat.incarnation, record.epoch))
        })
}

fn explain(error: &RepairError) -> Failure {
    match error {
        RepairError::Change(ChangeError::NoSource { is_stored: true }) => Failure::work(
            "no member answers that has all acknowledged octets. One has in its file what was flushed: --from-storage goes on with that",
        ),
        error => Failure::work(error),
    }
}

/// Prints the record of an epoch.
pub(super) fn told(record: &Record, is_json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    let members: Vec<&str> = record.members.iter().map(|seat| seat.host.addr.as_str()).collect();
    let spares: Vec<&str> = record.spares.iter().map(|host| host.addr.as_str()).collect();
    if is_json {
        let (epoch, size) = (record.epoch, record.size);
        let line = json!({"epoch": epoch, "members": members, "spares": spares, "size": size});
        writeln!(out, "{line}")?;
        return Ok(());
    }
    writeln!(out, "{}", line(record))?;
    writeln!(out, "members: {}", members.join(" "))?;
    if !spares.is_empty() {
        writeln!(out, "spares: {}", spares.join(" "))?;
    }
    Ok(())
}

/// Returns a host that has its address as its name.
pub(super) fn host(addr: &str) -> Host {
    Host { id: addr.to_owned(), addr: addr.to_owned() }
}

/// Shows a person what happens in a change of epoch.
struct Witness {
    bar: Option<Progress>,
}

impl Witness {
    fn see(&mut self, report: &Report<'_>) {
        match report {
            Report::Asked(Ask::Copy { .. } | Ask::Flush { .. }) => {
                self.end();
                self.bar = Some(Progress::new(PARTS, "parts of a copy"));
            }
            Report::Asked(_) => self.end(),
            Report::Progress([done, all]) => {
                let part = done.saturating_mul(PARTS) / (*all).max(1);
                if let Some(bar) = &self.bar {
                    bar.reach(part);
                }
            }
            Report::Silent(host, reason) => {
                self.end();
                Failure::work(reason).of(&host.addr).print("group");
            }
            Report::Again(error) => {
                self.end();
                Failure::work(format!("{error}: it is tried again")).print("group");
            }
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish();
        }
    }
}

/// Parts of a copy in a progress bar.
const PARTS: u64 = 1000;
