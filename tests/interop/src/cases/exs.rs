//! Extended Sockets against a program on the guest's verbs that has the protocol from its page: it sends back as many
//! octets as come, and both ends check all of them.
//!
//! The guest's `peer_exs.c` has regions instead of windows, and allows nobody to invalidate them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use weft_exs::{Context, Kind as SocketKind, Messages, Mode, Options, Socket, Stream};

use crate::bench::{Bench, Role};
use crate::job::Job;
use crate::meeting::{Table, explain, finish, fresh_port};
use crate::pattern::{Kind, Pattern, Side};
use crate::verbs::{PATIENCE, text};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let table = Table::lay(bench, |config| config.nudge_after = Some(NUDGE_AFTER.into()))?;
    let context = Context::on(&table.host.device).map_err(text)?;
    let done = run_both(&table, &context);
    drop(context);
    // The capture is of most use if something has failed.
    let closed = table.host.close();
    done.and(closed)
}

fn run_both(table: &Table<'_>, context: &Context) -> Result<(), String> {
    let most = SIZES.into_iter().max().unwrap_or(0);
    let command = format!("exs -k message -C {} -S {most}", SIZES.len());
    with_peer(table, context, &command, |socket: &Socket<Messages>| exchange(context, socket))?;
    let command = format!("exs -k stream -S {STREAM}");
    with_peer(table, context, &command, |socket: &Socket<Stream>| echo(context, socket))
}

/// Connects with a `peer`, in the role of the bench, and closes the socket behind `act`.
fn with_peer<K: SocketKind>(
    table: &Table<'_>,
    context: &Context,
    command: &str,
    act: impl FnOnce(&Socket<K>) -> Result<(), String>,
) -> Result<(), String> {
    let (job, socket) = meet(table, context, command)?;
    let done = act(&socket).and_then(|()| {
        let closed = socket.close().wait_timeout(PATIENCE).map_err(|_| "the close does not end")?;
        closed.map_err(text)
    });
    done.map_err(|error| explain(&error, &job))?;
    finish(&job)
}

fn meet<K: SocketKind>(
    table: &Table<'_>,
    context: &Context,
    command: &str,
) -> Result<(Job, Socket<K>), String> {
    let options = Options::default();
    let late = |_| "no connection in time";
    if table.bench.role == Role::Passive {
        let (job, address) = table.start_listening(command)?;
        let socket = context.connect(address, &options).wait_timeout(PATIENCE).map_err(late)?;
        return socket.map(|socket| (job, socket)).map_err(text);
    }
    let SocketAddr::V4(address) = table.host.device.address(fresh_port()) else {
        return Err("the guest has no IPv6".into());
    };
    let listener = context.listen::<K>(SocketAddr::V4(address), &options).map_err(text)?;
    let peer = format!("peer {command} -c -a {} -p {}", address.ip(), address.port());
    let job = table.bench.guest.start(&peer)?;
    let accepted = listener.accept().wait_timeout(PATIENCE).map_err(late)?;
    let socket = accepted.map_err(|error| explain(&text(error), &job))?;
    Ok((job, socket))
}

/// Sends messages of all sizes, some at a time, and receives one of the same size for each.
fn exchange(context: &Context, socket: &Socket<Messages>) -> Result<(), String> {
    let most = SIZES.into_iter().max().unwrap_or(0);
    let (mut sends, mut receives) = (VecDeque::new(), VecDeque::new());
    for (index, size) in SIZES.into_iter().enumerate() {
        receives.push_back((index, size, socket.recv(context.buffer(most).map_err(text)?, ..)));
        let mut buf = context.buffer(size.max(1)).map_err(text)?;
        buf[..size].copy_from_slice(&Pattern::new(Side::Host, Kind::Send, 0, index).octets(size));
        sends.push_back(socket.send(buf, ..size));
    }
    for (index, size, receive) in receives {
        let late = |_| format!("message {index} does not come");
        let (received, buf) = receive.wait_timeout(PATIENCE).map_err(late)?;
        let received = received.map_err(text)?;
        let way = if size <= SMALL { Mode::Inline } else { Mode::Read };
        if (received.octets as usize, received.mode) != (size, way) {
            return Err(format!("message {index} of {size} octets: {received:?}"));
        }
        Pattern::new(Side::Guest, Kind::Send, 0, index).check(&buf[..size], "a message")?;
    }
    for send in sends {
        let (sent, _buf) = send.wait_timeout(PATIENCE).map_err(|_| "a send does not end")?;
        sent.map_err(text)?;
    }
    Ok(())
}

/// Sends a stream in parts of many sizes, and receives as much.
fn echo(context: &Context, socket: &Socket<Stream>) -> Result<(), String> {
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_stream(context, socket));
        let received = receive_stream(context, socket);
        let sent = sending.join().map_err(|_| "the sender has panicked")?;
        sent.and(received)
    })
}

fn send_stream(context: &Context, socket: &Socket<Stream>) -> Result<(), String> {
    let octets = Pattern::new(Side::Host, Kind::Send, 0, 0).octets(STREAM);
    let mut rest = &octets[..];
    for size in PARTS.into_iter().cycle() {
        let (part, behind) = rest.split_at(size.min(rest.len()));
        if part.is_empty() {
            break;
        }
        rest = behind;
        let mut buf = context.buffer(part.len()).map_err(text)?;
        buf.copy_from_slice(part);
        let (sent, _buf) = socket.send(buf, ..).wait_timeout(PATIENCE).map_err(|_| "a send does not end")?;
        sent.map_err(text)?;
    }
    socket.shutdown();
    Ok(())
}

fn receive_stream(context: &Context, socket: &Socket<Stream>) -> Result<(), String> {
    let mut octets = Vec::new();
    let mut buf = context.buffer(RECEIVE).map_err(text)?;
    loop {
        let (received, back) =
            socket.recv(buf, ..).wait_timeout(PATIENCE).map_err(|_| "the stream stalls")?;
        let received = received.map_err(text)?;
        if received.mode == Mode::End {
            break;
        }
        octets.extend_from_slice(&back[..received.octets as usize]);
        buf = back;
    }
    if octets.len() != STREAM {
        return Err(format!("{} octets of {STREAM} have come back", octets.len()));
    }
    Pattern::new(Side::Guest, Kind::Send, 0, 0).check(&octets, "the stream")
}

/// siw may leave the first message unread until more octets come.
const NUDGE_AFTER: Duration = Duration::from_millis(100);
/// Octets of messages: with immediate data up to 1 KiB, and read from the other end's memory.
const SIZES: [usize; 14] =
    [0, 1, 1000, 1024, 1025, 4096, 7, 65_535, 65_536, 100_000, 1024, 300_000, 3, 131_072];
/// The longest immediate data of both ends.
const SMALL: usize = 1024;
/// Octets of the stream.
const STREAM: usize = 1_000_000;
/// Octets of sends: shorter and longer than immediate data, than an advert of the guest, and than its ring.
const PARTS: [usize; 8] = [1, 1024, 1025, 20_000, 24 << 10, 100_000, 300_000, 512];
const RECEIVE: usize = 40_000;
