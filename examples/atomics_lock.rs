//! A lock in remote memory: four clients take it by compare-and-swap and count under it (RFC 7306).
//!
//! `cargo run -p weft-examples --example atomics_lock`

use std::sync::mpsc::channel;
use std::time::Duration;

use weft_examples::{Endpoint, PORT, Result, two_hosts};
use weft_rnic::{CmEvent, ConnParam, Data, Device, Mr, QpInit, SendOpcode, SendWr, Stag};

const CLIENTS: u64 = 4;
const ROUNDS: u64 = 50;

fn main() -> Result {
    let [left, right] = two_hosts()?;
    // Two words: the lock, 0 while it is free, and the counter that it guards.
    let home = Endpoint::new(&right)?;
    let words = home.memory(16)?;
    let place = Place { stag: words.rkey(), lock: words.addr(), counter: words.addr() + 8 };
    let listener = right.listen(&home.events, PORT)?;
    let (finished, all_finished) = channel();
    std::thread::scope(|scope| -> Result {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|number| {
                let (device, server, finished) = (left.clone(), right.address(PORT), finished.clone());
                scope.spawn(move || -> Result {
                    let client = Client::connect(&device, server, place)?;
                    (0..ROUNDS).try_for_each(|_| client.count(number))?;
                    Ok(finished.send(())?)
                })
            })
            .collect();
        // The server only accepts: the counting needs no call of the server. Its queue pairs live until all clients
        // have ended.
        let mut accepted = Vec::new();
        while accepted.len() < clients.len() {
            match home.events.wait(Some(PATIENCE)).ok_or("no client")? {
                CmEvent::ConnectRequest(request) => {
                    let qp = right.create_qp(&home.pd, &QpInit::new(&home.cq, &home.cq))?;
                    right.accept(request.id, &qp, ConnParam::default())?;
                    accepted.push(qp);
                }
                // Some clients may have ended before others connect.
                CmEvent::Established { .. } | CmEvent::Disconnected { .. } => {}
                other => return Err(format!("unexpected: {other:?}").into()),
            }
        }
        for _ in 0..CLIENTS {
            all_finished.recv_timeout(PATIENCE)?;
        }
        clients.into_iter().try_for_each(|client| client.join().map_err(|_| "a client has panicked")?)
    })?;
    drop(listener);
    let mut counter = [0; 8];
    words.read(8, &mut counter)?;
    assert_eq!(u64::from_ne_bytes(counter), CLIENTS * ROUNDS);
    println!("{CLIENTS} clients have counted to {} under one lock", CLIENTS * ROUNDS);
    Ok(())
}

/// The place of the two words.
#[derive(Clone, Copy)]
struct Place {
    stag: Stag,
    lock: u64,
    counter: u64,
}

struct Client {
    end: Endpoint,
    place: Place,
    /// The results of Atomics and Reads, and the source of Writes.
    word: Mr,
}

impl Client {
    fn connect(device: &Device, server: std::net::SocketAddr, place: Place) -> Result<Self> {
        let end = Endpoint::new(device)?;
        let (ready, told) = channel();
        ready.send(server)?;
        end.connect(&told)?;
        let word = end.memory(8)?;
        Ok(Self { end, place, word })
    }

    /// Takes the lock, adds one by a Read and a Write, and frees the lock. Without the lock counts would be lost.
    fn count(&self, number: u64) -> Result {
        let Place { stag, lock, counter } = self.place;
        let swap = |compare, swap| SendOpcode::CompareSwap {
            stag,
            to: lock,
            swap,
            swap_mask: u64::MAX,
            compare,
            compare_mask: u64::MAX,
        };
        while self.fetch(swap(0, number))? != 0 {
            std::thread::yield_now();
        }
        let count = self.fetch(SendOpcode::Read { stag, to: counter })?;
        self.word.write(0, &(count + 1).to_ne_bytes())?;
        // The swap that frees the lock follows the Write on the same stream, so it takes effect after the Write.
        self.run(SendOpcode::Write { stag, to: counter })?;
        assert_eq!(self.fetch(swap(number, 0))?, number, "only the owner frees it");
        Ok(())
    }

    /// Does an operation that fetches a word, and returns the word.
    fn fetch(&self, opcode: SendOpcode) -> Result<u64> {
        self.run(opcode)?;
        let mut word = [0; 8];
        self.word.read(0, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    fn run(&self, opcode: SendOpcode) -> Result {
        let sges = [self.word.sge(0, 8)];
        let data = Data::Sges(&sges);
        self.end.qp.post_send(&SendWr {
            wr_id: 0,
            opcode,
            data,
            signaled: true,
            fence: false,
            solicited: false,
        })?;
        self.end.completion().map(|_| ())
    }
}

const PATIENCE: Duration = Duration::from_secs(30);
