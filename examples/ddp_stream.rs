//! A ULP on DDP alone: a small file service.
//!
//! The client gives the STag of a buffer in an untagged message. The server places the file there by tagged messages,
//! and reports this on another queue.
//!
//! `cargo run -p weft-examples --example ddp_stream`

use std::sync::Arc;

use weft_examples::{Line, Result};
use weft_mpa::Config;
use weft_rnic::ulp::{Agreement, Association, DdpEvent, DdpStream, MemoryRegion, MemoryTable, PdId, Source};
use weft_rnic::{Access, Region, Stag};

/// Queues of this protocol: requests of the client, and reports of the server.
const REQUESTS: u32 = 0;
const REPORTS: u32 = 1;
const QUEUES: u16 = 2;

/// The ULP's own octet of a tagged message: more of the file follows.
const MORE: u8 = 0x01;
const END: u8 = 0x00;

const FILE: usize = 20_000;

fn main() -> Result {
    // DDP has no Reads and no RTR message to negotiate, so plain MPA (RFC 5044) is enough.
    let wish = Config { enhanced: false, ..Config::default() };
    let mut line = Line::new()?;
    let [client, server] = line.start([wish; 2])?;
    println!("connected: CRC {}, {} octets a segment", client.negotiated.crc, line.llp(0)?.emss());

    let mut client = Client::new(&client)?;
    let mut server = Server::new(&server)?;
    line.run(|line| {
        client.poll(line)?;
        server.poll(line)?;
        Ok(client.is_over && server.is_over)
    })?;

    let mut octets = vec![0; FILE];
    if !client.file.region.copy_out(0, &mut octets) || octets != contents() {
        return Err("the file differs".into());
    }
    println!("the file has come whole: {FILE} octets in {} tagged messages", client.parts);
    Ok(())
}

/// Returns the file of the server.
fn contents() -> Vec<u8> {
    (0..FILE).map(|i| (i % 251).to_le_bytes()[0]).collect()
}

struct Client {
    stream: DdpStream,
    memory: MemoryTable,
    file: Arc<MemoryRegion>,
    parts: usize,
    is_over: bool,
}

impl Client {
    fn new(agreement: &Agreement) -> Result<Self> {
        let association = Association::new(PdId(1));
        let mut stream = DdpStream::new(agreement, association, QUEUES)?;
        let mut memory = MemoryTable::new(1);
        let region = Region::owned(FILE).ok_or("no memory")?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let file = association.register(&mut memory, region, 0, access)?;
        stream.post_buffer(REPORTS, 1, vec![0; 64])?;
        // The request names the place for the file.
        stream.send_untagged(2, REQUESTS, [0; 5], file.stag.0.to_be_bytes().to_vec())?;
        Ok(Self { stream, memory, file, parts: 0, is_over: false })
    }

    fn poll(&mut self, line: &mut Line) -> Result {
        let mut llp = line.llp(0)?;
        while let Some(event) = self.stream.poll(&mut llp, &self.memory) {
            match event {
                DdpEvent::Tagged { to, rsvd, .. } => {
                    println!(
                        "client: {to:?} of the file, {}",
                        if rsvd == MORE { "and more to come" } else { "the end" }
                    );
                    self.parts += 1;
                }
                DdpEvent::Untagged { queue, msn, buffer, .. } => {
                    println!("client: report {msn} on queue {queue}: {:?}", String::from_utf8_lossy(&buffer));
                    // From now on the server may not write there any more.
                    self.memory.deregister(self.file.stag).ok_or("not registered")?;
                    self.stream.shutdown();
                }
                DdpEvent::Sent { .. } | DdpEvent::PeerClosed => {}
                DdpEvent::Closed => self.is_over = true,
                other => return Err(format!("client: {other:?}").into()),
            }
        }
        Ok(())
    }
}

struct Server {
    stream: DdpStream,
    memory: MemoryTable,
    source: Stag,
    is_over: bool,
}

impl Server {
    fn new(agreement: &Agreement) -> Result<Self> {
        let association = Association::new(PdId(1));
        let mut stream = DdpStream::new(agreement, association, QUEUES)?;
        let mut memory = MemoryTable::new(2);
        let region = Region::owned(FILE).ok_or("no memory")?;
        if !region.copy_in(0, &contents()) {
            return Err("the file is larger than its memory".into());
        }
        let source = association.register(&mut memory, region, 0, Access::LOCAL_READ)?.stag;
        stream.post_buffer(REQUESTS, 1, vec![0; 4])?;
        Ok(Self { stream, memory, source, is_over: false })
    }

    fn poll(&mut self, line: &mut Line) -> Result {
        let mut llp = line.llp(1)?;
        while let Some(event) = self.stream.poll(&mut llp, &self.memory) {
            match event {
                DdpEvent::Untagged { buffer, .. } => {
                    let stag = Stag(u32::from_be_bytes(buffer.as_slice().try_into()?));
                    println!("server: asked to write the file to {stag}");
                    // Each message has one segment, so that the other end hears of each.
                    let step = self.stream.max_tagged(&llp);
                    for to in (0..FILE).step_by(step) {
                        let len = step.min(FILE - to);
                        let rsvd = if to + len < FILE { MORE } else { END };
                        let source =
                            Source::Memory { stag: self.source, to: to as u64, len: u32::try_from(len)? };
                        self.stream.send_tagged(2, (stag, to as u64), rsvd, source)?;
                    }
                    self.stream.send_untagged(3, REPORTS, [0; 5], b"that was it")?;
                }
                DdpEvent::Sent { .. } => {}
                DdpEvent::PeerClosed => self.stream.shutdown(),
                DdpEvent::Closed => self.is_over = true,
                other => return Err(format!("server: {other:?}").into()),
            }
        }
        Ok(())
    }
}
