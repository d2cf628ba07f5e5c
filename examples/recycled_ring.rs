//! Two send queues that play ping-pong by themselves: their requests come again for ever, and nobody posts.
//!
//! Each side's send queue holds one program again and again: wait for a message, then send one. Both work queues of both
//! sides are cyclic, so that the device posts each request again when it is done. This is how HyperLoop's replicas
//! refill their queues without a CPU.
//!
//! `cargo run --release -p weft-examples --example recycled_ring -- 1000000`

use std::sync::mpsc::channel;
use std::time::Duration;

use weft_examples::{Endpoint, Result, two_hosts};
use weft_rnic::{Cq, CqInit, Device, QpCapacity, QpInit, RecvWr, SendOpcode, SendWr};

/// Requests in each work queue.
const ENTRIES: u32 = 8;

fn main() -> Result {
    let rounds: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse().map_err(|_| format!("{text:?} is no number of rounds; try 1000000"))?,
        None => 10_000,
    };
    let [left, right] = two_hosts()?;
    let [(ours, inbox), (theirs, their_inbox)] = [endpoint(&left)?, endpoint(&right)?];
    let (ready, told) = channel();
    std::thread::scope(|scope| -> Result {
        let accepting = scope.spawn(|| theirs.accept_one(&ready));
        ours.connect(&told)?;
        accepting.join().map_err(|_| "the server has panicked")?
    })?;
    post_programs(&ours, &inbox)?;
    post_programs(&theirs, &their_inbox)?;
    let posted = [&left, &right].map(|device| device.counters().verbs.doorbells);
    let before = received(&ours)?;
    begin(&left, &ours, &inbox)?;
    let (mut done, mut idle) = (0, 0);
    while done < rounds {
        std::thread::sleep(Duration::from_millis(1));
        let now = received(&ours)? - before;
        idle = if now > done { 0 } else { idle + 1 };
        if idle > 10_000 {
            return Err(format!("the ball is lost after {done} rounds").into());
        }
        done = now;
    }
    // The request that has begun the game is the only one since then.
    let now = [&left, &right].map(|device| device.counters().verbs.doorbells);
    if now != [posted[0] + 1, posted[1]] {
        return Err(format!("somebody has posted: {posted:?}, {now:?}").into());
    }
    println!("{done} rounds, and nobody posted");
    Ok(())
}

/// An endpoint whose queue pair needs no polls, and the completion queue of its receives.
fn endpoint(device: &Device) -> Result<(Endpoint, Cq)> {
    let mut end = Endpoint::new(device)?;
    let [inbox, outbox] =
        [(); 2].map(|()| device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(ENTRIES) }));
    let (inbox, outbox) = (inbox?, outbox?);
    let capacity = QpCapacity { send_wr: ENTRIES, recv_wr: ENTRIES, ..QpCapacity::default() };
    end.qp = device.create_qp(&end.pd, &QpInit { capacity, ..QpInit::new(&outbox, &inbox) })?;
    Ok((end, inbox))
}

/// Fills both work queues, and makes them cyclic.
fn post_programs(end: &Endpoint, inbox: &Cq) -> Result {
    let wait = SendOpcode::Wait { cq: inbox.number(), count: 1, strict: true };
    for _ in 0..ENTRIES / 2 {
        end.qp.post_sends(&[SendWr::new(wait), SendWr::new(SendOpcode::Send)]).map_err(|(_, error)| error)?;
    }
    for wr_id in 0..ENTRIES.into() {
        end.qp.post_recv(&RecvWr { wr_id, sges: &[] })?;
    }
    end.qp.cycle_sends()?;
    Ok(end.qp.cycle_recvs()?)
}

/// Puts one completion into the inbox, as if a message had come: that of a NOP on a queue pair connected to itself.
fn begin(device: &Device, end: &Endpoint, inbox: &Cq) -> Result {
    let starter = device.create_qp(&end.pd, &QpInit::new(inbox, inbox))?;
    starter.connect_self()?;
    starter.post_send(&SendWr { signaled: true, ..SendWr::new(SendOpcode::Nop) })?;
    while starter.query().ok_or(GONE)?.counters.sends_started == 0 {
        std::thread::yield_now();
    }
    Ok(())
}

/// Messages that have come.
fn received(end: &Endpoint) -> Result<u64> {
    Ok(end.qp.query().ok_or(GONE)?.counters.messages_received)
}

const GONE: &str = "the queue pair is gone";
