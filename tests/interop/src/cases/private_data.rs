//! Private data of all lengths, in both directions.

use crate::cases::Bench;
use crate::meeting::{Plan, Table, explain};
use crate::pattern::{Kind, Pattern, Side};

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
    table.host.close()
}

/// Whether these are the octets that `peer` gives.
pub(crate) fn check(octets: &[u8], len: usize) -> Result<(), String> {
    if octets.len() != len {
        return Err(format!("{} octets of private data instead of {len}", octets.len()));
    }
    Pattern::new(Side::Guest, Kind::Private, 0, 0).check(octets, "private data")
}

/// Octets that the guest gives and that the host gives. RFC 6581 leaves room for 508, siw for less: it counts its own, with
/// the 4 octets of IRD and ORD, in one octet, and takes 256 with those 4.
pub(crate) const LENGTHS: [(usize, usize); 3] = [(0, 0), (1, 1), (251, 252)];
