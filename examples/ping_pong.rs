//! Ping-pong: a client sends a text, the server sends it back, a thousand times.
//!
//! `cargo run -p weft-examples --example ping_pong`

use weft_examples::{Endpoint, Result, side_by_side};
use weft_rnic::{Completion, CompletionOpcode, Data, RecvWr, SendOpcode, SendWr};

const ROUNDS: u64 = 1_000;

fn main() -> Result {
    side_by_side(
        |device, ready| {
            let server = Endpoint::new(device)?;
            let buffer = server.memory(64)?;
            // A receive has to be posted before the message comes: a Send that finds no receive ends the connection.
            server.qp.post_recv(&RecvWr { wr_id: 0, sges: &[buffer.sge(0, 64)] })?;
            server.accept_one(ready)?;
            for _ in 0..ROUNDS {
                let received = next_message(&server)?;
                let mut text = vec![0; received.byte_len as usize];
                buffer.read(0, &mut text)?;
                server.qp.post_recv(&RecvWr { wr_id: 0, sges: &[buffer.sge(0, 64)] })?;
                server.qp.post_send(&message(&text))?;
            }
            Ok(())
        },
        |device, ready| {
            let client = Endpoint::new(device)?;
            let buffer = client.memory(64)?;
            client.connect(ready)?;
            for round in 0..ROUNDS {
                let ping = format!("ping number {round}");
                client.qp.post_recv(&RecvWr { wr_id: round, sges: &[buffer.sge(0, 64)] })?;
                client.qp.post_send(&message(ping.as_bytes()))?;
                let received = next_message(&client)?;
                let mut pong = vec![0; received.byte_len as usize];
                buffer.read(0, &mut pong)?;
                assert_eq!(pong, ping.as_bytes());
            }
            println!("{ROUNDS} texts went there and back");
            Ok(())
        },
    )
}

/// Waits for the next message, and skips completions of Sends, which come through the same queue.
fn next_message(endpoint: &Endpoint) -> Result<Completion> {
    loop {
        let done = endpoint.completion()?;
        if done.opcode == CompletionOpcode::Recv {
            return Ok(done);
        }
    }
}

/// Returns a Send of octets that are copied into the queue. Its place in the queue is free again when a completion at
/// or behind it has been polled, so a program has to signal some of its requests.
fn message(octets: &[u8]) -> SendWr<'_> {
    SendWr { data: Data::Inline(octets), signaled: true, ..SendWr::new(SendOpcode::Send) }
}
