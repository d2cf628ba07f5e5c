//! Private data of all lengths, in both directions.

use weft_rnic::{CmEvent, ConnParam, ConnectFailure};

use crate::bench::{Bench, Role};
use crate::cases::exchange::check_health;
use crate::meeting::{Plan, Table, explain};
use crate::pattern::{Kind, Pattern, Side};
use crate::verbs::text;

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let table = Table::lay(bench, |_| {})?;
    for (given, returned) in LENGTHS {
        let plan = Plan {
            command: format!("private -g {given} -e {returned}"),
            memory: 1 << 16,
            private_data: Pattern::new(Side::Host, Kind::Private, 0, 0).octets(returned),
        };
        let mut meeting = table.meet(&plan)?;
        check(&meeting.private_data, given).map_err(|error| explain(&error, &meeting.job))?;
        meeting.greet(bench.role)?;
        meeting.end(bench.role)?;
    }
    table.host.close()?;
    if bench.role == Role::Active {
        return Ok(());
    }
    let table = Table::lay_unchecked(bench)?;
    give_too_much(&table)?;
    check_health(&table)?;
    table.host.close()
}

/// RFC 6581 leaves room for 508 octets, but siw closes on a Request with more than 252. A Reply with more crashes its
/// kernel, so that the other direction is not tried.
fn give_too_much(table: &Table<'_>) -> Result<(), String> {
    let (_job, address) = table.start_listening("private")?;
    let link = table.host.link(&table.host.events()?, 64)?;
    let private_data = &Pattern::new(Side::Host, Kind::Private, 0, 0).octets(508);
    let param = ConnParam { private_data, ..ConnParam::default() };
    table.host.device.connect(&link.events, &link.qp, address, param).map_err(text)?;
    match link.next_event()? {
        CmEvent::ConnectError { reason: ConnectFailure::Closed, .. } => Ok(()),
        other => Err(format!("with 508 octets: {other:?}")),
    }
}

/// Checks that these are the octets that `peer` gives.
pub(crate) fn check(octets: &[u8], len: usize) -> Result<(), String> {
    if octets.len() != len {
        return Err(format!("{} octets of private data instead of {len}", octets.len()));
    }
    Pattern::new(Side::Guest, Kind::Private, 0, 0).check(octets, "private data")
}

/// The octets that the guest gives and that the host gives. siw counts its own, with the 4 octets of IRD and ORD, in
/// one octet.
pub(crate) const LENGTHS: [(usize, usize); 3] = [(0, 0), (1, 1), (251, 252)];
