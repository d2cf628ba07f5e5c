//! Remote memory: the client writes into the server's memory and reads it back. The server's program does nothing
//! meanwhile.
//!
//! `cargo run -p weft-examples --example remote_memory`

use weft_examples::{Endpoint, Result, side_by_side};
use weft_rnic::{CmEvent, Data, RecvWr, SendOpcode, SendWr, Stag};

const LEN: u32 = 1 << 20;

fn main() -> Result {
    side_by_side(
        |device, ready| {
            let server = Endpoint::new(device)?;
            let memory = server.memory(LEN as usize)?;
            server.accept_one(ready)?;
            // The client has to know the place of the memory: STag and first tagged offset.
            let mut advert = memory.rkey().0.to_be_bytes().to_vec();
            advert.extend(memory.addr().to_be_bytes());
            server.qp.post_send(&SendWr { data: Data::Inline(&advert), ..WR })?;
            server.completion()?;
            // The server only waits for the end.
            match server.events.wait(None) {
                Some(CmEvent::Disconnected { .. }) => {}
                other => return Err(format!("unexpected: {other:?}").into()),
            }
            let mut first = [0; 12];
            memory.read(0, &mut first)?;
            assert_eq!(&first, b"octet number");
            Ok(())
        },
        |device, ready| {
            let client = Endpoint::new(device)?;
            let (advert, source, sink) =
                (client.memory(12)?, client.memory(LEN as usize)?, client.memory(LEN as usize)?);
            client.qp.post_recv(&RecvWr { wr_id: 0, sges: &[advert.sge(0, 12)] })?;
            client.connect(ready)?;
            client.completion()?;
            let (mut stag, mut to) = ([0; 4], [0; 8]);
            advert.read(0, &mut stag)?;
            advert.read(4, &mut to)?;
            let (stag, to) = (Stag(u32::from_be_bytes(stag)), u64::from_be_bytes(to));

            let octets: Vec<u8> = b"octet number ".iter().copied().cycle().take(LEN as usize).collect();
            source.write(0, &octets)?;
            // The Read fetches the octets that the Write before it has placed (RFC 5040 section 5.5).
            let write = SendWr {
                opcode: SendOpcode::Write { stag, to },
                data: Data::Sges(&[source.sge(0, LEN)]),
                signaled: false,
                ..WR
            };
            let read =
                SendWr { opcode: SendOpcode::Read { stag, to }, data: Data::Sges(&[sink.sge(0, LEN)]), ..WR };
            client.qp.post_sends(&[write, read]).map_err(|(_, error)| error)?;
            client.completion()?;
            let mut back = vec![0; LEN as usize];
            sink.read(0, &mut back)?;
            assert!(back == octets);
            println!("{LEN} octets were written and read back");
            client.qp.disconnect()?;
            // The connection ends in good order if the client waits for its end.
            client.events.wait(None).ok_or("no end")?;
            Ok(())
        },
    )
}

const WR: SendWr<'static> = SendWr {
    wr_id: 0,
    opcode: SendOpcode::Send,
    data: Data::Inline(&[]),
    signaled: true,
    fence: false,
    solicited: false,
};
