//! What a replica refuses.

use std::net::SocketAddr;

use weft_group::{
    Answer, Copying, Greeting, Hello, Key, Limits, Member, Named, OpError, Open, Opened, Options, Refusal,
    Request, Seal, Session, SessionError, Token, Topology, VERSION, status,
};
use weft_rnic::{Access, CmEvent, ConnParam, Data, Device, Qp, QpInit, RecvWr, SendOpcode, SendWr};

use crate::hosts::{Group, LEN, eventually, options};

fn reason(group: &Group, options: &Options) -> String {
    match group.open(options) {
        Err(SessionError::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_key_has_to_be_the_groups() {
    let key = |octet| Some(Key::new([octet; 32]));
    let group = Group::new(3, &Limits { key: key(1), ..Limits::default() });
    let of = |key| Options { key, ..options(Topology::Chain) };
    let none = "the group has a key, and none was given";
    for (wrong, complaint) in [(None, none), (key(2), "the key is not that of the group")] {
        let reason = reason(&group, &of(wrong));
        assert!(reason.starts_with("replica 0 at 127.0.0.1:"), "{reason}");
        assert!(reason.ends_with(&format!(": {complaint}")), "{reason}");
    }
    // The head passes the key on to the others.
    let mut session = group.open(&of(key(1))).unwrap();
    let id = session.write(0, b"in").unwrap();
    session.wait(id).unwrap();
    let state = status(&group.client, group.members()[1].address, &of(key(1))).unwrap();
    assert_eq!((state.open, state.sessions[0].index, state.sessions[0].is_ready), (1, 1, true));
    let refused = status(&group.client, group.members()[1].address, &of(None));
    assert_eq!(refused, Err(SessionError::Refused(none.into())));
}

/// A replica in the middle has another key: the client hears of it, and the head has no session left.
#[test]
fn a_replica_with_another_key_is_named() {
    let mut group = Group::new(3, &Limits { key: Some(Key::new([1; 32])), ..Limits::default() });
    group.hosts[1] = crate::hosts::Host::new(9, Limits { key: Some(Key::new([2; 32])), ..Limits::default() });
    let options = Options { key: Some(Key::new([1; 32])), ..options(Topology::Chain) };
    let reason = reason(&group, &options);
    assert!(reason.starts_with("replica 1 at 127.0.0.1:"), "{reason}");
    assert!(reason.ends_with(": the key is not that of the group"), "{reason}");
    let head = group.members()[0].address;
    eventually("no session", || status(&group.client, head, &options).unwrap().sessions.is_empty());
}

#[test]
fn there_are_so_many_sessions_and_no_more() {
    let group = Group::new(3, &Limits { sessions: 2, ..Limits::default() });
    let options = options(Topology::Chain);
    let mut sessions = [group.open(&options).unwrap(), group.open(&options).unwrap()];
    assert!(reason(&group, &options).ends_with("this replica has 2 sessions and takes no more"));
    for session in &mut sessions {
        let id = session.write(0, b"works").unwrap();
        session.wait(id).unwrap();
    }
    let [first, _second] = sessions;
    drop(first);
    eventually("there is room", || group.open(&options).is_ok());
}

#[test]
fn a_session_fits_the_replica() {
    let group = Group::new(2, &Limits { window: 64, ..Limits::default() });
    let plain = options(Topology::Chain);
    let len = LEN as u64;
    let cases = [
        (Options { range: Some(0..len + 1), ..plain.clone() }, "the range ends at 65537"),
        (Options { range: Some(len..len), ..plain.clone() }, "`range` is not two whole numbers"),
        (
            Options { range: Some(12..len), ..plain.clone() },
            "a range starts at a multiple of 8, and not at 12",
        ),
        (Options { window: 128, ..plain.clone() }, "a window is a power of two up to 64, and not 128"),
        (Options { window: 3, ..plain.clone() }, "a window is a power of two up to 64, and not 3"),
    ];
    for (options, expected) in cases {
        let reason = reason(&group, &options);
        assert!(reason.contains(expected), "{reason}");
    }
    let mut restarted = group.members();
    restarted[1].incarnation = restarted[1].incarnation.map(|incarnation| incarnation ^ 1);
    let refused = Session::open(&group.client, &restarted, &plain).unwrap_err();
    assert!(refused.to_string().contains("the member has started again, as "), "{refused}");
    assert!(refused.to_string().starts_with("replica 1 at "), "{refused}");
    let nobody: Vec<Member> = vec![group.members()[0], "127.0.0.1:1".parse::<SocketAddr>().unwrap().into()];
    let refused = Session::open(&group.client, &nobody, &plain).unwrap_err();
    assert_eq!(refused.to_string(), "replica 1 at 127.0.0.1:1: nobody listens there");
    assert!(matches!(Session::open(&group.client, &[], &plain), Err(SessionError::Refused(_))));
    assert!(matches!(Session::open(&group.client, &[nobody[0]; 17], &plain), Err(SessionError::Refused(_))));
    // The last refusals have left nothing: there is room for all sessions.
    let mut sessions: Vec<Session> = Vec::new();
    eventually("room for eight", || {
        sessions.extend(group.open(&plain).ok());
        sessions.len() == 8
    });
    let mut session = sessions.pop().unwrap();
    assert_eq!(session.write(len, b"x"), Err(OpError::Bounds.into()));
    let area = usize::try_from(plain.window * plain.piece).unwrap();
    assert_eq!(session.write(0, &vec![0; area + 1]), Err(OpError::TooLong.into()));
}

/// What a stranger may try: each connection is refused, or ends, and the session of somebody else goes on.
#[test]
fn strangers_do_not_get_in() {
    let group = Group::new(2, &Limits::default());
    let mut session = group.open(&options(Topology::Chain)).unwrap();
    let stranger = Stranger::new(&group.client, group.members()[0].address);
    let garbage: [&[u8]; 4] = [b"", b"weft-grp", b"weft-grp\x01", &[0xFF; 400]];
    for private_data in garbage {
        assert!(!stranger.connect(private_data), "{private_data:?}");
    }
    for token in [Token([0; 16]), Token([0xFF; 16])] {
        for greeting in [Greeting::Inward(token), Greeting::Outward(token)] {
            assert!(!stranger.connect(&greeting.encode()), "{greeting:?}");
        }
    }
    let messages: [(&[u8], &str); 4] = [
        (b"{\"status\":{}}", r#"{"refused":{"reason":"say hello first"}}"#),
        (b"{\"hello\":{\"version\":1,\"key\":null}}", "version 2 of the control plane, not 1"),
        (b"\xFF", "expected value"),
        (b"", "EOF while parsing"),
    ];
    for (message, expected) in messages {
        let stranger = Stranger::new(&group.client, group.members()[0].address);
        assert!(stranger.connect(&Greeting::Control.encode()));
        let answer = stranger.ask(message);
        assert!(answer.contains(expected), "{answer}");
    }
    // More connections than there are places, and none says Hello.
    let silent: Vec<Stranger<'_>> =
        (0..60).map(|_| Stranger::new(&group.client, group.members()[0].address)).collect();
    assert!(silent.iter().all(|stranger| stranger.connect(&Greeting::Control.encode())));
    let state = status(&group.client, group.members()[0].address, &Options::default()).unwrap();
    assert_eq!(state.open, 1);
    let id = session.write(0, b"goes on").unwrap();
    session.wait(id).unwrap();
}

/// A client that does by hand what `Session::open` does: each token admits one connection, of its own kind.
#[test]
fn a_token_admits_once() {
    let group = Group::new(1, &Limits::default());
    let address = group.members()[0].address;
    let stranger = || Stranger::new(&group.client, address);
    let control = stranger();
    assert!(control.connect(&Greeting::Control.encode()));
    let hello = Request::Hello(Hello { version: VERSION, key: None });
    assert!(control.ask(&hello.encode()).contains("welcome"));
    let members = vec![Member::from(address)];
    let open = Open { epoch: 0, session: 2, members, index: 0, range: 0..64, window: 4 };
    let opened = control.ask(&Request::Open(open.clone()).encode());
    let Ok(Answer::Opened(Opened { inward, outward, .. })) = Answer::parse(opened.as_bytes()) else {
        panic!("{opened}")
    };
    assert_ne!(inward, outward);
    let again = control.ask(&Request::Open(open).encode());
    assert!(again.contains("this connection has a session already"), "{again}");
    let mut near = outward;
    near.0[15] ^= 1;
    for wrong in [near, inward, Token([0; 16])] {
        assert!(!stranger().connect(&Greeting::Outward(wrong).encode()), "{wrong:?}");
    }
    for wrong in [near, outward, Token([0; 16])] {
        assert!(!stranger().connect(&Greeting::Inward(wrong).encode()), "{wrong:?}");
    }
    let (tail, head) = (stranger(), stranger());
    assert!(tail.connect(&Greeting::Outward(outward).encode()));
    assert!(!stranger().connect(&Greeting::Outward(outward).encode()), "a second time");
    assert!(head.connect(&Greeting::Inward(inward).encode()));
    assert!(!stranger().connect(&Greeting::Inward(inward).encode()), "a second time");
    assert!(control.ask(&Request::Close.encode()).contains("closed"));
    assert!(!stranger().connect(&Greeting::Outward(outward).encode()), "the session has ended");
}

/// What replicas lend for a copy is for one connection and one epoch. A connection does one thing at a time.
#[test]
fn what_is_lent_for_a_copy_ends_with_its_epoch() {
    let group = Group::new(1, &Limits::default());
    let member = group.members()[0];
    let control = || {
        let stranger = Stranger::new(&group.client, member.address);
        assert!(stranger.connect(&Greeting::Control.encode()));
        let hello = Request::Hello(Hello { version: VERSION, key: None });
        assert!(stranger.ask(&hello.encode()).contains("welcome"));
        stranger
    };
    let ask = |stranger: &Stranger<'_>, request: &Request| {
        Answer::parse(stranger.ask(&request.encode()).as_bytes()).unwrap()
    };
    let (reader, other) = (control(), control());
    let named = |epoch| Named { epoch, incarnation: member.incarnation.unwrap() };
    let unsealed = ask(&reader, &Request::Fetch(named(1)));
    assert_eq!(unsealed, Answer::Denied(Refusal::Sealed { epoch: 0 }));
    let sealed = ask(&other, &Request::Seal(Seal { epoch: 1, base: 0 }));
    assert!(matches!(sealed, Answer::Sealed(_)), "{sealed:?}");
    let refusals = [
        (
            Request::Fetch(Named { incarnation: 1, ..named(1) }),
            Answer::Denied(Refusal::Incarnation { own: member.incarnation.unwrap() }),
        ),
        (Request::Finish(named(2)), Answer::Denied(Refusal::Sealed { epoch: 1 })),
        (Request::Flush(named(1)), Answer::Done),
    ];
    for (request, answer) in refusals {
        assert_eq!(ask(&reader, &request), answer, "{request:?}");
    }
    let Answer::Lent(lent) = ask(&reader, &Request::Fetch(named(1))) else { panic!("nothing is lent") };
    assert_eq!(lent.size, LEN as u64);
    let busy = Answer::Refused("this connection has something under way".into());
    assert_eq!(ask(&reader, &Request::Flush(named(1))), busy);
    assert!(reader.reads(lent.data) && reader.reads(lent.hashes));
    assert!(!other.reads(lent.data), "it is lent to another connection");
    let other = control();
    // To copy from nobody, and from itself.
    let copy = |from| Request::Copy(Copying { to: named(1), from, from_incarnation: named(1).incarnation });
    let nobody = ask(&other, &copy("127.0.0.1:1".parse().unwrap()));
    assert!(matches!(nobody, Answer::SourceLost(_)), "{nobody:?}");
    assert_eq!(ask(&other, &copy(member.address)), Answer::Done);
    // The seal of a newer epoch comes: the loan is over, and its user is told.
    reader.await_message();
    let sealed = ask(&other, &Request::Seal(Seal { epoch: 2, base: 0 }));
    assert!(matches!(sealed, Answer::Sealed(_)), "{sealed:?}");
    let told = Answer::parse(reader.message().as_bytes());
    assert_eq!(told, Ok(Answer::Denied(Refusal::Sealed { epoch: 2 })));
    assert!(!reader.reads(lent.data), "it was lent in an older epoch");
    let id = {
        let mut session =
            Session::open(&group.client, &[member], &Options { epoch: 2, ..options(Topology::Chain) })
                .unwrap();
        let id = session.write(0, b"works").unwrap();
        session.wait(id).map(|_| id)
    };
    assert!(id.is_ok());
}

/// A queue pair that somebody connects who was not asked.
struct Stranger<'a> {
    device: &'a Device,
    events: weft_rnic::EventChannel,
    qp: Qp,
    cq: weft_rnic::Cq,
    memory: weft_rnic::Mr,
    address: SocketAddr,
}

impl<'a> Stranger<'a> {
    fn new(device: &'a Device, address: SocketAddr) -> Self {
        let (pd, cq) = (device.alloc_pd(), device.create_cq(64, None).unwrap());
        let qp = device.create_qp(&pd, &QpInit::new(&cq, &cq)).unwrap();
        let memory = pd.register(8192, Access::LOCAL_WRITE).unwrap();
        let events = device.create_event_channel().unwrap();
        Self { device, events, qp, cq, memory, address }
    }

    /// Returns whether the connection comes up.
    fn connect(&self, private_data: &[u8]) -> bool {
        let param = ConnParam { private_data, ..ConnParam::NONE };
        self.device.connect(&self.events, &self.qp, self.address, param).unwrap();
        let event = self.events.wait(Some(core::time::Duration::from_secs(30)));
        matches!(event, Some(CmEvent::Established { .. }))
    }

    /// Returns whether the peer lets it read the first octets behind this STag.
    fn reads(&self, stag: u32) -> bool {
        let sges = [self.memory.sge(0, 8)];
        let opcode = SendOpcode::Read { stag: weft_rnic::Stag(stag), to: 0 };
        let wr = SendWr { wr_id: 9, data: Data::Sges(&sges), signaled: true, ..SendWr::new(opcode) };
        if self.qp.post_send(&wr).is_err() {
            return false;
        }
        let mut is_read = None;
        eventually("the end of a read", || {
            is_read = self.cq.poll_one().filter(|completion| completion.wr_id == 9);
            is_read.is_some()
        });
        is_read.is_some_and(|completion| completion.status == weft_rnic::Status::Success)
    }

    fn ask(&self, message: &[u8]) -> String {
        self.await_message();
        self.memory.write(0, message).unwrap();
        let sges = [self.memory.sge(0, u32::try_from(message.len()).unwrap())];
        self.qp.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(SendOpcode::Send) }).unwrap();
        self.message()
    }

    fn await_message(&self) {
        let place = [self.memory.sge(4096, 4096)];
        self.qp.post_recv(&RecvWr { wr_id: 7, sges: &place }).unwrap();
    }

    fn message(&self) -> String {
        let mut answer = Vec::new();
        eventually("an answer", || {
            let Some(completion) = self.cq.poll_one() else { return false };
            assert_eq!((completion.status, completion.wr_id), (weft_rnic::Status::Success, 7));
            answer.resize(completion.byte_len as usize, 0);
            true
        });
        self.memory.read(4096, &mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }
}
