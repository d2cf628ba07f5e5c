//! Write with Immediate: a producer fills slots of a consumer's ring. Four octets with each Write name the slot. The
//! consumer needs no other message, and looks at a slot only when it is filled.
//!
//! `cargo run -p weft-examples --example write_with_immediate`

use weft_examples::{Endpoint, Result, side_by_side};
use weft_rnic::{Access, CompletionOpcode, Data, RecvWr, SendOpcode, SendWr, Stag};

const SLOTS: u32 = 8;
const SLOT_LEN: u32 = 256;
const MESSAGES: u32 = 100;

fn main() -> Result {
    side_by_side(
        |device, ready| {
            let consumer = Endpoint::new(device)?;
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
            let ring = consumer.pd.register((SLOTS * SLOT_LEN) as usize, access)?;
            // Each Write with Immediate takes a receive, which needs no memory. There are never more under way than
            // slots.
            for _ in 0..SLOTS {
                consumer.qp.post_recv(&RecvWr { wr_id: 0, sges: &[] })?;
            }
            consumer.accept_one(ready)?;
            consumer.qp.post_send(&SendWr {
                data: Data::Inline(
                    &[ring.rkey().0.to_be_bytes().as_slice(), &ring.addr().to_be_bytes()].concat(),
                ),
                ..SendWr::new(SendOpcode::Send)
            })?;
            for number in 0..MESSAGES {
                let written = consumer.completion()?;
                assert_eq!(written.opcode, CompletionOpcode::RecvWithImmediate);
                let [s0, s1, s2, s3, ..] = written.immediate.ok_or("no immediate data")?;
                let slot = u32::from_be_bytes([s0, s1, s2, s3]);
                // The length is that of all octets written since the last message.
                let mut text = vec![0; written.byte_len as usize];
                ring.read((slot * SLOT_LEN) as usize, &mut text)?;
                assert_eq!(String::from_utf8(text)?, format!("message {number} in slot {slot}"));
                consumer.qp.post_recv(&RecvWr { wr_id: 0, sges: &[] })?;
                // An empty Send says that the slot is free again.
                consumer.qp.post_send(&SendWr::new(SendOpcode::Send))?;
            }
            println!("{MESSAGES} messages have come through {SLOTS} slots");
            // A queue pair that is dropped resets its connection: messages that the producer still waits for would be
            // lost.
            consumer.events.wait(None).ok_or("no end")?;
            Ok(())
        },
        |device, ready| {
            let producer = Endpoint::new(device)?;
            let advert = producer.memory(12)?;
            producer.qp.post_recv(&RecvWr { wr_id: 0, sges: &[advert.sge(0, 12)] })?;
            for _ in 0..SLOTS {
                producer.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] })?;
            }
            producer.connect(ready)?;
            producer.completion()?;
            let (mut stag, mut to) = ([0; 4], [0; 8]);
            advert.read(0, &mut stag)?;
            advert.read(4, &mut to)?;
            let (stag, to) = (Stag(u32::from_be_bytes(stag)), u64::from_be_bytes(to));
            for number in 0..MESSAGES {
                if number >= SLOTS {
                    producer.completion()?;
                    producer.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] })?;
                }
                let slot = number % SLOTS;
                let text = format!("message {number} in slot {slot}");
                let to = to + u64::from(slot * SLOT_LEN);
                let opcode = SendOpcode::WriteImmediate { stag, to, immediate: slot.to_be_bytes() };
                producer
                    .qp
                    .post_send(&SendWr { data: Data::Inline(text.as_bytes()), ..SendWr::new(opcode) })?;
            }
            for _ in 0..SLOTS {
                producer.completion()?;
            }
            producer.qp.disconnect()?;
            producer.events.wait(None).ok_or("no end")?;
            Ok(())
        },
    )
}
