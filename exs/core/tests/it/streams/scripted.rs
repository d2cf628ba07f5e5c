//! A session of a stream, and a peer that says what the test wants.

use core::time::Duration;

use weft_ddp::Stag;
use weft_exs_core::{
    Action, Advert, Body, Cause, Data, Fault, Kind, Loss, Message, Mode, Op, OpError, Outcome, Outgoing,
    Place, RecvRequest, Ring, Role, SendRequest, Session, Target, Terms,
};

const TERMS: Terms = Terms {
    kind: Kind::Stream,
    window: 8,
    peer_window: 200,
    send_credits: 2,
    recv_credits: 2,
    immediate: 1,
    invalidates: false,
    reads: 1,
    ring: 8,
    peer_ring: Some(Ring { len: 8, to: 0x1000, stag: Stag(1) }),
    direct_min: 100,
};

/// The session, and how many messages its peer has sent.
struct Test {
    session: Session,
    taken: u16,
}

impl Test {
    fn new() -> Self {
        let mut test = Self { session: Session::new(Role::Initiator, &TERMS), taken: 0 };
        test.does();
        test
    }

    /// All actions but Recv and CREDIT.
    fn does(&mut self) -> Vec<Action> {
        let actions = std::iter::from_fn(|| self.session.poll(true));
        let is_told = |action: &Action| match action {
            Action::Recv { .. } => false,
            Action::Send(outgoing) => outgoing.message.body != Body::Credit,
            _ => true,
        };
        actions.filter(is_told).collect()
    }

    /// Takes a message with these octets behind it, and returns what the session does.
    fn hears(&mut self, body: Body, payload: &[u8]) -> Vec<Action> {
        let mut octets = Message { limit: TERMS.peer_window, body }.encode().to_vec();
        octets.extend(payload);
        self.session.handle_message(self.taken % TERMS.window, &octets, None);
        self.taken += 1;
        self.does()
    }

    fn sends(&mut self, op: u64, len: u32, deadline: Option<u64>) -> Vec<Action> {
        let deadline = deadline.map(Duration::from_secs);
        let request = SendRequest { op: Op(op), len, elements: 1, stag: Stag(0), to: 0, deadline };
        self.session.send(request).unwrap();
        self.does()
    }

    /// Begins receives of these lengths, the first of which has this name.
    fn starts_receives(&mut self, first: u64, lens: &[u32]) {
        for (op, len) in (first..).map(Op).zip(lens.iter().copied()) {
            let (stag, to, deadline) = (Stag(0x100), 0, None);
            let request =
                RecvRequest { op, len, is_in_place: false, waits_for_all: false, stag, to, deadline };
            self.session.receive(request).unwrap();
        }
    }

    /// Receives, with a window that has the keys from 0xFF on.
    fn receives(&mut self, op: u64, waits_for_all: bool, deadline: Option<u64>) -> Vec<Action> {
        let (stag, to, deadline) = (Stag(0x0102_03FF), 0x2000, deadline.map(Duration::from_secs));
        let request =
            RecvRequest { op: Op(op), len: 4, is_in_place: false, waits_for_all, stag, to, deadline };
        self.session.receive(request).unwrap();
        self.does()
    }

    fn time(&mut self, seconds: u64) -> Vec<Action> {
        self.session.handle_time(Duration::from_secs(seconds));
        self.does()
    }
}

fn says(body: Body) -> Action {
    let message = Message { limit: 0, body };
    Action::Send(Outgoing { message, payload: None, invalidate: None, op: None })
}

/// Actions without the limits of messages.
fn plain(actions: Vec<Action>) -> Vec<Action> {
    let plain = |action| match action {
        Action::Send(Outgoing { message, payload, invalidate, op }) => {
            let message = Message { limit: 0, ..message };
            Action::Send(Outgoing { message, payload, invalidate, op })
        }
        other => other,
    };
    actions.into_iter().map(plain).collect()
}

fn data(position: u64, len: u32, target: Target) -> Data {
    Data { position, len, is_inline: false, target }
}

fn ring() -> Target {
    Target::Ring { holds: false }
}

fn advert(epoch: u32, len: u32, stag: u32, first: Option<u64>) -> Body {
    let waits_for_all = false;
    Body::Advert(Advert { epoch, len, stag: Stag(stag), to: 0x2000, first, waits_for_all })
}

fn done(op: u64, octets: u32, mode: Mode) -> Action {
    Action::Complete { op: Op(op), result: Ok(Outcome { octets, message_len: octets, mode }) }
}

fn failed(op: u64, error: OpError) -> Action {
    Action::Complete { op: Op(op), result: Err(error) }
}

/// DATA whose completion is told for this operation.
fn pushes(op: u64, data: Data) -> Action {
    let message = Message { limit: 0, body: Body::Data(data) };
    Action::Send(Outgoing { message, payload: None, invalidate: None, op: Some(Op(op)) })
}

fn gather(op: u64, at: u32, len: u32) -> Action {
    Action::Gather { op: Op(op), at, len }
}

#[test]
fn two_sends_share_the_two_writes_at_the_end_of_the_ring() {
    let mut test = Test::new();
    // Three times 2 octets of 8, and 1 as immediate data, which takes its place all the same.
    assert_eq!(test.sends(1, 7, None).len(), 3 * 3 + 2);
    test.hears(Body::Free { read: 6 }, &[]);
    test.session.handle_time(Duration::ZERO);
    let actions = std::iter::from_fn(|| test.session.poll(false)).count();
    assert_eq!(actions, 0);
    for (op, len) in [(2, 1), (3, 2)] {
        let request = SendRequest { op: Op(op), len, elements: 1, stag: Stag(0), to: 0, deadline: None };
        test.session.send(request).unwrap();
    }
    let write = |to, len| Action::Write { stag: Stag(1), to, len };
    let inline = Data { is_inline: true, ..data(9, 1, ring()) };
    assert_eq!(
        plain(test.does()),
        [
            gather(2, 0, 1),
            write(0x1007, 1),
            gather(3, 0, 1),
            write(0x1000, 1),
            pushes(3, data(7, 2, ring())),
            gather(3, 1, 1),
            pushes(3, inline),
        ]
    );
}

#[test]
fn a_send_completes_when_the_send_of_its_last_octets_has() {
    let mut test = Test::new();
    assert!(test.hears(advert(1, 4, 9, Some(0)), &[]).is_empty());
    let target = Target::Advert { epoch: 1, is_last: true };
    assert_eq!(
        plain(test.sends(1, 6, None)),
        [
            gather(1, 0, 4),
            Action::Write { stag: Stag(9), to: 0x2000, len: 4 },
            pushes(1, data(0, 4, target)),
            gather(1, 4, 2),
            Action::Write { stag: Stag(1), to: 0x1000, len: 2 },
            pushes(1, data(4, 2, ring())),
        ]
    );
    test.session.handle_done(Op(1), true);
    assert!(test.does().is_empty());
    test.session.handle_done(Op(1), true);
    assert_eq!(test.does(), [done(1, 6, Mode::Ring)]);
}

#[test]
fn sends_of_a_connection_that_has_ended_wait_for_what_is_posted() {
    let mut test = Test::new();
    test.sends(1, 2, None);
    test.sends(2, 2, None);
    test.session.handle_done(Op(1), true);
    assert_eq!(test.does(), [done(1, 2, Mode::Ring)]);
    // More than the ring takes.
    test.sends(3, 6, None);
    test.session.handle_loss(Loss::Reset);
    assert_eq!(test.does(), [Action::End { cause: Cause::Reset, abort: None }]);
    for op in [2, 3] {
        test.session.handle_done(Op(op), false);
        assert!(test.does().is_empty());
    }
    test.session.handle_done(Op(3), false);
    assert_eq!(test.does(), [failed(2, OpError::Reset), failed(3, OpError::Reset)]);
    assert!(test.session.is_idle());
}

#[test]
fn a_receive_ends_with_what_it_holds_when_the_connection_ends() {
    let mut test = Test::new();
    test.receives(1, true, None);
    test.receives(2, false, None);
    test.hears(Body::Data(data(0, 3, Target::Advert { epoch: 1, is_last: false })), &[]);
    test.session.handle_loss(Loss::Fin);
    assert_eq!(
        test.does(),
        [
            Action::End { cause: Cause::Reset, abort: None },
            Action::Revoke { op: Op(1) },
            done(1, 3, Mode::Direct),
            Action::Revoke { op: Op(2) },
            failed(2, OpError::Reset),
        ]
    );
}

#[test]
fn a_window_has_another_key_each_time_that_it_is_bound() {
    let mut test = Test::new();
    let bind = |at, len, stag| Action::BindPart { op: Op(1), at, len, stag: Stag(stag) };
    let first = |epoch, at: u32, stag, position| {
        let (stag, to) = (Stag(stag), u64::from(0x2000 + at));
        let advert = Advert { epoch, len: 4 - at, stag, to, first: Some(position), waits_for_all: true };
        says(Body::Advert(advert))
    };
    let begun = plain(test.receives(1, true, None));
    assert_eq!(begun, [bind(0, 4, 0x0102_03FF), first(1, 0, 0x0102_03FF, 0)]);
    let (from, to) = (Place::Ring { at: 0 }, Place::Memory { op: Op(1), at: 0 });
    assert_eq!(
        plain(test.hears(Body::Data(data(0, 1, ring())), &[])),
        [
            Action::Revoke { op: Op(1) },
            Action::Copy { from, to, len: 1 },
            bind(1, 3, 0x0102_0300),
            first(2, 1, 0x0102_0300, 1),
        ]
    );
    let inline = Data { is_inline: true, ..data(1, 1, ring()) };
    let (from, to) = (Place::Slot { slot: 1, at: 0 }, Place::Memory { op: Op(1), at: 1 });
    let actions = plain(test.hears(Body::Data(inline), &[7]));
    assert_eq!(actions[..2], [Action::Revoke { op: Op(1) }, Action::Copy { from, to, len: 1 }]);
}

#[test]
fn a_receive_whose_time_is_over_ends_when_the_peer_has_answered() {
    let mut test = Test::new();
    test.receives(1, false, Some(3));
    test.receives(2, false, None);
    // Its time is over too, but it is not advertised, so that it ends at once.
    test.receives(3, false, Some(3));
    assert_eq!(test.session.poll_at(), Some(Duration::from_secs(3)));
    assert!(test.time(2).is_empty());
    assert_eq!(plain(test.time(3)), [failed(3, OpError::TimedOut), says(Body::Revoke { epoch: 1 })]);
    assert_eq!(test.session.poll_at(), None);
    let actions = plain(test.hears(Body::Data(data(0, 0, ring())), &[]));
    assert_eq!(
        actions[..3],
        [Action::Revoke { op: Op(1) }, Action::Revoke { op: Op(2) }, failed(1, OpError::TimedOut),]
    );
    assert!(matches!(actions[3..], [Action::BindPart { op: Op(2), .. }, Action::Send(_)]));
}

#[test]
fn a_send_whose_time_is_over_ends_if_nothing_is_on_the_wire_and_else_the_connection_ends() {
    let mut test = Test::new();
    test.sends(1, 9, None);
    test.sends(2, 1, Some(4));
    assert_eq!(test.time(4), [failed(2, OpError::TimedOut)]);
    test.sends(3, 1, Some(5));
    assert_eq!(test.hears(Body::Free { read: 2 }, &[]).len(), 4, "one Write of two sends");
    let actions = test.time(5);
    let [Action::End { cause: Cause::TimedOut, abort: Some(abort) }] = actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(abort.body, Body::Abort(Fault::UnreadData));
}

#[test]
fn octets_and_adverts_take_turns() {
    let mut test = Test::new();
    test.starts_receives(1, &[2, 2]);
    let kinds = test.sends(3, 4, None).into_iter().filter_map(|action| match action {
        Action::Send(outgoing) => Some(matches!(outgoing.message.body, Body::Advert(_))),
        _ => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [true, false, true, false]);
}

#[test]
fn a_receive_that_immediate_data_fills_is_advertised_in_front_of_a_longer_one_only() {
    let mut test = Test::new();
    let lens = |actions: Vec<Action>| {
        let adverts = actions.into_iter().filter_map(|action| match action {
            Action::Send(Outgoing { message: Message { body: Body::Advert(advert), .. }, .. }) => {
                Some(advert.len)
            }
            _ => None,
        });
        adverts.collect::<Vec<u32>>()
    };
    test.starts_receives(1, &[1]);
    assert!(lens(test.does()).is_empty());
    test.starts_receives(2, &[2]);
    assert_eq!(lens(test.does()), [1, 2]);
    // A peer that holds waits for an advert of any receive.
    let mut test = Test::new();
    test.starts_receives(1, &[1, 1]);
    let holds = Data { position: 0, len: 1, is_inline: true, target: Target::Ring { holds: true } };
    assert_eq!(lens(test.hears(Body::Data(holds), &[7])), [1]);
}

#[test]
fn cancel_ends_sends_that_are_queued_and_receives() {
    let mut test = Test::new();
    test.sends(1, 9, None);
    test.sends(2, 1, None);
    test.sends(3, 0, None);
    test.receives(4, false, None);
    assert_eq!(test.session.cancel(Some(Op(3))), 1);
    assert_eq!(test.session.cancel(None), 2);
    assert_eq!(
        plain(test.does()),
        [failed(3, OpError::Canceled), failed(2, OpError::Canceled), says(Body::Revoke { epoch: 1 }),]
    );
    assert_eq!(test.session.cancel(None), 0);
}

#[test]
fn a_send_of_no_octets_has_its_turn_when_that_before_it_is_canceled() {
    let mut test = Test::new();
    test.sends(1, 8, None);
    (0..4).for_each(|_| test.session.handle_done(Op(1), true));
    assert_eq!(test.does(), [done(1, 8, Mode::Ring)]);
    test.sends(2, 1, None);
    test.sends(3, 0, None);
    assert_eq!(test.session.cancel(Some(Op(2))), 1);
    assert_eq!(test.does(), [failed(2, OpError::Canceled), done(3, 0, Mode::Direct)]);
}

#[test]
fn what_a_peer_must_not_say_ends_the_connection() {
    let target = Target::Advert { epoch: 1, is_last: true };
    let faults = [
        (Body::Data(data(0, 1, target)), Fault::NoAdvert),
        (Body::Data(data(0, 9, ring())), Fault::RingOverfilled),
        (Body::Data(data(0, 0, ring())), Fault::WrongState),
        (Body::Data(data(1, 1, ring())), Fault::OutOfOrder),
        (advert(2, 4, 9, Some(0)), Fault::OutOfOrder),
        (Body::Free { read: 1 }, Fault::FreedTooMuch),
        (Body::Revoke { epoch: 1 }, Fault::OutOfOrder),
        (Body::Shutdown { end: 1 }, Fault::OutOfOrder),
    ];
    for (body, fault) in faults {
        let actions = Test::new().hears(body, &[]);
        let [Action::End { cause, abort: Some(abort) }] = actions[..] else { panic!("{actions:?}") };
        assert_eq!((cause, abort.body), (Cause::Fault(fault), Body::Abort(fault)), "{body:?}");
    }
}

/// It waits for the answer to its REVOKE. A time that is over would have the caller come back for ever.
#[test]
fn a_canceled_receive_has_no_deadline_any_more() {
    let mut test = Test::new();
    test.receives(1, false, Some(3));
    assert_eq!(test.session.cancel(None), 1);
    assert_eq!(plain(test.does()), [says(Body::Revoke { epoch: 1 })]);
    assert_eq!(test.time(4), []);
    assert_eq!(test.session.poll_at(), None);
}

/// The same of one that ends since this side reads no more.
#[test]
fn a_receive_that_is_stopped_has_no_deadline_when_that_is_over() {
    let mut test = Test::new();
    test.receives(1, false, Some(3));
    test.session.stop_receiving();
    assert_eq!(plain(test.does()), [says(Body::Revoke { epoch: 1 })]);
    assert_eq!(test.time(4), []);
    assert_eq!(test.session.poll_at(), None);
}

/// Receives end in the order of their starts, those behind the end of reading as well. A cancel ends one in front of the
/// others, which has then been canceled, and is no end of the stream.
#[test]
fn a_receive_behind_the_end_of_reading_waits_for_its_turn_or_is_canceled() {
    let mut test = Test::new();
    test.receives(1, false, None);
    test.session.stop_receiving();
    assert_eq!(plain(test.does()), [says(Body::Revoke { epoch: 1 })]);
    assert_eq!([test.receives(2, false, None), test.receives(3, true, None)], [[], []]);
    assert_eq!(test.session.cancel(Some(Op(2))), 1);
    assert_eq!(test.does(), [failed(2, OpError::Canceled)]);
    let answer = Body::Data(data(0, 0, ring()));
    let ended = |op| Action::Complete { op: Op(op), result: Ok(Outcome::END) };
    assert_eq!(test.hears(answer, &[]), [Action::Revoke { op: Op(1) }, ended(1), ended(3)]);
}

/// Else the connection would end in front of octets that the send queue still has, and the send without success.
#[test]
fn a_close_waits_for_sends_that_have_not_left() {
    let mut test = Test::new();
    test.sends(1, 2, None);
    test.session.close(Duration::from_secs(30));
    assert_eq!(plain(test.does()), [says(Body::Shutdown { end: 2 })]);
    assert_eq!(test.hears(Body::Shutdown { end: 0 }, &[]), []);
    test.session.handle_done(Op(1), true);
    let closed = Action::End { cause: Cause::Closed, abort: None };
    assert_eq!(test.does(), [done(1, 2, Mode::Ring), closed, Action::Closed]);
}
