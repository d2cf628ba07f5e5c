//! A ULP on RDMAP alone: a mailbox.
//!
//! The owner sends the place of the mailbox. A visitor counts itself by an Atomic, writes its letter, reads it back,
//! and sends a message. That Send invalidates the mailbox's STag.
//!
//! `cargo run -p weft-examples --example rdmap_stream`

use std::sync::Arc;

use weft_examples::{Line, Result};
use weft_mpa::Config;
use weft_rnic::ulp::{
    Agreement, Association, AtomicOp, MemoryRegion, MemoryTable, PdId, RdmapEvent, RdmapStream,
};
use weft_rnic::{Access, Region, Stag, Status};

const LETTER: &[u8] = b"Dear owner, nobody of yours had to be called for this.";

/// The mailbox: a counter of visitors, then room for a letter.
const COUNTER: u64 = 0;
const ROOM: u64 = 8;
const MAILBOX: usize = 256;

fn main() -> Result {
    // The owner sends first although the visitor has connected. This needs the peer-to-peer start of RFC 6581.
    let wish = Config { peer_to_peer: true, ird: 4, ord: 4, ..Config::default() };
    let mut line = Line::new()?;
    let [visitor, owner] = line.start([wish; 2])?;
    println!("connected: {} Reads and Atomics at once", visitor.negotiated.ord);

    let mut visitor = Visitor::new(&visitor)?;
    let mut owner = Owner::new(&owner)?;
    line.run(|line| {
        visitor.poll(line)?;
        owner.poll(line)?;
        Ok(visitor.is_over && owner.is_over)
    })?;

    let mut letter = vec![0; LETTER.len()];
    if !owner.mailbox.region.copy_out(8, &mut letter) || letter != LETTER {
        return Err("the letter differs".into());
    }
    println!("in the mailbox: {:?}", String::from_utf8_lossy(&letter));
    Ok(())
}

struct Owner {
    stream: RdmapStream,
    memory: MemoryTable,
    mailbox: Arc<MemoryRegion>,
    is_over: bool,
}

impl Owner {
    fn new(agreement: &Agreement) -> Result<Self> {
        let association = Association::new(PdId(1));
        let mut stream = RdmapStream::new(agreement, association, 4);
        let mut memory = MemoryTable::new(1);
        let region = Region::owned(MAILBOX).ok_or("no memory")?;
        let mailbox = association.register(&mut memory, region, 0, Access::ALL)?;
        stream.post_buffer(1, vec![0; 64])?;
        stream.send(2, mailbox.stag.0.to_be_bytes().to_vec(), false, None)?;
        Ok(Self { stream, memory, mailbox, is_over: false })
    }

    fn poll(&mut self, line: &mut Line) -> Result {
        let mut llp = line.llp(1)?;
        while let Some(event) = self.stream.poll(&mut llp, &self.memory) {
            match event {
                RdmapEvent::Completed { status: Status::Success, .. } => {}
                RdmapEvent::Received { buffer, solicited, invalidated, .. } => {
                    println!(
                        "owner: word has come: {:?}, solicited {solicited}",
                        String::from_utf8_lossy(&buffer)
                    );
                    if invalidated != Some(self.mailbox.stag) || !self.mailbox.is_invalidated() {
                        return Err("the mailbox is still open".into());
                    }
                    println!("owner: the visitor has closed the mailbox behind it");
                }
                RdmapEvent::PeerClosed => {}
                RdmapEvent::Closed => self.is_over = true,
                other => return Err(format!("owner: {other:?}").into()),
            }
        }
        Ok(())
    }
}

struct Visitor {
    stream: RdmapStream,
    memory: MemoryTable,
    copy: Arc<MemoryRegion>,
    mailbox: Stag,
    is_over: bool,
}

/// The visitor's requests.
const COUNT: u64 = 1;
const WRITE: u64 = 2;
const READ: u64 = 3;
const WORD: u64 = 4;

impl Visitor {
    fn new(agreement: &Agreement) -> Result<Self> {
        let association = Association::new(PdId(1));
        let mut stream = RdmapStream::new(agreement, association, 4);
        let mut memory = MemoryTable::new(2);
        let region = Region::owned(LETTER.len()).ok_or("no memory")?;
        let copy = association.register(&mut memory, region, 0, Access::LOCAL_WRITE)?;
        stream.post_buffer(0, vec![0; 4])?;
        Ok(Self { stream, memory, copy, mailbox: Stag(0), is_over: false })
    }

    fn poll(&mut self, line: &mut Line) -> Result {
        let mut llp = line.llp(0)?;
        while let Some(event) = self.stream.poll(&mut llp, &self.memory) {
            match event {
                RdmapEvent::Received { buffer, .. } => {
                    self.mailbox = Stag(u32::from_be_bytes(buffer.as_slice().try_into()?));
                    println!("visitor: the mailbox is {}", self.mailbox);
                    let add = AtomicOp::FetchAdd { add: 1, mask: 0 };
                    self.stream.atomic(COUNT, add, (self.mailbox, COUNTER))?;
                    self.stream.write(WRITE, (self.mailbox, ROOM), LETTER)?;
                    // A Read behind a Write fetches the written octets (RFC 5040 section 5.5).
                    let len = u32::try_from(LETTER.len())?;
                    self.stream.read(READ, (self.copy.stag, 0), (self.mailbox, ROOM), len)?;
                }
                RdmapEvent::Completed { id: COUNT, status: Status::Success, original } => {
                    println!(
                        "visitor: {} others were here before",
                        original.ok_or("an Atomic without an answer")?
                    );
                }
                RdmapEvent::Completed { id: READ, status: Status::Success, .. } => {
                    let mut octets = vec![0; LETTER.len()];
                    if !self.copy.region.copy_out(0, &mut octets) || octets != LETTER {
                        return Err("read back something else".into());
                    }
                    println!("visitor: the letter is there");
                    self.stream.send(WORD, b"you have mail", true, Some(self.mailbox))?;
                    self.stream.shutdown();
                }
                RdmapEvent::Completed { id: WRITE | WORD, status: Status::Success, .. }
                | RdmapEvent::PeerClosed => {}
                RdmapEvent::Closed => self.is_over = true,
                other => return Err(format!("visitor: {other:?}").into()),
            }
        }
        Ok(())
    }
}
