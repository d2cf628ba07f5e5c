//! A memory window: the server lets its client write into a part of its memory, for one message. The client gives the
//! right back by the message that ends its work (Send with Invalidate).
//!
//! `cargo run -p weft-examples --example memory_window`

use weft_examples::{Endpoint, Result, side_by_side};
use weft_rnic::{
    Access, Bind, CmEvent, Data, DisconnectReason, RecvWr, SendOpcode, SendWr, Stag, WindowType,
};

fn main() -> Result {
    side_by_side(
        |device, ready| {
            let server = Endpoint::new(device)?;
            // Only this side may access the region itself. A window may be bound to it.
            let memory = server.pd.register(4096, Access::LOCAL_WRITE | Access::MW_BIND)?;
            let window = server.pd.alloc_mw(WindowType::Type2B)?;
            server.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] })?;
            server.accept_one(ready)?;

            // The window has 64 octets at offset 1024, which the client addresses from 0. The server chooses the key
            // octet.
            let stag = window.stag(0x2A);
            server.qp.post_send(&SendWr::new(SendOpcode::BindWindow(Bind {
                window: stag,
                region: memory.rkey(),
                addr: memory.addr() + 1024,
                length: 64,
                access: Access::REMOTE_WRITE | Access::ZERO_BASED,
            })))?;
            // The Send behind the bind starts when the bind is done.
            let advert = stag.0.to_be_bytes();
            server.qp.post_send(&SendWr { data: Data::Inline(&advert), ..SendWr::new(SendOpcode::Send) })?;
            let done = server.completion()?;
            assert_eq!((done.wr_id, done.invalidated), (1, Some(stag.0)));
            assert!(!window.is_bound(), "the client has given it back");
            let mut text = [0; 15];
            memory.read(1024, &mut text)?;
            assert_eq!(&text, b"into the window");

            // The next request of the client ends the connection.
            match server.events.wait(None) {
                Some(CmEvent::Disconnected { reason, .. }) => println!("the server ends it: {reason}"),
                other => return Err(format!("unexpected: {other:?}").into()),
            }
            Ok(())
        },
        |device, ready| {
            let client = Endpoint::new(device)?;
            let advert = client.memory(4)?;
            client.qp.post_recv(&RecvWr { wr_id: 0, sges: &[advert.sge(0, 4)] })?;
            client.connect(ready)?;
            client.completion()?;
            let mut stag = [0; 4];
            advert.read(0, &mut stag)?;
            let stag = Stag(u32::from_be_bytes(stag));

            let write = SendWr {
                data: Data::Inline(b"into the window"),
                ..SendWr::new(SendOpcode::Write { stag, to: 0 })
            };
            client.qp.post_send(&write)?;
            client.qp.post_send(&SendWr::new(SendOpcode::SendInvalidate { stag }))?;
            // The STag is invalid now. The server refuses a Write that still uses it.
            client.qp.post_send(&write)?;
            let Some(CmEvent::Disconnected { reason, .. }) = client.events.wait(None) else {
                return Err("the connection should have ended".into());
            };
            assert!(matches!(reason, DisconnectReason::PeerTerminate { .. }));
            println!("the client hears: {reason}");
            Ok(())
        },
    )
}
