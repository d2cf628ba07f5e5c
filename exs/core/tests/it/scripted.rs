//! A session and a peer of literal octets, which may do anything.

use core::time::Duration;

use weft_ddp::Stag;
use weft_exs_core::{
    Ack, Action, Body, Cause, Extent, Fault, Kind, Loss, Message, Mode, Msg, Op, OpError, Outcome, Outgoing,
    Place, RecvRequest, Role, SendRequest, Session, Source, Terms,
};

const TERMS: Terms = Terms {
    kind: Kind::Message,
    window: 8,
    peer_window: 8,
    send_credits: 3,
    recv_credits: 3,
    immediate: 4,
    invalidates: true,
    reads: 4,
    ring: 0,
    peer_ring: None,
    direct_min: 1,
};

/// The session, and what its peer has sent.
struct Test {
    session: Session,
    limit: u16,
    taken: u16,
}

/// The fields of a message behind its limit: type, flags, id, len, stag, a, b.
type Octets = (u8, u8, u32, u32, u32, u64, u64);

impl Test {
    /// An initiator whose first CREDIT is out, and whose peer has answered with one.
    fn new() -> Self {
        Self::with(&TERMS)
    }

    fn with(terms: &Terms) -> Self {
        let mut test = Self { session: Session::new(Role::Initiator, terms), limit: 9, taken: 0 };
        let slots = (0..terms.window).map(|slot| Action::Recv { slot });
        let first = Message { limit: terms.window, body: Body::Credit };
        let hello = Action::Send(Outgoing { message: first, payload: None, invalidate: None, op: None });
        assert_eq!(test.actions(), slots.chain([hello]).collect::<Vec<_>>());
        test
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.session.poll(true)).collect()
    }

    /// Bodies of the messages that are sent, with the STags that they invalidate, and the other actions but receives.
    fn does(&mut self) -> Vec<Action> {
        let actions = self.actions().into_iter().filter(|action| !matches!(action, Action::Recv { .. }));
        actions
            .filter(|action| {
                !matches!(action, Action::Send(Outgoing { message: Message { body: Body::Credit, .. }, .. }))
            })
            .collect()
    }

    fn hears(&mut self, octets: Octets, payload: &[u8], invalidated: Option<u32>) {
        let (kind, flags, id, len, stag, a, b) = octets;
        let mut message = vec![kind, flags];
        message.extend(self.limit.to_be_bytes());
        message.extend([id, len, stag].map(u32::to_be_bytes).as_flattened());
        message.extend([a, b].map(u64::to_be_bytes).as_flattened());
        message.extend(payload);
        self.session.handle_message(self.taken % 8, &message, invalidated.map(Stag));
        self.taken += 1;
    }

    fn hears_read(&mut self, id: u32, len: u32) {
        self.hears((0x10, 0, id, len, 500 + id, 0x9000, 0), &[], None);
    }

    fn hears_inline(&mut self, id: u32, octets: &[u8]) {
        self.hears((0x10, 1, id, u32::try_from(octets.len()).unwrap(), 0, 0, 0), octets, None);
    }

    fn sends(&mut self, op: u64, len: u32) {
        let request =
            SendRequest { op: Op(op), len, elements: 1, stag: Stag(100), to: 0x1000, deadline: None };
        assert_eq!(self.session.send(request), Ok(()));
    }

    fn receives(&mut self, op: u64, len: u32) {
        let request = RecvRequest {
            op: Op(op),
            len,
            is_in_place: false,
            waits_for_all: false,
            stag: Stag(0),
            to: 0,
            deadline: None,
        };
        assert_eq!(self.session.receive(request), Ok(()));
    }
}

fn copy(op: u64, slot: u16, len: u32) -> Action {
    Action::Copy { from: Place::Slot { slot, at: 0 }, to: Place::Memory { op: Op(op), at: 0 }, len }
}

fn done(op: u64, octets: u32, message_len: u32, mode: Mode) -> Action {
    Action::Complete { op: Op(op), result: Ok(Outcome { octets, message_len, mode }) }
}

fn failed(op: u64, error: OpError) -> Action {
    Action::Complete { op: Op(op), result: Err(error) }
}

fn end(op: u64) -> Action {
    Action::Complete { op: Op(op), result: Ok(Outcome::END) }
}

/// Returns the bodies of messages, and the STags that they invalidate.
fn sent(actions: &[Action]) -> Vec<(Body, Option<Stag>)> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send(Outgoing { message, invalidate, .. }) => Some((message.body, *invalidate)),
        _ => None,
    });
    sent.collect()
}

fn ack(id: u32, extent: Extent, stag: Option<u32>) -> (Body, Option<Stag>) {
    (Body::Ack(Ack { id, extent }), stag.map(Stag))
}

const CREDIT: Octets = (0x01, 0, 0, 0, 0, 0, 0);
const fn peer_ack(id: u32) -> Octets {
    (0x11, 0, id, 0, 0, 0, 0)
}
const fn peer_shutdown(count: u64) -> Octets {
    (0x30, 0, 0, 0, 0, count, 0)
}

/// What a peer does, and what it is blamed for.
type Wrong = (Fault, fn(&mut Test));

#[test]
fn each_fault_ends_the_connection_and_is_told() {
    let cases: [Wrong; 16] = [
        (Fault::Malformed, |test| test.hears((0x02, 0, 0, 0, 0, 0, 0), &[], None)),
        (Fault::Malformed, |test| test.hears((0x10, 1, 0, 3, 0, 0, 0), b"ab", None)),
        (Fault::Malformed, |test| test.session.handle_message(0, &[1; 31], None)),
        (Fault::BeyondCredits, |test| (0..4).for_each(|id| test.hears_read(id, 9))),
        (Fault::BeyondCredits, |test| (0..9).for_each(|_| test.hears(CREDIT, &[], None))),
        (Fault::OutOfOrder, |test| test.hears_read(1, 9)),
        (Fault::OutOfOrder, |test| test.hears(peer_shutdown(1), &[], None)),
        (Fault::OutOfOrder, |test| {
            test.limit = 10;
            test.hears(CREDIT, &[], None);
        }),
        (Fault::OutOfOrder, |test| {
            test.hears(CREDIT, &[], None);
            test.limit = 8;
            test.hears(CREDIT, &[], None);
        }),
        (Fault::NotOut, |test| test.hears(peer_ack(0), &[], None)),
        (Fault::NotOut, |test| {
            test.sends(1, 9);
            test.actions();
            test.hears(peer_ack(0), &[], Some(101));
        }),
        (Fault::NotOut, |test| {
            test.sends(1, 9);
            test.actions();
            test.hears((0x11, 1, 0, 10, 0, 0, 0), &[], None);
        }),
        (Fault::NotOut, |test| {
            test.sends(1, 9);
            test.actions();
            test.hears(CREDIT, &[], Some(100));
        }),
        (Fault::AfterShutdown, |test| {
            test.hears(peer_shutdown(0), &[], None);
            test.hears_read(0, 9);
        }),
        (Fault::AfterShutdown, |test| (0..2).for_each(|_| test.hears(peer_shutdown(0), &[], None))),
        (Fault::WrongState, |test| test.hears((0x22, 0, 0, 0, 0, 1, 0), &[], None)),
    ];
    for (number, (fault, wrong)) in cases.into_iter().enumerate() {
        let mut test = Test::new();
        wrong(&mut test);
        assert_eq!(test.session.ended(), Some(Cause::Fault(fault)), "case {number}");
        let actions = test.actions();
        let aborts = |action: &&Action| matches!(action, Action::End { abort: Some(Message { body: Body::Abort(told), .. }), .. } if *told == fault);
        assert_eq!(actions.iter().filter(aborts).count(), 1, "case {number}: {actions:?}");
        assert!(sent(&actions).is_empty(), "nothing is sent behind it");
    }
}

#[test]
fn a_responder_is_silent_until_the_initiator_has_spoken() {
    let mut test = Test { session: Session::new(Role::Responder, &TERMS), limit: 8, taken: 0 };
    test.sends(1, 2);
    assert!(test.does().is_empty());
    test.hears(CREDIT, &[], None);
    assert_eq!(sent(&test.actions()), [(Body::Msg(Msg { id: 0, len: 2, source: Source::Inline }), None)]);

    let mut test = Test { session: Session::new(Role::Responder, &TERMS), limit: 8, taken: 0 };
    test.hears_inline(0, b"a");
    assert_eq!(test.session.ended(), Some(Cause::Fault(Fault::WrongState)));
}

#[test]
fn an_abort_of_the_peer_ends_the_connection() {
    let reasons = [(4, Cause::Blamed(Fault::NoAdvert)), (10, Cause::Reset)];
    for (code, cause) in reasons {
        let mut test = Test::new();
        test.receives(1, 8);
        test.hears((0x31, 0, code, 0, 0, 0, 0), &[], None);
        assert_eq!(test.actions(), [Action::End { cause, abort: None }, failed(1, cause.error())]);
    }
}

#[test]
fn a_send_completes_only_when_nothing_posted_can_reach_its_memory() {
    let mut test = Test::new();
    test.sends(1, 9);
    test.sends(2, 4);
    let source = Source::Memory { stag: Stag(100), to: 0x1000 };
    let actions = test.does();
    assert_eq!(actions[0], Action::Bind { op: Op(1) });
    let first = Body::Msg(Msg { id: 0, len: 9, source });
    let second = Body::Msg(Msg { id: 1, len: 4, source: Source::Inline });
    assert_eq!(sent(&actions), [(first, None), (second, None)]);
    // The peer lies: nothing has left yet.
    test.hears(peer_ack(1), &[], None);
    test.session.handle_done(Op(1), true);
    test.session.handle_done(Op(2), true);
    assert!(test.does().is_empty());
    test.session.handle_done(Op(1), true);
    let completed = [Action::Revoke { op: Op(1) }, done(1, 9, 9, Mode::Read), done(2, 4, 4, Mode::Inline)];
    assert_eq!(test.does(), completed);
}

#[test]
fn a_window_that_the_peer_has_taken_out_of_use_is_not_revoked() {
    let mut test = Test::new();
    test.sends(1, 9);
    test.actions();
    (0..2).for_each(|_| test.session.handle_done(Op(1), true));
    test.hears((0x11, 1, 0, 5, 0, 0, 0), &[], Some(100));
    assert_eq!(test.does(), [done(1, 5, 9, Mode::Read)]);
}

#[test]
fn a_peer_that_takes_nothing_more_shuts_the_sends_down() {
    let mut test = Test::new();
    test.sends(1, 1);
    test.sends(2, 1);
    test.actions();
    (1..=2).for_each(|op| test.session.handle_done(Op(op), true));
    test.hears((0x11, 1, 1, 0, 0, 0, 1), &[], None);
    assert_eq!(test.does(), [done(1, 1, 1, Mode::Inline), failed(2, OpError::Shutdown)]);
}

#[test]
fn no_more_messages_are_out_than_there_are_credits() {
    let mut test = Test::new();
    (1..=5).for_each(|op| test.sends(op, 1));
    assert_eq!(sent(&test.actions()).len(), 3);
    test.hears(peer_ack(0), &[], None);
    assert_eq!(sent(&test.does()).len(), 1);
    assert_eq!(test.session.cancel(None), 1, "the last one is not out");
    assert_eq!(test.does(), [failed(5, OpError::Canceled)]);
}

#[test]
fn the_last_place_is_for_credit() {
    let mut test = Test::with(&Terms { send_credits: 100, ..TERMS });
    // One of the peer's eight slots has taken the CREDIT.
    (1..=9).for_each(|op| test.sends(op, 1));
    assert_eq!(sent(&test.actions()).len(), 6);
    test.limit = 8;
    (0..3).for_each(|_| test.hears(CREDIT, &[], None));
    assert_eq!(sent(&test.actions()), []);
    test.hears(CREDIT, &[], None);
    assert_eq!(sent(&test.actions()), [(Body::Credit, None)]);
    (0..4).for_each(|_| test.hears(CREDIT, &[], None));
    assert_eq!(sent(&test.actions()), [], "there is no place at all");
    test.limit = 10;
    test.hears(CREDIT, &[], None);
    assert_eq!(sent(&test.actions()).len(), 1, "the last place is kept");
}

#[test]
fn immediate_data_has_one_acknowledgement_for_many_and_reads_have_one_for_each() {
    let mut test = Test::new();
    (1..=3).for_each(|op| test.receives(op, 8));
    test.hears_inline(0, b"ab");
    test.hears_inline(1, b"c");
    test.hears_read(2, 9);
    let actions = test.does();
    let copies = [copy(1, 0, 2), done(1, 2, 2, Mode::Inline)];
    let more = [copy(2, 1, 1), done(2, 1, 1, Mode::Inline)];
    assert_eq!(actions[..4], [copies, more].concat());
    assert_eq!(actions[4], Action::Read { op: Op(3), len: 8, stag: Stag(502), to: 0x9000 });
    assert_eq!(sent(&actions), [ack(1, Extent::Full, None)]);
    test.session.handle_done(Op(3), true);
    let actions = test.does();
    assert_eq!(actions[0], done(3, 8, 9, Mode::Read));
    assert_eq!(sent(&actions), [ack(2, Extent::Placed(8), Some(502))]);
}

#[test]
fn stags_of_a_peer_that_does_not_want_it_are_not_invalidated() {
    let mut test = Test::with(&Terms { invalidates: false, ..TERMS });
    test.receives(1, 8);
    test.hears_read(0, 8);
    test.actions();
    test.session.handle_done(Op(1), true);
    assert_eq!(sent(&test.actions()), [ack(0, Extent::Full, None)]);
}

#[test]
fn a_truncated_message_is_acknowledged_alone() {
    let mut test = Test::new();
    test.receives(1, 8);
    test.receives(2, 1);
    test.receives(3, 0);
    test.hears_inline(0, b"ab");
    test.hears_inline(1, b"cd");
    test.hears_read(2, 9);
    let acks = [ack(1, Extent::Placed(1), None), ack(2, Extent::Placed(0), Some(502))];
    assert_eq!(sent(&test.actions()), acks);
}

#[test]
fn a_slot_in_place_holds_back_the_acknowledgements_behind_it() {
    let mut test = Test::new();
    let request = RecvRequest {
        op: Op(1),
        len: 0,
        is_in_place: true,
        waits_for_all: false,
        stag: Stag(0),
        to: 0,
        deadline: None,
    };
    assert_eq!(test.session.receive(request), Ok(()));
    test.receives(2, 8);
    test.hears_inline(0, b"abc");
    test.hears_inline(1, b"d");
    let actions = test.actions();
    assert!(actions.contains(&done(1, 3, 3, Mode::InPlace { slot: 0 })));
    assert!(actions.contains(&done(2, 1, 1, Mode::Inline)));
    assert!(!actions.contains(&Action::Recv { slot: 0 }), "the user has it");
    assert_eq!(sent(&actions), []);
    assert!(!test.session.recycle(1), "nobody has that one");
    assert!(test.session.recycle(0) && !test.session.recycle(0));
    assert_eq!(sent(&test.actions()), [ack(1, Extent::Full, None)]);
}

#[test]
fn acknowledgements_and_messages_take_turns() {
    let mut test = Test::new();
    (1..=2).for_each(|op| test.receives(op, 8));
    (0..2).for_each(|id| test.hears_read(id, 8));
    test.actions();
    (3..=4).for_each(|op| test.sends(op, 1));
    (1..=2).for_each(|op| test.session.handle_done(Op(op), true));
    let is_ack: Vec<bool> =
        sent(&test.actions()).iter().map(|(body, _)| matches!(body, Body::Ack(_))).collect();
    assert_eq!(is_ack, [true, false, true, false]);
}

#[test]
fn messages_are_not_taken_after_the_user_has_said_so() {
    let mut test = Test::new();
    test.receives(1, 8);
    test.hears_read(0, 8);
    test.receives(2, 8);
    test.actions();
    test.session.stop_receiving();
    test.hears_inline(1, b"a");
    assert_eq!(test.does(), [], "receives end in order");
    test.session.handle_done(Op(1), true);
    let actions = test.does();
    assert_eq!(actions[..2], [done(1, 8, 8, Mode::Read), end(2)]);
    assert_eq!(sent(&actions), [ack(0, Extent::Full, Some(500)), ack(1, Extent::NotTaken, None)]);
    test.receives(3, 8);
    assert_eq!(test.does(), [end(3)]);
}

#[test]
fn after_the_peers_last_message_receives_end_with_nothing() {
    let mut test = Test::new();
    test.hears_inline(0, b"a");
    test.hears(peer_shutdown(1), &[], None);
    (1..=2).for_each(|op| test.receives(op, 8));
    let actions = test.does();
    assert_eq!(actions[1..3], [done(1, 1, 1, Mode::Inline), end(2)]);
}

#[test]
fn a_message_behind_one_that_was_lost_is_not_received() {
    let mut test = Test::new();
    test.receives(1, 100);
    test.receives(2, 4);
    test.hears_read(0, 100);
    test.hears_inline(1, b"ab");
    test.does();
    test.session.handle_done(Op(1), false);
    test.session.handle_loss(Loss::Reset);
    let ended = test.does().into_iter().filter(|action| matches!(action, Action::Complete { .. }));
    assert_eq!(ended.collect::<Vec<_>>(), [1, 2].map(|op| failed(op, OpError::Reset)));
}

#[test]
fn a_lost_connection_ends_a_receive_only_when_its_read_has_been_flushed() {
    let mut test = Test::new();
    (1..=2).for_each(|op| test.receives(op, 8));
    test.hears_read(0, 8);
    test.sends(3, 9);
    test.actions();
    test.session.handle_loss(Loss::Reset);
    let lost = Action::End { cause: Cause::Reset, abort: None };
    assert_eq!(test.actions(), [lost]);
    test.session.handle_done(Op(3), false);
    assert_eq!(test.actions(), [], "its Bind has completed, and not its Send");
    test.session.handle_done(Op(1), false);
    assert_eq!(test.actions(), [failed(1, OpError::Reset), failed(2, OpError::Reset)]);
    test.session.handle_done(Op(3), false);
    assert_eq!(test.actions(), [Action::Revoke { op: Op(3) }, failed(3, OpError::Reset)]);
    let request = SendRequest { op: Op(4), len: 1, elements: 1, stag: Stag(0), to: 0, deadline: None };
    assert_eq!(test.session.send(request), Err(OpError::Reset));
}

#[test]
fn time_ends_what_the_peer_does_not_know_and_else_the_connection() {
    let at = Duration::from_secs;
    let mut test = Test::with(&Terms { send_credits: 1, ..TERMS });
    let send = |op, seconds| SendRequest {
        op: Op(op),
        len: 1,
        elements: 1,
        stag: Stag(0),
        to: 0,
        deadline: Some(at(seconds)),
    };
    test.session.send(send(1, 9)).unwrap();
    test.session.send(send(2, 3)).unwrap();
    let request = RecvRequest {
        op: Op(3),
        len: 1,
        is_in_place: false,
        waits_for_all: false,
        stag: Stag(0),
        to: 0,
        deadline: Some(at(2)),
    };
    test.session.receive(request).unwrap();
    test.actions();
    assert_eq!(test.session.poll_at(), Some(at(2)));
    test.session.handle_time(at(2));
    assert_eq!((test.actions(), test.session.poll_at()), (vec![failed(3, OpError::TimedOut)], Some(at(3))));
    test.session.handle_time(at(4));
    assert_eq!((test.actions(), test.session.poll_at()), (vec![failed(2, OpError::TimedOut)], Some(at(9))));
    test.session.handle_done(Op(1), true);
    test.session.handle_time(at(9));
    let actions = test.actions();
    assert!(matches!(actions[0], Action::End { cause: Cause::TimedOut, abort: Some(_) }), "{actions:?}");
    assert_eq!(actions[1..], [failed(1, OpError::TimedOut)]);
}

#[test]
fn a_close_waits_for_everything_and_then_the_initiator_closes_the_connection() {
    let mut test = Test::new();
    test.sends(1, 1);
    test.receives(2, 8);
    test.session.close(Duration::from_secs(30));
    let actions = test.does();
    assert_eq!(actions[0], failed(2, OpError::Canceled));
    assert_eq!(sent(&actions).last(), Some(&(Body::Shutdown { end: 1 }, None)));
    test.session.handle_done(Op(1), true);
    test.hears(peer_shutdown(0), &[], None);
    assert_eq!(test.does(), []);
    test.hears(peer_ack(0), &[], None);
    let closed = Action::End { cause: Cause::Closed, abort: None };
    assert_eq!(test.does(), [done(1, 1, 1, Mode::Inline), closed, Action::Closed]);
}

#[test]
fn a_responder_waits_a_second_for_the_initiator_to_close_the_connection() {
    let closing = || {
        let mut test = Test { session: Session::new(Role::Responder, &TERMS), limit: 8, taken: 0 };
        test.hears(CREDIT, &[], None);
        test.hears(peer_shutdown(0), &[], None);
        test.session.handle_time(Duration::from_secs(5));
        test.session.close(Duration::from_secs(30));
        assert_eq!(sent(&test.actions()), [(Body::Shutdown { end: 0 }, None)]);
        assert_eq!(test.session.poll_at(), Some(Duration::from_secs(6)));
        test
    };
    let closed = [Action::End { cause: Cause::Closed, abort: None }, Action::Closed];
    let mut test = closing();
    test.session.handle_loss(Loss::Fin);
    assert_eq!(test.actions(), closed);
    let mut test = closing();
    test.session.handle_time(Duration::from_secs(6));
    assert_eq!(test.actions(), closed);
}

#[test]
fn what_nobody_has_read_resets_the_connection_at_its_close() {
    let later = Duration::from_secs(30);
    let cases: [fn(&mut Test); 4] = [
        |test| test.hears_inline(0, b"a"),
        |test| test.hears_read(0, 9),
        |test| {
            let request = RecvRequest {
                op: Op(1),
                len: 1,
                is_in_place: true,
                waits_for_all: false,
                stag: Stag(0),
                to: 0,
                deadline: None,
            };
            test.session.receive(request).unwrap();
            test.hears_inline(0, b"a");
        },
        |test| {
            test.session.close(Duration::from_secs(30));
            test.actions();
            test.hears_inline(0, b"a");
        },
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let mut test = Test::new();
        case(&mut test);
        test.session.close(later);
        let actions = test.actions();
        let is_reset = |action: &Action| {
            let Action::End { cause: Cause::Abandoned, abort: Some(message) } = action else { return false };
            message.body == Body::Abort(Fault::UnreadData)
        };
        assert!(actions.iter().any(is_reset), "case {number}: {actions:?}");
        assert_eq!(actions.last(), Some(&Action::Closed), "case {number}");
    }
}

#[test]
fn a_close_ends_at_once_or_when_its_time_is_over() {
    for seconds in [0, 7] {
        let mut test = Test::new();
        test.sends(1, 1);
        test.actions();
        test.session.close(Duration::from_secs(seconds));
        assert_eq!(test.session.ended().is_some(), seconds == 0);
        test.session.handle_time(Duration::from_secs(seconds));
        let (cause, error) = match seconds {
            0 => (Cause::Abandoned, OpError::Canceled),
            _ => (Cause::TimedOut, OpError::TimedOut),
        };
        assert_eq!(test.session.ended(), Some(cause));
        assert!(!test.actions().contains(&Action::Closed), "a Send is posted");
        test.session.handle_done(Op(1), false);
        assert_eq!(test.actions(), [failed(1, error), Action::Closed]);
        assert_eq!(test.session.closed(), Err(error));
    }
}

#[test]
fn without_room_nothing_is_posted() {
    let mut test = Test::new();
    test.receives(1, 8);
    test.hears_inline(0, b"a");
    test.sends(2, 9);
    let quiet: Vec<Action> = std::iter::from_fn(|| test.session.poll(false)).collect();
    assert!(quiet.contains(&done(1, 1, 1, Mode::Inline)));
    assert!(quiet.iter().all(|action| !matches!(action, Action::Send(_) | Action::Bind { .. })), "{quiet:?}");
    assert_eq!(sent(&test.actions()).len(), 2);
}
