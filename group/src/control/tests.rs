//! Messages as they are written and read.

use proptest::prelude::*;

use super::*;

fn open() -> Open {
    let member = |text: &str| Member { address: text.parse().unwrap(), incarnation: None };
    Open {
        epoch: 3,
        session: u64::MAX,
        members: vec![
            Member { incarnation: Some(u64::MAX), ..member("10.0.0.1:1") },
            member("[fd00::2%3]:65535"),
        ],
        index: 1,
        range: 4096..u64::MAX,
        window: 128,
    }
}

const NAMED: Named = Named { epoch: 4, incarnation: 1 << 63 };

fn status(progress: Option<[u64; 2]>) -> Status {
    let (size, incarnation, sealed, served, open) = (1, 2, 4, 3, 1);
    let sessions = vec![session_status()];
    Status { size, incarnation, sealed, served, is_stored: true, progress, limit: 8, open, sessions }
}

fn session_status() -> SessionStatus {
    SessionStatus {
        epoch: u64::MAX,
        session: u64::MAX,
        peer: "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535".parse().unwrap(),
        index: 15,
        replicas: 16,
        range: u64::MAX - 1..u64::MAX,
        window: 4096,
        is_ready: false,
    }
}

fn requests() -> Vec<Request> {
    vec![
        Request::Hello(Hello { version: VERSION, key: None }),
        Request::Hello(Hello { version: 0, key: Some([0xA5; KEY_LEN]) }),
        Request::Open(open()),
        Request::Close,
        Request::Status,
        Request::Seal(Seal { epoch: 4, base: 3 }),
        Request::Copy(Copying {
            to: NAMED,
            from: "[fd00::2]:7471".parse().unwrap(),
            from_incarnation: u64::MAX,
        }),
        Request::Fetch(NAMED),
        Request::Flush(NAMED),
        Request::Finish(NAMED),
    ]
}

fn answers() -> Vec<Answer> {
    let opened =
        Opened { data_in: u32::MAX, inward: Token([1; 16]), outward: Token([0xFE; 16]), data_out: 0 };
    vec![
        Answer::Welcome(Welcome { size: 1 << 40, incarnation: u64::MAX }),
        Answer::Opened(opened),
        Answer::Closed,
        Answer::Status(status(None)),
        Answer::Status(status(Some([0, u64::MAX]))),
        Answer::Sealed(Sealed { incarnation: 7, size: 1 << 40, is_stored: false }),
        Answer::Done,
        Answer::SourceLost("it has gone".into()),
        Answer::Lent(Lent { data: u32::MAX, hashes: 0, size: 65_537 }),
        Answer::Denied(Refusal::Sealed { epoch: 5 }),
        Answer::Denied(Refusal::Served { epoch: 6 }),
        Answer::Denied(Refusal::Incarnation { own: u64::MAX }),
        Answer::Refused("as \"it\" is".into()),
        Answer::Ended(End::Lost(15)),
        Answer::Ended(End::Sealed(u64::MAX)),
    ]
}

#[test]
fn every_message_is_read_as_it_was_written() {
    for request in requests() {
        assert_eq!(Request::parse(&request.encode()), Ok(request));
    }
    for answer in answers() {
        assert_eq!(Answer::parse(&answer.encode()), Ok(answer));
    }
}

#[test]
fn the_longest_messages_fit() {
    let address = session_status().peer;
    let member = Member { address, incarnation: Some(u64::MAX) };
    let longest = Open { members: vec![member; MAX_REPLICAS], epoch: u64::MAX, ..open() };
    assert!(Request::Open(longest).encode().len() <= MAX_CONTROL);
    let sessions = vec![session_status(); 1000];
    let (most, progress) = (u64::MAX, Some([u64::MAX; 2]));
    let (size, incarnation, sealed, served) = (most, most, most, most);
    let (limit, open, is_stored) = (most, most, false);
    let longest = Status { size, incarnation, sealed, served, is_stored, progress, limit, open, sessions };
    let status = Answer::Status(longest).encode();
    assert!(status.len() <= MAX_CONTROL && Answer::parse(&status).is_ok(), "{} octets", status.len());
    let refused = Answer::Refused("\u{1F600}\"\n".repeat(2000)).encode();
    assert!(refused.len() <= MAX_CONTROL, "{} octets", refused.len());
    let Ok(Answer::Refused(line)) = Answer::parse(&refused) else { panic!("no refusal") };
    assert!(!line.contains('\n') && line.chars().count() == 300);
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let member = r#"{"address":"10.0.0.1:1","incarnation":null}"#;
    let open = |members: &str, index: &str, range: &str| {
        let rest = format!(r#""epoch":1,"session":2,"window":8,"index":{index},"range":{range}"#);
        format!(r#"{{"open":{{{rest},"members":[{members}]}}}}"#)
    };
    assert!(Request::parse(open(member, "0", "[0,8]").as_bytes()).is_ok());
    let many = [member; MAX_REPLICAS + 1].join(",");
    let cases = [
        (String::new(), "EOF while parsing"),
        ("[]".into(), "a message is an object"),
        ("{}".into(), "one member"),
        (r#"{"close":{},"status":{}}"#.into(), "one member"),
        (r#"{"close":7}"#.into(), "one member"),
        (r#"{"clothe":{}}"#.into(), "there is no request `clothe`"),
        (r#"{"close":{"now":1}}"#.into(), "there is no member `now`"),
        (r#"{"hello":{"version":1}}"#.into(), "`key` is missing"),
        (r#"{"hello":{"key":null}}"#.into(), "`version` is missing"),
        (r#"{"hello":{"version":-1,"key":null}}"#.into(), "`version` is not a whole number"),
        (r#"{"hello":{"version":1,"key":"00"}}"#.into(), "`key` is not 64 hexadecimal digits"),
        (open("", "0", "[0,8]"), "at least one member"),
        (open(&many, "0", "[0,8]"), "a list of at most 16 objects"),
        (open("7", "0", "[0,8]"), "a list of at most 16 objects"),
        (open(member, "1", "[0,8]"), "`index` is not a whole number up to 0"),
        (open(member, "0", "[8,8]"), "`range` is not two whole numbers"),
        (open(member, "0", "[9,8]"), "`range` is not two whole numbers"),
        (open(member, "0", "[1,2,3]"), "`range` is not two whole numbers"),
        (open(&member.replace(":1\"", "\""), "0", "[0,8]"), "`address` is not an address"),
        (open(&member.replace("null", "1.5"), "0", "[0,8]"), "`incarnation` is not a whole number"),
        (format!("{{\"{}\":{{}}}}", "x\\u001b".repeat(200)), "there is no request `x x x"),
        (" ".repeat(MAX_CONTROL + 1), "at most 4096 octets"),
        ("[".repeat(MAX_CONTROL), "recursion limit"),
    ];
    for (text, reason) in cases {
        let error = Request::parse(text.as_bytes()).expect_err(&text).to_string();
        assert!(error.contains(reason) && !error.contains(char::is_control), "{text}: {error}");
    }
    let ended = Answer::parse(br#"{"ended":{"lost":16}}"#).expect_err("16").to_string();
    assert_eq!(ended, "`lost` is not a whole number up to 15");
}

proptest! {
    /// One octet changed, one taken away or one more: it is refused, or it is a message that is written as it was read.
    #[test]
    fn a_damaged_message_is_refused_or_is_another_one(
        which in 0..25_usize, at in any::<prop::sample::Index>(), octet in any::<u8>(), how in 0..3,
    ) {
        let mut messages: Vec<_> = requests().iter().map(Request::encode).collect();
        messages.extend(answers().iter().map(Answer::encode));
        let mut octets = messages.swap_remove(which);
        let at = at.index(octets.len());
        match how {
            0 => octets[at] = octet,
            1 => drop(octets.remove(at)),
            _ => octets.insert(at, octet),
        }
        if let Ok(request) = Request::parse(&octets) {
            prop_assert_eq!(Request::parse(&request.encode()), Ok(request));
        }
        if let Ok(answer) = Answer::parse(&octets) {
            prop_assert_eq!(Answer::parse(&answer.encode()), Ok(answer));
        }
    }
}
