//! One thread, one event channel, many connections: a server that accepts some clients and rejects others.
//!
//! The program waits on the channel only, whose file descriptor could be in a poll or epoll set of its own. Clients and
//! server share one manager and, in this demonstration, one channel.
//!
//! `cargo run -p weft-examples --example cm_event_loop`

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use weft_cm::{Cm, ConnParam, EventKind, Id};
use weft_rnic::{Config, Device, Progress, QpInit};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let (left, right) = weft_netif::pair(1500);
    let open = |wire, ip: &str, seed| -> Outcome<Device> {
        let config = Config { progress: Progress::Manual, ..Config::new(ip.parse()?, seed) };
        Ok(Device::open(wire, config)?)
    };
    let (client, server) = (open(left, "10.0.0.1/24", 1)?, open(right, "10.0.0.2/24", 2)?);
    let cm = Cm::new();
    cm.add(&client);
    cm.add(&server);
    let channel = cm.create_event_channel()?;
    let listener = cm.create_id(Some(&channel))?;
    listener.bind(server.address(0))?;
    listener.listen(CLIENTS)?;
    let address = listener.local_addr().ok_or("a listener has an address")?;

    let mut ids = HashMap::new();
    for _ in 0..CLIENTS {
        let id = cm.create_id(Some(&channel))?;
        id.resolve_addr(Some(client.address(0)), address, PATIENCE)?;
        ids.insert(id.number(), id);
    }
    let (mut welcomed, mut refused, mut ended) = (0, 0, 0);
    while ended + refused < CLIENTS {
        let mut event = channel.wait(Some(PATIENCE)).ok_or("nothing happens")?;
        let requested = event.take_id();
        let Some(id) = requested.as_ref().or_else(|| ids.get(&event.id())) else { continue };
        match event.kind() {
            EventKind::AddrResolved => id.resolve_route(PATIENCE)?,
            EventKind::RouteResolved => {
                equip(id, &client)?;
                // The id is the number of the client.
                id.connect(&ConnParam { private_data: &id.number().to_be_bytes(), ..ConnParam::default() })?;
            }
            EventKind::ConnectRequest if event.private_data().last().is_some_and(|last| last % 2 == 0) => {
                equip(id, &server)?;
                id.accept(&ConnParam::default())?;
            }
            EventKind::ConnectRequest => id.reject(b"odd numbers are not served here")?,
            EventKind::Established => {
                welcomed += 1;
                id.disconnect()?;
            }
            EventKind::Rejected => {
                refused += 1;
                println!("client {}: {}", event.id(), String::from_utf8_lossy(event.private_data()));
            }
            // Both ends of a connection hear of its end. The client's ends are counted here.
            EventKind::Disconnected
                if id.device().is_some_and(|device| device.address(0) == client.address(0)) =>
            {
                ended += 1;
            }
            EventKind::Disconnected => {}
            other => return Err(format!("client {}: {other}", event.id()).into()),
        }
        if let Some(id) = requested {
            ids.insert(id.number(), id);
        }
    }
    println!("{ended} clients served ({welcomed} ends of connections), {refused} turned away");
    if ended == CLIENTS / 2 { Ok(()) } else { Err("half of the clients should have been served".into()) }
}

/// Makes a queue pair for an id.
fn equip(id: &Id, device: &Device) -> Outcome {
    let cq = device.create_cq(16, None)?;
    id.create_qp(&device.alloc_pd(), &QpInit::new(&cq, &cq))?;
    Ok(())
}

const CLIENTS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(30);
