//! What a close says, and what is left for the peer.

use std::time::Duration;

use weft_exs::{Buf, Context, Error, Mode, Op, Options, Outcome, Ready, Socket, Stream};

use crate::world::{PATIENCE, World, octets};

type Ended = (Result<Outcome, Error>, Buf);

fn end<T>(op: Op<T>) -> T {
    op.wait_timeout(PATIENCE).expect("the operation ends")
}

fn send(context: &Context, socket: &Socket<Stream>, len: usize) -> Op<Ended> {
    let mut buf = context.buffer(len).unwrap();
    buf.copy_from_slice(&octets(1, len));
    socket.send(buf, ..)
}

fn brief() -> Options {
    Options { linger: Duration::from_millis(50), ..Options::default() }
}

/// Waits for the end of the connection. Nothing is received meanwhile.
fn see_the_end(socket: &Socket<Stream>) {
    while !socket.ready().ended {
        let _readable_before = end(socket.poll_ready(Ready { ended: true, ..Ready::default() }));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_close_whose_time_is_over_says_so() {
    let world = World::new();
    let (ours, theirs) = world.connect::<Stream>(&brief(), &Options::default());
    let sending = send(&world.client, &ours, 3_000_000);
    assert_eq!(end(ours.close()), Err(Error::TimedOut));
    assert_eq!(end(sending).0, Err(Error::TimedOut));
    // It says so again.
    assert_eq!(end(ours.close()), Err(Error::TimedOut));
    see_the_end(&theirs);
    // The end was there before this close.
    assert_eq!(end(theirs.close()), Ok(()));
}

#[test]
fn a_close_that_ends_the_connection_at_once_says_whether_it_has_cut_off_sends() {
    for is_sending in [true, false] {
        let world = World::new();
        let (ours, theirs) = world.connect::<Stream>(&brief(), &Options::default());
        ours.set_linger(Duration::ZERO);
        let sending = is_sending.then(|| send(&world.client, &ours, 3_000_000));
        let outcome = end(ours.close());
        assert_eq!(outcome, if is_sending { Err(Error::Canceled) } else { Ok(()) });
        assert!(sending.is_none_or(|op| end(op).0 == Err(Error::Canceled)));
        see_the_end(&theirs);
    }
}

#[test]
fn a_second_close_shortens_the_first_one() {
    let world = World::new();
    let (ours, _theirs) = world.connect::<Stream>(&Options::default(), &Options::default());
    let first = ours.close();
    ours.set_linger(Duration::ZERO);
    assert_eq!([end(ours.close()), end(first)], [Ok(()), Ok(())]);
}

#[test]
fn octets_that_have_come_are_received_behind_a_reset() {
    for (says_end, last) in [(true, Ok(Mode::End)), (false, Err(Error::Reset))] {
        let world = World::new();
        let (ours, theirs) = world.connect::<Stream>(&Options::default(), &brief());
        assert!(end(send(&world.server, &theirs, 1000)).0.is_ok());
        if says_end {
            // The peer does not close.
            assert_eq!(end(theirs.close()), Err(Error::TimedOut));
        } else {
            theirs.set_linger(Duration::ZERO);
            assert_eq!(end(theirs.close()), Ok(()));
        }
        see_the_end(&ours);
        let (received, buf) = end(ours.recv(world.client.buffer(600).unwrap(), ..));
        assert_eq!(received.map(|outcome| outcome.octets), Ok(600));
        let (received, rest) = end(ours.recv_all(world.client.buffer(600).unwrap(), ..));
        assert_eq!(received.map(|outcome| outcome.octets), Ok(400));
        assert!([&buf[..], &rest[..400]].concat() == octets(1, 1000));
        let received = end(ours.recv(world.client.buffer(1).unwrap(), ..)).0;
        assert_eq!(received.map(|outcome| outcome.mode), last);
        assert_eq!(end(send(&world.client, &ours, 1)).0, Err(Error::Reset));
    }
}

#[test]
fn a_context_closes_all_its_sockets_before_the_program_ends() {
    let world = World::new();
    let (ours, theirs) = world.connect::<Stream>(&Options::default(), &Options::default());
    let len = 3_000_000;
    let sending = send(&world.client, &ours, len);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(world.client.close_all(PATIENCE), 0));
        let (received, buf) = end(theirs.recv_all(world.server.buffer(len + 1).unwrap(), ..));
        assert_eq!(received.map(|outcome| outcome.octets as usize), Ok(len));
        assert!(buf[..len] == octets(1, len));
        assert_eq!(end(theirs.close()), Ok(()));
    });
    assert!(end(sending).0.is_ok());

    let (ours, theirs) = world.connect::<Stream>(&Options::default(), &Options::default());
    let sending = send(&world.client, &ours, len);
    assert_eq!(world.client.close_all(Duration::from_millis(50)), 1);
    assert_eq!(end(sending).0, Err(Error::Canceled));
    see_the_end(&theirs);
}
