//! Either side rejects with private data, and the other one gets the data.

use weft_rnic::{CmEvent, ConnParam};

use crate::bench::{Bench, Role};
use crate::cases::exchange::check_health;
use crate::cases::private_data::{LENGTHS, check};
use crate::meeting::{Table, explain, finish, next_request};
use crate::pattern::{Kind, Pattern, Side};
use crate::verbs::text;

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let table = Table::lay(bench, |_| {})?;
    for (given, returned) in LENGTHS {
        match bench.role {
            Role::Passive => be_rejected(&table, given)?,
            Role::Active => reject(&table, returned)?,
        }
    }
    check_health(&table)?;
    table.host.close()
}

fn be_rejected(table: &Table<'_>, len: usize) -> Result<(), String> {
    let (job, address) = table.start_listening(&format!("reject -g {len}"))?;
    let link = table.host.link(&table.host.events()?, 64)?;
    let device = &table.host.device;
    device.connect(&link.events, &link.qp, address, ConnParam::default()).map_err(text)?;
    match link.next_event() {
        Ok(CmEvent::Rejected { private_data, .. }) => {
            check(&private_data, len).map_err(|error| explain(&error, &job))?;
        }
        other => return Err(explain(&format!("instead of a rejection: {other:?}"), &job)),
    }
    finish(&job)
}

fn reject(table: &Table<'_>, len: usize) -> Result<(), String> {
    let events = table.host.events()?;
    let (job, _listener) = table.start_connecting(&format!("reject -e {len}"), &events)?;
    let request = next_request(&events).map_err(|error| explain(&error, &job))?;
    let octets = Pattern::new(Side::Host, Kind::Private, 0, 0).octets(len);
    table.host.device.reject(request.id, &octets).map_err(text)?;
    finish(&job)
}
