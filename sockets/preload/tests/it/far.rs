//! Connections between two hosts whose lanes or daemons do not last.

use weft_daemon::Drained;
use weft_sockets::Reason;
use weft_sockets::end::{DRAIN, STAYS};
use weft_sockets::layout::{ASKED, ATTACHED, DECLINED, End, LOST_BEFORE_RING};

use crate::between::{Hosts, Sight, wait_until};
use crate::program::Script;

/// Writes octets of a chosen number, each by a call of its own, and does as it is told.
const SENDER: &str = "
import select, socket, sys
listener = socket.create_server(('10.79.0.1', 7000))
print('listens')
a, _ = listener.accept()
for line in sys.stdin:
    word, *rest = line.split()
    if word == 'send':
        for n in range(int(rest[0])): a.send(b'0123456789')
    elif word == 'take': a.recv(1 << 16)
    elif word == 'cork': a.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, int(rest[0]))
    elif word == 'shut': a.shutdown(socket.SHUT_WR)
    elif word == 'look': select.select([a], [], [], 0)
    print('done')
";

/// Reads what it is told to, and tells how the stream ends.
const READER: &str = "
import os, socket, sys
a = socket.create_connection(('10.79.0.1', 7000))
print('connected')
for line in sys.stdin:
    word, *rest = line.split()
    if word == 'send':
        for n in range(int(rest[0])): a.send(b'x')
    elif word == 'read':
        len(a.recv(int(rest[0]), socket.MSG_WAITALL))
    elif word == 'hand': os.set_inheritable(a.fileno(), True)
    elif word == 'rest':
        count = 0
        try:
            while octets := a.recv(1 << 16): count += len(octets)
            print(count, 'end')
        except OSError as error: print(count, error.strerror)
    print('done')
";

/// Has a script do something, and waits until it has.
fn order(script: &mut Script, order: &str) {
    script.say(order);
    assert_eq!(script.line(), "done", "{order}");
}

/// Has a script make calls until it has taken its channel.
fn sight(script: &mut Script, call: &str) -> Sight {
    loop {
        order(script, call);
        if let Some(sight) = Sight::of(script).filter(|sight| sight.end().is_some()) {
            return sight;
        }
    }
}

/// Has the sender take its channel, and attach to it in the other direction: then its reader's host knows of it. A sender that
/// has a cork in begins no ring.
fn met(sender: &mut Script) -> Sight {
    let sight = sight(sender, "look");
    order(sender, "cork 1");
    order(sender, "take");
    assert_ne!(sight.attached(), DECLINED, "the sender looks for a ring");
    sight
}

/// Starts a sender and its reader, which has read 50 octets. `None`, and a line that says why: that cannot be.
fn talking(hosts: &Hosts) -> Option<[Script; 2]> {
    let mut sender = hosts.start(0, SENDER, "auto")?;
    assert_eq!(sender.line(), "listens");
    let mut reader = hosts.start(1, READER, "auto")?;
    assert_eq!(reader.line(), "connected");
    order(&mut sender, "send 5");
    Some([sender, reader])
}

/// As nginx does when it lingers: the sender ends its stream and waits for the other end's word, past the library. The lane opens
/// behind that.
#[test]
fn a_far_reader_hears_the_end_of_a_stream_that_was_shut_down_before_its_channel_came() {
    let Some(hosts) = Hosts::new("shut") else { return };
    hosts.hold_lanes("add");
    let Some([mut sender, mut reader]) = talking(&hosts) else { return };
    order(&mut reader, "read 50");
    order(&mut reader, "send 4");
    // Both claims wait. A daemon that has looked at one asks for a lane.
    wait_until(|| hosts.asks_for_lane(1));
    order(&mut sender, "shut");
    hosts.hold_lanes("del");
    let there = sight(&mut reader, "send 1");
    while there.attached() == 0 {
        order(&mut reader, "send 1");
    }
    assert_ne!(there.attached(), DECLINED, "the reader looks for a ring");
    reader.say("rest");
    assert_eq!((reader.line(), reader.line()), ("0 end".into(), "done".into()));
}

/// The session ends, by the end of the daemon of either host, before the sender has begun a ring for its reader.
#[test]
fn a_far_reader_gets_the_rest_by_tcp_if_the_ring_never_begins() {
    for (daemon, turns) in [(1, 7), (0, 7), (0, 0)] {
        let Some(mut hosts) = Hosts::new("renounce") else { return };
        let Some([mut sender, mut reader]) = talking(&hosts) else { return };
        order(&mut reader, "read 50");
        let there = sight(&mut reader, "send 1");
        while there.attached() == 0 {
            order(&mut reader, "send 1");
        }
        let here = met(&mut sender);
        wait_until(|| here.attached_there() == ATTACHED);
        hosts.stop_daemon(daemon);
        if daemon == 1 {
            wait_until(|| here.please() == LOST_BEFORE_RING);
        }
        assert_eq!(here.end().map(|end| end.outbound.leg().number), Some(0), "no ring has begun");
        order(&mut sender, "cork 0");
        // Without a daemon, the first of these calls begins a ring that nobody carries.
        order(&mut sender, &format!("send {turns}"));
        order(&mut sender, "shut");
        reader.say("rest");
        let told = format!("{} end", turns * 10);
        assert_eq!((reader.line(), reader.line()), (told, "done".into()), "daemon {daemon}");
    }
}

/// The reader prepares its socket for another program, with octets of TCP unread, while it has no daemon. The other host's
/// daemon does not know the session any more in which the question would have come.
#[test]
fn a_far_reader_that_asks_for_tcp_without_a_daemon_is_answered_by_way_of_the_next_one() {
    let Some(mut hosts) = Hosts::new("ask") else { return };
    let Some([mut sender, mut reader]) = talking(&hosts) else { return };
    order(&mut reader, "read 20");
    let there = sight(&mut reader, "send 1");
    while there.attached() == 0 {
        order(&mut reader, "send 1");
    }
    let here = met(&mut sender);
    wait_until(|| here.attached_there() == ATTACHED);
    hosts.stop_daemon(1);
    wait_until(|| here.please() == LOST_BEFORE_RING);
    reader.say("hand");
    wait_until(|| there.asks());
    hosts.start_daemon(1);
    assert_eq!(reader.line(), "done");
    assert_eq!((there.attached(), here.please()), (DECLINED, ASKED));
    // No record comes.
    order(&mut sender, "cork 0");
    order(&mut sender, "send 7");
    order(&mut sender, "shut");
    reader.say("rest");
    assert_eq!((reader.line(), reader.line()), ("100 end".into(), "done".into()));
}

/// The reader has nothing to send by a ring, so that no record tells why it asks for TCP.
#[test]
fn a_far_sender_tells_why_its_reader_wants_tcp() {
    for (is_drained, why, reason) in
        [(true, Reason::Drained, Reason::Drained), (false, Reason::Exec, Reason::Refused)]
    {
        let Some(hosts) = Hosts::new("why") else { return };
        let Some([mut sender, mut reader]) = talking(&hosts) else { return };
        order(&mut reader, "read 50");
        let there = sight(&mut reader, "send 1");
        while there.attached() == 0 {
            order(&mut reader, "send 1");
        }
        let here = met(&mut sender);
        order(&mut sender, "cork 0");
        let end = here.end().expect("an end");
        while end.outbound.leg().number == 0 {
            order(&mut sender, "send 1");
        }
        let draining = is_drained.then(|| hosts.drain(1, reader.pid()));
        wait_until(|| !is_drained || there.end().is_some_and(|end| end.has(DRAIN)));
        reader.say(if is_drained { "send 1" } else { "hand" });
        while !end.has(STAYS) {
            order(&mut sender, "send 1");
        }
        assert_eq!(reader.line(), "done");
        let reasons = [there.end(), Some(end)].map(|end| end.and_then(End::reason));
        assert_eq!(reasons, [Some(why), Some(reason)]);
        if let Some(draining) = draining {
            assert_eq!(draining.join().expect("no panic"), Drained { done: 1, left: 0 });
        }
    }
}
