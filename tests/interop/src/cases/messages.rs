//! rdma-core's rdma_client and rdma_server: they connect, send each other 16 octets, and disconnect.

use std::net::SocketAddr;
use std::time::Duration;

use weft_rnic::{Completion, ConnParam, DisconnectReason, EventChannel, Status};

use crate::bench::{Bench, Role};
use crate::job::Job;
use crate::meeting::next_request;
use crate::verbs::{Host, Link, PATIENCE, is_receive, text};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let host = Host::open(bench.guest.wire(), &bench.pcap(), |_| {})?;
    match bench.role {
        Role::Passive => be_client(bench, &host)?,
        Role::Active => be_server(bench, &host)?,
    }
    host.close()
}

fn be_client(bench: &Bench<'_>, host: &Host) -> Result<(), String> {
    let server = bench.guest.start("rdma_server -s 10.0.0.1")?;
    bench.guest.wait_listening(PORT)?;
    let events = host.events()?;
    let link = link(host, &events)?;
    let remote = SocketAddr::from(([10, 0, 0, 1], PORT));
    host.device.connect(&events, &link.qp, remote, ConnParam::default()).map_err(text)?;
    link.wait_established()?;
    link.send_inline(&[0x5A; MESSAGE], true)?;
    await_end(&server, &link)?;
    for _ in 0..2 {
        check_completion(&link.next_completion()?)?;
    }
    check_message(&link)?;
    check_end(&link)
}

/// siw may leave a frame that follows its Reply at once unread until more octets come.
fn await_end(server: &Job, link: &Link) -> Result<(), String> {
    for _ in 0..NUDGES {
        if let Ok(output) = server.wait(NUDGE_AFTER) {
            return expect_good(&output.lines);
        }
        link.nudge()?;
    }
    expect_good(&server.wait(PATIENCE)?.lines)
}

fn be_server(bench: &Bench<'_>, host: &Host) -> Result<(), String> {
    let events = host.events()?;
    let _listener = host.device.listen(&events, PORT).map_err(text)?;
    let client = bench.guest.start("rdma_client -s 10.0.0.2")?;
    let request = next_request(&events)?;
    let link = link(host, &events)?;
    host.device.accept(request.id, &link.qp, ConnParam::default()).map_err(text)?;
    link.wait_established()?;
    check_completion(&link.next_completion()?)?;
    check_message(&link)?;
    link.send_inline(&[0xA5; MESSAGE], true)?;
    check_completion(&link.next_completion()?)?;
    check_end(&link)?;
    expect_good(&client.wait(PATIENCE)?.lines)
}

/// Makes a queue pair with a receive for the message, in memory that shows whether it came.
fn link(host: &Host, events: &EventChannel) -> Result<Link, String> {
    let link = host.link(events, MESSAGE)?;
    link.mail.write(0, &[0xFF; MESSAGE]).map_err(text)?;
    link.post_mail(0)?;
    Ok(link)
}

fn check_completion(completion: &Completion) -> Result<(), String> {
    let is_short = is_receive(completion) && completion.byte_len as usize != MESSAGE;
    if completion.status == Status::Success && !is_short { Ok(()) } else { Err(format!("{completion:?}")) }
}

/// Checks the message. Both programs send a buffer that they never write to, which is zero.
fn check_message(link: &Link) -> Result<(), String> {
    let mut octets = [0xFF; MESSAGE];
    link.mail.read(0, &mut octets).map_err(text)?;
    if octets == [0; MESSAGE] { Ok(()) } else { Err(format!("received {octets:02x?}")) }
}

/// Checks the end. Both programs disconnect when they have the other's message.
fn check_end(link: &Link) -> Result<(), String> {
    match link.wait_disconnected()? {
        DisconnectReason::Peer => Ok(()),
        reason => Err(format!("the end: {reason}")),
    }
}

fn expect_good(lines: &[String]) -> Result<(), String> {
    match lines.last() {
        Some(last) if last.ends_with("end 0") => Ok(()),
        _ => Err(format!("in the guest: {}", lines.join(" / "))),
    }
}

/// The octets of the message.
const MESSAGE: usize = 16;
const PORT: u16 = 7471;
const NUDGES: u32 = 20;
const NUDGE_AFTER: Duration = Duration::from_millis(500);
