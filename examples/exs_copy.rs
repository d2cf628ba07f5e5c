//! A file copier on Extended Sockets, in two tasks. The name and the length come first and the checksum comes back, as
//! short messages that are read where they came. The octets are long messages, of which several are under way: the
//! receiver reads each from the sender's memory.
//!
//! `cargo run -p weft-examples --example exs_copy`

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weft_examples::Result;
use weft_exs::{Buf, Context, Error, Messages, Mode, Op, Options, Outcome, Socket};
use weft_rnic::{Config, Ground};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Octets of a long message.
const PART: usize = 256 << 10;
/// Long messages under way.
const PENDING: usize = 4;

fn main() -> Result {
    let (here, there) = (context(1)?, context(2)?);
    let listener = there.listen::<Messages>(SocketAddr::new(LOCAL, 0), &Options::default())?;
    let address = listener.local_addr();
    let file: Vec<u8> = (0..5_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (sent, received) = runtime.block_on(async {
        let client = async {
            let socket = here.connect::<Messages>(address, &Options::default()).await?;
            send_file(&here, &socket, "numbers", &file).await
        };
        let server = async {
            let socket = listener.accept().await?;
            receive_file(&there, &socket).await
        };
        tokio::join!(client, server)
    });
    let (name, copy) = received?;
    assert!(copy == file && sent? == crc32c::crc32c(&file));
    println!("{name}: {} octets have been copied", copy.len());
    Ok(())
}

fn context(seed: u64) -> Result<Context> {
    Ok(Context::open(Ground::Host, Config::host(LOCAL, seed))?)
}

/// Sends a file. Returns the checksum of what has arrived.
async fn send_file(context: &Context, socket: &Socket<Messages>, name: &str, file: &[u8]) -> Result<u32> {
    let heading = format!("{} {name}", file.len());
    say(context, socket, heading.as_bytes()).await?;
    let mut under_way: VecDeque<Op<(std::result::Result<Outcome, Error>, Buf)>> = VecDeque::new();
    for part in file.chunks(PART) {
        let mut buf = if under_way.len() < PENDING {
            context.buffer(PART)?
        } else {
            let (sent, buf) = under_way.pop_front().ok_or("one is under way")?.await;
            sent?;
            buf
        };
        buf[..part.len()].copy_from_slice(part);
        under_way.push_back(socket.send(buf, ..part.len()));
    }
    for op in under_way {
        op.await.0?;
    }
    let checksum = hear(context, socket).await?;
    Ok(u32::from_be_bytes(checksum.as_slice().try_into()?))
}

/// Receives a file. Returns its name and its octets.
async fn receive_file(context: &Context, socket: &Socket<Messages>) -> Result<(String, Vec<u8>)> {
    let heading = String::from_utf8(hear(context, socket).await?)?;
    let (len, name) = heading.split_once(' ').ok_or("no heading")?;
    let (len, mut file): (usize, Vec<u8>) = (len.parse()?, Vec::new());
    let mut under_way = VecDeque::new();
    for _ in 0..PENDING {
        under_way.push_back(socket.recv(context.buffer(PART)?, ..));
    }
    while file.len() < len {
        let (received, buf) = under_way.pop_front().ok_or("one is under way")?.await;
        let received = received?;
        if received.mode == Mode::End {
            return Err("the file is cut off".into());
        }
        file.extend_from_slice(&buf[..received.octets as usize]);
        under_way.push_back(socket.recv(buf, ..));
    }
    say(context, socket, &crc32c::crc32c(&file).to_be_bytes()).await?;
    Ok((name.to_owned(), file))
}

/// Sends a short message.
async fn say(context: &Context, socket: &Socket<Messages>, octets: &[u8]) -> Result {
    let mut buf = context.buffer(octets.len())?;
    buf.copy_from_slice(octets);
    socket.send(buf, ..).await.0?;
    Ok(())
}

/// Receives a short message, which is read where it came.
async fn hear(context: &Context, socket: &Socket<Messages>) -> Result<Vec<u8>> {
    let (received, _buf) = socket.recv_in_place(context.buffer(1)?, ..).await;
    let in_place = received?.in_place.ok_or("the message is not short")?;
    Ok(in_place.to_vec())
}
