//! A shared receive queue: a server with a hundred clients posts receives for all of them in one queue. An event tells
//! the server when few receives are left.
//!
//! `cargo run -p weft-examples --example srq_server`

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::time::Duration;

use weft_examples::{Endpoint, PORT, Result, two_hosts};
use weft_rnic::{
    AsyncEvent, CmEvent, ConnParam, Data, Device, Mr, Qp, QpInit, RecvWr, SendOpcode, SendWr, Srq, SrqInit,
    SrqModify,
};

const CLIENTS: usize = 100;
const MESSAGES: usize = 5;
/// The receives of all clients: far fewer than a hundred queues would need.
const RECEIVES: u32 = 32;
const LIMIT: u32 = 8;
const LEN: u32 = 64;

fn main() -> Result {
    let [left, right] = two_hosts()?;
    let (ready, told) = channel();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let server = Server::new(&right)?;
            let _listener = right.listen(&server.end.events, PORT)?;
            ready.send(right.address(PORT))?;
            server.serve()
        });
        let address = told.recv()?;
        let clients = (0..CLIENTS).map(|number| {
            let (ready, told) = channel();
            ready.send(address)?;
            let client = Endpoint::new(&left)?;
            client.connect(&told)?;
            Ok((number, client))
        });
        let clients = clients.collect::<Result<Vec<_>>>()?;
        for round in 0..MESSAGES {
            for (number, client) in &clients {
                let text = format!("message {round} of client {number}");
                let send = SendWr {
                    data: Data::Inline(text.as_bytes()),
                    signaled: true,
                    ..SendWr::new(SendOpcode::Send)
                };
                client.qp.post_send(&send)?;
                client.completion()?;
            }
        }
        serving.join().map_err(|_| "the server has panicked")?
    })
}

struct Server {
    end: Endpoint,
    srq: Srq,
    /// One piece for each receive, named by its `wr_id`.
    memory: Mr,
}

impl Server {
    fn new(device: &Device) -> Result<Self> {
        let end = Endpoint::new(device)?;
        let memory = end.memory((RECEIVES * LEN) as usize)?;
        let srq = end.pd.create_srq(&SrqInit { max_wr: RECEIVES, max_sge: 1, limit: 0 })?;
        Ok(Self { end, srq, memory })
    }

    /// Accepts all clients, and takes messages until each client has sent its own.
    fn serve(&self) -> Result {
        (0..RECEIVES).try_for_each(|piece| self.post(u64::from(piece)))?;
        let alarms = self.end.device.async_channel();
        self.srq.modify(&SrqModify { limit: Some(LIMIT), ..SrqModify::default() })?;
        let (mut clients, mut counts, mut alarmed) = (Vec::new(), HashMap::new(), 0);
        let mut used = Vec::new();
        while clients.len() < CLIENTS || counts.values().sum::<usize>() < CLIENTS * MESSAGES {
            if let Some(event) = self.end.events.wait(Some(Duration::from_millis(1))) {
                clients.extend(self.handle(event)?);
            }
            while let Some(received) = self.end.cq.poll_one() {
                *counts.entry(received.qp_num).or_insert(0_usize) += 1;
                used.push(received.wr_id);
            }
            // To post all receives at an alarm is cheaper than one for each message. Before the next alarm is armed,
            // messages may have taken all receives. The count of used pieces shows that.
            let mut is_low = used.len() > (RECEIVES - LIMIT) as usize;
            while let Some(event) = alarms.next() {
                is_low |= matches!(event, AsyncEvent::SrqLimitReached { .. });
            }
            if is_low {
                alarmed += 1;
                used.drain(..).try_for_each(|piece| self.post(piece))?;
                self.srq.modify(&SrqModify { limit: Some(LIMIT), ..SrqModify::default() })?;
            }
        }
        assert!(counts.values().all(|&count| count == MESSAGES));
        println!(
            "{CLIENTS} clients have sent {MESSAGES} messages each into {RECEIVES} receives, posted anew {alarmed} times"
        );
        Ok(())
    }

    /// Handles an event. Makes and returns a queue pair for a client that connects.
    fn handle(&self, event: CmEvent) -> Result<Option<Qp>> {
        let CmEvent::ConnectRequest(request) = event else { return Ok(None) };
        let (cq, device) = (&self.end.cq, &self.end.device);
        // A message that finds no receive does not end the connection: it waits in TCP until one is posted.
        let init = QpInit { srq: Some(&self.srq), rnr_wait: true, ..QpInit::new(cq, cq) };
        let qp = device.create_qp(&self.end.pd, &init)?;
        device.accept(request.id, &qp, ConnParam::default())?;
        Ok(Some(qp))
    }

    fn post(&self, piece: u64) -> Result {
        let sges = [self.memory.sge(usize::try_from(piece)? * LEN as usize, LEN)];
        Ok(self.srq.post_recv(&RecvWr { wr_id: piece, sges: &sges })?)
    }
}
