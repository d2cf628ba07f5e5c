//! Ping-pong through the connection manager: a client and a server. Both are in one process, so that it runs anywhere.
//!
//! Both use synchronous ids: each call waits for its result.
//!
//! `cargo run -p weft-examples --example cm_ping_pong`

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_cm::{AddrInfo, Cm, ConnParam, Id};
use weft_rnic::{
    Access, Completion, Config, Cq, Data, Device, Mr, Progress, Qp, QpInit, RecvWr, SendOpcode, SendWr,
    Status,
};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let (left, right) = weft_netif::pair(1500);
    let open = |wire, ip: &str, seed| -> Outcome<Device> {
        let config = Config { progress: Progress::Thread, ..Config::new(ip.parse()?, seed) };
        Ok(Device::open(wire, config)?)
    };
    let (client, server) = (open(left, "10.0.0.1/24", 1)?, open(right, "10.0.0.2/24", 2)?);
    // Each end knows only its own device, as in two processes.
    let cm = Cm::new();
    cm.add(&server);
    let listener = cm.create_ep(&AddrInfo { source: Some(server.address(0)), destination: None })?;
    listener.listen(1)?;
    let address = listener.local_addr().ok_or("a listener has an address")?;
    let serving = std::thread::spawn(move || serve(&listener, &server));
    ping(&client, address)?;
    serving.join().map_err(|_| "the server has panicked")?
}

/// Sends every message back until the client disconnects.
fn serve(listener: &Id, device: &Device) -> Outcome {
    let id = listener.get_request()?;
    let end = End::new(&id, device)?;
    // The receive is posted before the client can send.
    end.post_recv()?;
    id.accept(&ConnParam { private_data: b"welcome", ..ConnParam::default() })?;
    for _ in 0..ROUNDS {
        let message = end.received()?;
        end.post_recv()?;
        end.send(&message)?;
    }
    Ok(id.disconnect()?)
}

/// Sends messages and checks that they come back.
fn ping(device: &Device, address: SocketAddr) -> Outcome {
    let cm = Cm::new();
    cm.add(device);
    let id = cm.create_ep(&AddrInfo { source: None, destination: Some(address) })?;
    let end = End::new(&id, device)?;
    end.post_recv()?;
    id.connect(&ConnParam { private_data: b"hello", ..ConnParam::default() })?;
    let greeting = id.take_event().ok_or("connecting ends with an event")?;
    println!("{address} says {}", String::from_utf8_lossy(greeting.private_data()));
    for round in 0..ROUNDS {
        let message = format!("ping {round}");
        end.send(message.as_bytes())?;
        let pong = end.received()?;
        if pong != message.as_bytes() {
            return Err(format!("round {round} came back as {pong:?}").into());
        }
        end.post_recv()?;
    }
    println!("{ROUNDS} messages came back");
    Ok(id.disconnect()?)
}

/// The queue pair of an id, and the buffer for received messages.
struct End {
    qp: Arc<Qp>,
    sent: Cq,
    received: Cq,
    buffer: Mr,
}

impl End {
    fn new(id: &Id, device: &Device) -> Outcome<Self> {
        let (pd, sent, received) =
            (device.alloc_pd(), device.create_cq(16, None)?, device.create_cq(16, None)?);
        let qp = id.create_qp(&pd, &QpInit::new(&sent, &received))?;
        Ok(Self { qp, sent, received, buffer: pd.register(SIZE as usize, Access::LOCAL_WRITE)? })
    }

    fn post_recv(&self) -> Outcome {
        Ok(self.qp.post_recv(&RecvWr { wr_id: 0, sges: &[self.buffer.sge(0, SIZE)] })?)
    }

    /// Sends, and waits until the octets are in TCP. A disconnect would flush a request that is only posted.
    fn send(&self, message: &[u8]) -> Outcome {
        let data = Data::Inline(message);
        self.qp.post_send(&SendWr { data, signaled: true, ..SendWr::new(SendOpcode::Send) })?;
        wait(&self.sent).map(|_| ())
    }

    /// Waits for a message.
    fn received(&self) -> Outcome<Vec<u8>> {
        let done = wait(&self.received)?;
        let mut message = vec![0; done.byte_len as usize];
        self.buffer.read(0, &mut message)?;
        Ok(message)
    }
}

/// Waits for the next completion. Fails if its request failed.
fn wait(cq: &Cq) -> Outcome<Completion> {
    loop {
        match cq.poll_one() {
            Some(done) if done.status == Status::Success => return Ok(done),
            Some(done) => return Err(done.status.to_string().into()),
            None => std::thread::yield_now(),
        }
    }
}

const ROUNDS: usize = 100;
/// The most octets of a message.
const SIZE: u32 = 64;
