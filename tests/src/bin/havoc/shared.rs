//! A connection that a worker and its child use: one of them sends, the other one receives. Either may be killed.
//!
//! Both look at the other's direction now and then, so that they meet at its lock.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::child;
use crate::fork;
use crate::talk::Talk;

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
        child::run(talk, stream, &mut share, reader, is_child_sender)
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
            talk.drain(stream, &mut share, || fork::look_for_room(stream))
        } else {
            talk.leave_watch();
            Talk::pour(stream, &mut share, is_last, || fork::peek(stream))?;
            stream.shutdown(Shutdown::Write)
        }
    });
    drop(writer);
    result
}

/// Does what the child does no more, which may be dead: ends what it sent, or receives what nobody looks at.
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
