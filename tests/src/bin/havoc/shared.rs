//! A connection that a worker and its child use: one of them sends, the other one receives. Either may be killed.
//!
//! Both look at the other's direction now and then, so that they meet at its lock.

use std::io::{self, PipeReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fork;
use crate::talk::{Share, Talk};

/// Has a child share the connection from now on, and says its number to `tell`. Returns when the connection is over.
pub(crate) fn run(
    talk: &Talk,
    stream: &TcpStream,
    is_last: impl Fn() -> bool + Send,
    tell: impl FnOnce(u32),
) -> io::Result<()> {
    let mut share = talk.begin(stream, ROUNDS)?;
    let (reader, writer) = io::pipe()?;
    let is_child_sender = talk.id.is_multiple_of(2);
    let Some(child) = fork::fork()? else {
        drop(writer);
        run_child(talk, stream, &mut share, reader, is_child_sender)
    };
    drop(reader);
    tell(child);
    // The child hears by an octet that it is to finish, and by the end of the pipe that its parent does no more.
    let has_ended = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            fork::wait(child);
            has_ended.store(true, Ordering::Relaxed);
            stand_in(stream, is_child_sender);
        });
        if is_child_sender {
            let (writer, has_ended) = (&writer, &has_ended);
            scope.spawn(move || {
                // The watch takes a connection that waits for a dead child for one that stands still.
                while !is_last() && !has_ended.load(Ordering::Relaxed) {
                    std::thread::sleep(PAUSE);
                }
                let _gone = { writer }.write_all(b"\n");
            });
            talk.drain(stream, &mut share, fork::look_for_room)
        } else {
            talk.leave_watch();
            talk.pour(stream, &mut share, is_last, fork::peek)
        }
    });
    drop(writer);
    result
}

/// The child's part. It ends as its parent's other connections go on.
fn run_child(talk: &Talk, stream: &TcpStream, share: &mut Share, parent: PipeReader, is_sender: bool) -> ! {
    // Some children close all that they see, and with it what the library has opened for itself.
    let last = if talk.id % 4 < 2 { u32::MAX } else { 1023 };
    fork::close_others([stream.as_fd(), parent.as_fd()], last);
    let is_last = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                let _said_or_ended = (&parent).read(&mut [0]);
                is_last.store(true, Ordering::Relaxed);
            }
            stand_in(stream, !is_sender);
        });
        let result = if is_sender {
            talk.pour(stream, share, || is_last.load(Ordering::Relaxed), fork::peek)
        } else {
            talk.drain(stream, share, fork::look_for_room)
        };
        if let Err(error) = result {
            let kind = if error.kind() == io::ErrorKind::InvalidData { "wrong" } else { "broken" };
            fork::say(&format!("{kind} {} {error}", talk.id));
        }
        fork::say(&format!("left {}", std::process::id()));
        // The other thread may wait still.
        fork::exit()
    })
}

/// Does what the other process does no more, which may be dead: ends what it sent, or receives what nobody looks at.
fn stand_in(mut stream: &TcpStream, was_sender: bool) {
    if was_sender {
        let _as_before = stream.shutdown(Shutdown::Write);
        return;
    }
    let mut octets = [0; 4096];
    while stream.read(&mut octets).is_ok_and(|octets| octets > 0) {}
}

/// Rounds before the fork: most connections go by rings by then.
const ROUNDS: u32 = 20;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
