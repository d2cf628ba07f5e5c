//! Replication without the replica's CPU (HyperLoop): a client writes work into the send queue of a replica. The
//! replica forwards the received data, and its program makes no call for that.
//!
//! The replica has two queue pairs. The client writes to the first one; the second one leads on, here back to the
//! client. On the second one the replica has posted a WAIT for a message on the first, and behind it a HOLD. A HOLD
//! does nothing until the client writes over it.
//!
//! `cargo run -p weft-examples --example held_work`

use std::sync::mpsc::channel;

use weft_examples::{Endpoint, PORT, Result, two_hosts};
use weft_rnic::{
    Access, CmEvent, ConnParam, Data, Device, Mr, Qp, QpInit, RecvWr, SendOpcode, SendQueueLayout, SendWr,
};

const LEN: u32 = 32;

fn main() -> Result {
    let [left, right] = two_hosts()?;
    let (ready, told) = channel();
    std::thread::scope(|scope| -> Result {
        let setting_up = scope.spawn(|| Replica::new(&right, || Ok(ready.send(right.address(PORT))?)));
        let address = told.recv()?;
        // The replica accepts the two connections in this order.
        let client = Endpoint::new(&left)?;
        let tail = Endpoint::new(&left)?;
        for end in [&client, &tail] {
            let (ready, told) = channel();
            ready.send(address)?;
            end.connect(&told)?;
        }
        let replica = setting_up.join().map_err(|_| "the replica has panicked")??;
        // From here on the replica's program only keeps its objects.
        replicate(&client, &tail, &replica)
    })
}

/// The objects of the replica, whose places the client knows.
struct Replica {
    forward: Qp,
    /// The entries of the send queue of `forward`, as memory.
    queue: Mr,
    data: Mr,
    _inward: Qp,
    _end: Endpoint,
}

impl Replica {
    fn new(device: &Device, ready: impl FnOnce() -> Result) -> Result<Self> {
        let end = Endpoint::new(device)?;
        let _listener = device.listen(&end.events, PORT)?;
        // Completions of the receives have a queue of their own. No thread polls it, so it has to ignore overrun.
        let inbox = device
            .create_cq_with(&weft_rnic::CqInit { ignore_overrun: true, ..weft_rnic::CqInit::new(16) })?;
        let inward = device.create_qp(&end.pd, &QpInit::new(&end.cq, &inbox))?;
        let forward = device.create_qp(&end.pd, &QpInit::new(&end.cq, &end.cq))?;
        inward.post_recv(&RecvWr { wr_id: 0, sges: &[] })?;
        ready()?;
        for qp in [&inward, &forward] {
            loop {
                match end.events.wait(None) {
                    Some(CmEvent::ConnectRequest(request)) => {
                        device.accept(request.id, qp, ConnParam::default())?;
                    }
                    Some(CmEvent::Established { .. }) => break,
                    other => return Err(format!("no client: {other:?}").into()),
                }
            }
        }
        forward.post_send(&SendWr::new(SendOpcode::Wait { cq: inbox.number(), count: 1, strict: false }))?;
        forward.post_send(&SendWr::new(SendOpcode::Hold))?;
        let queue = end.pd.register_send_queue(&forward, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let data = end.memory(LEN as usize)?;
        Ok(Self { forward, queue, data, _inward: inward, _end: end })
    }
}

/// Writes data into the replica's memory, then the request to forward it into its send queue, and starts that request.
fn replicate(client: &Endpoint, tail: &Endpoint, replica: &Replica) -> Result {
    let arrived = tail.memory(LEN as usize)?;
    let layout = replica.forward.send_queue_layout();
    write(client, &replica.data, 0, b"to be kept by everybody in line.")?;
    // The request is an entry of the send queue: a Write of the replica's data into the tail's memory.
    let sges = [replica.data.sge(0, LEN)];
    let order = SendWr {
        data: Data::Sges(&sges),
        ..SendWr::new(SendOpcode::Write { stag: arrived.rkey(), to: arrived.addr() })
    };
    let entry = layout.encode(&order)?;
    // The control word comes last: as long as it says HOLD, the entry waits.
    let at = layout.offset(1);
    let (control, rest) = (SendQueueLayout::CONTROL, SendQueueLayout::REST);
    write(client, &replica.queue, at + rest, &entry[rest..])?;
    write(client, &replica.queue, at + control, &entry[control..rest])?;
    // The WAIT in front of the entry still holds it back. A message on the first connection ends the WAIT.
    client.qp.post_send(&SendWr::new(SendOpcode::Send))?;
    let mut text = vec![0; LEN as usize];
    while text.contains(&0) {
        arrived.read(0, &mut text)?;
        std::thread::yield_now();
    }
    println!("the tail has: {}", String::from_utf8(text)?);
    Ok(())
}

/// Writes octets into memory of the peer.
fn write(client: &Endpoint, memory: &Mr, offset: usize, octets: &[u8]) -> Result {
    let (stag, to) = (memory.rkey(), memory.addr() + offset as u64);
    let source = client.memory(octets.len())?;
    source.write(0, octets)?;
    let sges = [source.sge(0, u32::try_from(octets.len())?)];
    let write = SendOpcode::Write { stag, to };
    client.qp.post_send(&SendWr { data: Data::Sges(&sges), signaled: true, ..SendWr::new(write) })?;
    client.completion().map(|_| ())
}
