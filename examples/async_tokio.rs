//! Completions in an asynchronous program. The channel's descriptor is readable exactly while events wait, so that a
//! runtime can sleep on it like on any other. Ten tasks share one connection.
//!
//! `cargo run -p weft-examples --example async_tokio`
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::mpsc::channel;

use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use weft_examples::{Endpoint, Result, two_hosts};
use weft_rnic::{CompChannel, Completion, Cq, Data, Mr, SendOpcode, SendWr, Stag, Status};

const TASKS: u64 = 10;

fn main() -> Result {
    let [left, right] = two_hosts()?;
    let server = Endpoint::new(&right)?;
    let memory = server.memory(8)?;
    let client = Endpoint::new(&left)?;
    let (ready, told) = channel();
    std::thread::scope(|scope| -> Result {
        let serving = scope.spawn(|| server.accept_one(&ready));
        client.connect(&told)?;
        serving.join().map_err(|_| "the server has panicked")?
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sum = runtime.block_on(add_from_many_tasks(client, memory.rkey(), memory.addr()))?;
    let mut total = [0; 8];
    memory.read(0, &mut total)?;
    assert_eq!(u64::from_ne_bytes(total), TASKS * (TASKS + 1) / 2);
    println!(
        "{TASKS} tasks have added up to {}, and seen {sum} different values before",
        u64::from_ne_bytes(total)
    );
    Ok(())
}

/// Starts the tasks. Each adds its number to the remote word, and returns the value from before.
async fn add_from_many_tasks(client: Endpoint, stag: Stag, to: u64) -> Result<usize> {
    let results = client.memory(usize::try_from(8 * TASKS)?)?;
    let (wanted, wants) = mpsc::unbounded_channel();
    let Endpoint { qp, cq, channel, .. } = client;
    let reactor = tokio::spawn(dispatch(cq, channel, wants));
    let mut tasks = Vec::new();
    for number in 1..=TASKS {
        let (done, is_done) = oneshot::channel();
        wanted.send((number, done))?;
        let sges = [results.sge(8 * usize::try_from(number - 1)?, 8)];
        qp.post_send(&SendWr {
            wr_id: number,
            opcode: SendOpcode::FetchAdd { stag, to, add: number, mask: 0 },
            data: Data::Sges(&sges),
            signaled: true,
            fence: false,
            solicited: false,
        })?;
        tasks.push((number, is_done));
    }
    drop(wanted);
    let mut seen = Vec::new();
    for (number, is_done) in tasks {
        let completion = is_done.await?;
        assert_eq!(completion.status, Status::Success);
        seen.push(fetched(&results, number)?);
    }
    reactor.await??;
    seen.sort_unstable();
    seen.dedup();
    Ok(seen.len())
}

/// Gives each completion to the task that waits for it, until no task waits any more.
async fn dispatch(
    cq: Cq,
    channel: CompChannel,
    mut wants: mpsc::UnboundedReceiver<(u64, oneshot::Sender<Completion>)>,
) -> Result {
    // SAFETY: the channel's descriptor stays the same as long as the channel lives, and this function owns the channel.
    let descriptor = unsafe { AsyncFd::register(channel) }?;
    let mut waiting = HashMap::new();
    loop {
        // The queue is armed first and polled then: a completion in between makes an event.
        cq.request_notification(false);
        while let Ok((wr_id, done)) = wants.try_recv() {
            waiting.insert(wr_id, done);
        }
        while let Some(completion) = cq.poll_one() {
            let done: oneshot::Sender<Completion> =
                waiting.remove(&completion.wr_id).ok_or("nobody's request")?;
            done.send(completion).map_err(|_| "a task has gone")?;
        }
        if waiting.is_empty() && wants.is_closed() && wants.is_empty() {
            return Ok(());
        }
        let mut guard = descriptor.readable().await?;
        if descriptor.get_ref().next().is_none() {
            guard.clear_ready();
        }
    }
}

fn fetched(results: &Mr, number: u64) -> Result<u64> {
    let mut word = [0; 8];
    results.read(8 * usize::try_from(number - 1)?, &mut word)?;
    Ok(u64::from_ne_bytes(word))
}
