//! Ping-pongs on 64 connections at once: all are established before the first ping, and none ends before the last pong.

use weft_rnic::{Access, CmEvent, ConnParam, DisconnectReason, EventChannel, Mr, SendOpcode, Status};

use crate::bench::{Bench, Role};
use crate::job::Job;
use crate::meeting::{Table, await_guest, explain, finish};
use crate::pattern::{Kind, Pattern, Side};
use crate::verbs::{Host, Link, PATIENCE, is_receive, text};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let table = Table::lay(bench, |_| {})?;
    let events = table.host.events()?;
    let command = format!("many -C {ROUNDS} -S {CONNECTIONS}");
    let (job, crowd) = match bench.role {
        Role::Passive => call(&table, &command, &events)?,
        Role::Active => answer(&table, &command, &events)?,
    };
    let rounds = (0..ROUNDS).try_for_each(|round| run_round(&crowd, round, bench.role));
    rounds.map_err(|error| explain(&error, &job))?;
    job.wait_for_line("all rounds", PATIENCE)?;
    if bench.role == Role::Passive {
        crowd.iter().try_for_each(|pinger| pinger.link.qp.disconnect().map_err(text))?;
    }
    for _ in &crowd {
        match events.wait(Some(PATIENCE)) {
            Some(CmEvent::Disconnected {
                reason: DisconnectReason::Local | DisconnectReason::Peer, ..
            }) => {}
            other => return Err(explain(&format!("instead of the end: {other:?}"), &job)),
        }
    }
    finish(&job)?;
    table.host.close()
}

/// One connection with its buffers.
struct Pinger {
    link: Link,
    inbox: Mr,
    outbox: Mr,
}

impl Pinger {
    fn new(host: &Host, events: &EventChannel) -> Result<Self, String> {
        let link = host.link(events, 64)?;
        let memory = || host.register(PING as usize, Access::LOCAL_WRITE);
        let pinger = Self { link, inbox: memory()?, outbox: memory()? };
        pinger.post_receive()?;
        Ok(pinger)
    }

    fn post_receive(&self) -> Result<(), String> {
        self.link.post_receive(0, self.inbox.sge(0, PING))
    }

    fn send(&self, round: usize) -> Result<(), String> {
        Pattern::new(Side::Host, Kind::Send, round, 0).fill(&self.outbox, 0, PING as usize)?;
        self.link.post(0, SendOpcode::Send, self.outbox.sge(0, PING))
    }

    /// Waits for the next message and checks it.
    fn take(&self, round: usize) -> Result<(), String> {
        loop {
            let completion = self.link.next_completion()?;
            if completion.status != Status::Success {
                return Err(format!("round {round}: {completion:?}"));
            }
            if is_receive(&completion) {
                let pattern = Pattern::new(Side::Guest, Kind::Send, round, 0);
                pattern.check_memory(&self.inbox, 0, PING as usize, "message")?;
                return if completion.byte_len == PING {
                    self.post_receive()
                } else {
                    Err(format!("{completion:?}"))
                };
            }
        }
    }
}

fn call(table: &Table<'_>, command: &str, events: &EventChannel) -> Result<(Job, Vec<Pinger>), String> {
    let (job, address) = table.start_listening(command)?;
    let mut crowd = Vec::new();
    for _ in 0..CONNECTIONS {
        let pinger = Pinger::new(&table.host, events)?;
        table.host.device.connect(events, &pinger.link.qp, address, ConnParam::default()).map_err(text)?;
        crowd.push(pinger);
    }
    for _ in &crowd {
        match events.wait(Some(PATIENCE)) {
            Some(CmEvent::Established { .. }) => {}
            other => return Err(explain(&format!("instead of being established: {other:?}"), &job)),
        }
    }
    let links: Vec<&Link> = crowd.iter().map(|pinger| &pinger.link).collect();
    await_guest(&job, &links)?;
    Ok((job, crowd))
}

fn answer(table: &Table<'_>, command: &str, events: &EventChannel) -> Result<(Job, Vec<Pinger>), String> {
    let (job, _listener) = table.start_connecting(command, events)?;
    let (mut crowd, mut established) = (Vec::new(), 0);
    while established < CONNECTIONS {
        match events.wait(Some(PATIENCE)) {
            Some(CmEvent::ConnectRequest(request)) => {
                let pinger = Pinger::new(&table.host, events)?;
                let device = &table.host.device;
                device.accept(request.id, &pinger.link.qp, ConnParam::default()).map_err(text)?;
                crowd.push(pinger);
            }
            Some(CmEvent::Established { .. }) => established += 1,
            other => return Err(explain(&format!("instead of a request: {other:?}"), &job)),
        }
    }
    job.wait_for_line("established", PATIENCE)?;
    Ok((job, crowd))
}

fn run_round(crowd: &[Pinger], round: usize, role: Role) -> Result<(), String> {
    if role == Role::Passive {
        crowd.iter().try_for_each(|pinger| pinger.send(round))?;
    }
    for pinger in crowd {
        pinger.take(round)?;
        if role == Role::Active {
            pinger.send(round)?;
        }
    }
    Ok(())
}

const CONNECTIONS: usize = 64;
const ROUNDS: usize = 5;
const PING: u32 = 2000;
