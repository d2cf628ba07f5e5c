//! What the library counts of a program's connections.

use std::sync::atomic::Ordering::Relaxed;

use weft_sockets::Slab;
use weft_sockets::end::{Phase, SHARED, STAYS};
use weft_sockets::layout::End;

use crate::program::Script;

/// Written and consumed octets of an end.
fn counts(end: &End) -> (u64, u64) {
    (end.outbound.written.load(Relaxed), end.inbound.consumed.load(Relaxed))
}

/// Ends in use.
fn ends(slab: &Slab) -> Vec<&End> {
    let ends = slab.ends().map(|(_, end)| end);
    ends.filter(|end| end.state().phase != Phase::Free).collect()
}

const CONNECT: &str = "
import os, socket, struct, sys, ctypes
listener = socket.create_server(('127.0.0.1', 0))
a = socket.create_connection(listener.getsockname())
b, _ = listener.accept()
def pause():
    print('here')
    input()
";

fn script(text: &str) -> Option<Script> {
    Script::start(&format!("{CONNECT}{text}"))
}

#[test]
fn every_call_that_moves_octets_is_counted() {
    let Some(mut script) = script(
        "
a.send(b'x' * 10)
a.sendall(b'x' * 20)
a.sendmsg([b'x' * 30, b'x' * 40])
os.write(a.fileno(), b'x' * 50)
os.writev(a.fileno(), [b'x' * 60, b'x' * 70])
b.recv(10)
b.recv(20, socket.MSG_WAITALL)
b.recvmsg(70)
os.read(b.fileno(), 50)
os.readv(b.fileno(), [bytearray(60), bytearray(70)])
pause()
a.send(b'y' * 1000)
b.recv(600, socket.MSG_PEEK)
b.recv(600, socket.MSG_TRUNC)
r, w = os.pipe()
os.write(w, b'z' * 300)
os.splice(r, a.fileno(), 300)
os.splice(b.fileno(), w, 200)
with open('/proc/self/exe', 'rb') as file:
    os.sendfile(a.fileno(), file.fileno(), 0, 4000)
try:
    b.recv(1, socket.MSG_DONTWAIT | socket.MSG_ERRQUEUE)
except OSError:
    pass
pause()
libc = ctypes.CDLL(None)
libc.syscall(1, a.fileno(), b'q' * 5, ctypes.c_size_t(5))
libc.__write(a.fileno(), b'q' * 6, ctypes.c_size_t(6))
octets = ctypes.create_string_buffer(7)
piece = (ctypes.c_size_t * 2)(ctypes.addressof(octets), 7)
libc.pwritev64v2(a.fileno(), piece, 1, ctypes.c_long(-1), 0)
libc.preadv64v2(b.fileno(), piece, 1, ctypes.c_long(-1), 0)
pause()
",
    ) else {
        return;
    };
    assert_eq!(script.line(), "here");
    let slab = script.slab();
    // The listener is the first end.
    let end = |place: usize| ends(&slab)[place];
    assert_eq!([1, 2].map(|place| counts(end(place))), [(280, 0), (0, 280)]);
    script.go_on();
    script.line();
    assert_eq!([1, 2].map(|place| counts(end(place))), [(280 + 5300, 0), (0, 280 + 600 + 200)]);
    script.go_on();
    script.line();
    assert_eq!([1, 2].map(|place| counts(end(place))), [(5580 + 18, 0), (0, 1080 + 7)]);
    script.end();
}

#[test]
fn an_end_lives_until_its_last_descriptor_is_closed() {
    let Some(mut script) = script(
        "
c = os.dup(a.fileno())
a.close()
os.write(c, b'x' * 7)
os.dup2(c, 77)
os.close(c)
pause()
os.dup2(0, 77)
pause()
os.closerange(3, 70)
pause()
",
    ) else {
        return;
    };
    script.line();
    let slab = script.slab();
    assert_eq!(ends(&slab).len(), 3);
    assert_eq!(counts(ends(&slab)[1]), (7, 0));
    script.go_on();
    script.line();
    assert_eq!(ends(&slab).len(), 2, "the last duplicate was overwritten");
    script.go_on();
    script.line();
    assert_eq!(ends(&slab).len(), 0);
    script.end();
}

#[test]
fn a_child_of_fork_holds_the_ends_and_counts_in_them() {
    let Some(mut script) = script(
        "
order, told = os.pipe()
child = os.fork()
if child == 0:
    os.close(told)
    os.read(order, 1)
    a.send(b'x' * 8)
    os._exit(0)
a.send(b'x' * 4)
a.close()
pause()
os.write(told, b'!')
os.waitpid(child, 0)
pause()
",
    ) else {
        return;
    };
    script.line();
    let slab = script.slab();
    assert_eq!(ends(&slab).len(), 3, "the child still holds the end that its parent has closed");
    let end = ends(&slab)[1];
    assert_eq!((counts(end), end.holders.members().count()), ((4, 0), 1));
    assert!(ends(&slab).iter().all(|end| end.has(SHARED)));
    let pids = slab.header().members.iter().filter(|member| member.pid.load(Relaxed) != 0);
    assert_eq!(pids.count(), 2);
    script.go_on();
    script.line();
    assert_eq!(counts(end), (12, 0));
    script.end();
}

#[test]
fn a_child_of_vfork_changes_nothing_in_its_parent() {
    let Some(mut script) = script(
        "
import subprocess
assert subprocess._USE_VFORK
subprocess.run(['/bin/true'], close_fds=True, stdin=a, check=True)
a.send(b'x' * 9)
pause()
",
    ) else {
        return;
    };
    script.line();
    let slab = script.slab();
    assert_eq!(ends(&slab).len(), 3);
    assert_eq!(counts(ends(&slab)[1]), (9, 0));
    script.end();
}

#[test]
fn sockets_that_stdio_uses_and_urgent_data_stay_on_tcp() {
    let Some(mut script) = script(
        "
libc = ctypes.CDLL(None)
assert libc.dprintf(a.fileno(), b'%d %.1f %s', 12, ctypes.c_double(1.5), b'text') == 11
assert b.recv(100) == b'12 1.5 text'
b.send(b'!', socket.MSG_OOB)
pause()
",
    ) else {
        return;
    };
    script.line();
    let slab = script.slab();
    let reasons: Vec<_> = ends(&slab).iter().map(|end| end.has(STAYS).then(|| end.reason())).collect();
    use weft_sockets::Reason::{Stdio, Urgent};
    assert_eq!(reasons, [None, Some(Some(Stdio)), Some(Some(Urgent))]);
    script.end();
}
