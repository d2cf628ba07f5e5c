//! The octets of version 1, as `tests/data/exs-1.txt` has them. They do not change any more: another layout is another
//! version.

use weft_ddp::Stag;
use weft_exs_core::{
    Ack, Advert, Body, Data, Extent, Fault, HEADER_LEN, Hello, Kind, Message, Msg, RejectCode, Ring, Source,
    Target,
};

const STAG: Stag = Stag(0x1112_1314);
const TO: u64 = 0x2122_2324_2526_2728;

fn hellos() -> Vec<(&'static str, Hello)> {
    let messages = Hello {
        kind: Kind::Message,
        invalidates: true,
        window: 32,
        credits: 0x0102,
        slot: 1056,
        ring: None,
        reads: 0x0304,
    };
    let ring = Some(Ring { len: 0x0004_0000, to: TO, stag: STAG });
    let stream = Hello { kind: Kind::Stream, invalidates: false, credits: 16, ring, reads: 0, ..messages };
    vec![("hello-messages", messages), ("hello-stream", stream)]
}

fn messages() -> Vec<(&'static str, Body)> {
    let msg = |source, len| Body::Msg(Msg { id: 0x0506_0708, len, source });
    let ack = |extent| Body::Ack(Ack { id: 0x0506_0708, extent });
    let data = Data { position: TO, len: 4096, is_inline: false, target: Target::Ring { holds: false } };
    let advert = Advert { epoch: 9, len: 0x0102_0304, stag: STAG, to: TO, first: None, waits_for_all: false };
    vec![
        ("credit", Body::Credit),
        ("msg", msg(Source::Memory { stag: STAG, to: TO }, 0x0102_0304)),
        ("msg-inline", msg(Source::Inline, 3)),
        ("ack", ack(Extent::Full)),
        ("ack-exact", ack(Extent::Placed(0x0102_0304))),
        ("ack-not-taken", ack(Extent::NotTaken)),
        ("data-ring", Body::Data(data)),
        ("data-ring-hold", Body::Data(Data { target: Target::Ring { holds: true }, ..data })),
        ("data-ring-inline", Body::Data(Data { len: 3, is_inline: true, ..data })),
        ("data-direct", Body::Data(Data { target: Target::Advert { epoch: 9, is_last: false }, ..data })),
        ("data-direct-last", Body::Data(Data { target: Target::Advert { epoch: 9, is_last: true }, ..data })),
        ("data-answer", Body::Data(Data { len: 0, ..data })),
        ("advert", Body::Advert(advert)),
        ("advert-first", Body::Advert(Advert { first: Some(0x3132_3334_3536_3738), ..advert })),
        ("advert-waitall", Body::Advert(Advert { waits_for_all: true, ..advert })),
        ("free", Body::Free { read: TO }),
        ("revoke", Body::Revoke { epoch: 9 }),
        ("shutdown", Body::Shutdown { end: TO }),
        ("abort", Body::Abort(Fault::TooManyAdverts)),
    ]
}

/// Returns the lines of the file: a name, and octets in hexadecimal.
fn vectors() -> Vec<(&'static str, Vec<u8>)> {
    let lines =
        include_str!("../../../../tests/data/exs-1.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, octets) = line.split_once(' ').unwrap();
            let pairs = octets.as_bytes().as_chunks::<2>().0.iter();
            let octet = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            (name, pairs.map(octet).collect())
        })
        .collect()
}

#[test]
fn version_1_has_the_octets_of_its_file() {
    let mut vectors = vectors().into_iter();
    for (name, hello) in hellos() {
        let octets = (name, hello.encode().to_vec());
        assert_eq!(vectors.next().as_ref(), Some(&octets));
        assert_eq!(Hello::parse(&octets.1), Ok(hello), "{name}");
    }
    let codes = [
        ("reject-version", RejectCode::Version),
        ("reject-kind", RejectCode::Kind),
        ("reject-malformed", RejectCode::Malformed),
        ("reject-resources", RejectCode::Resources),
        ("reject-not-listening", RejectCode::NotListening),
    ];
    for (name, code) in codes {
        assert_eq!(vectors.next(), Some((name, code.encode().to_vec())));
    }
    for (name, body) in messages() {
        let message = Message { limit: 0xABCD, body };
        let mut octets = message.encode().to_vec();
        octets.extend(&b"abc"[..message.payload_len() as usize]);
        assert_eq!(vectors.next().as_ref(), Some(&(name, octets.clone())));
        assert_eq!(Message::parse(&octets), Ok((message, &octets[HEADER_LEN..])), "{name}");
    }
    assert_eq!(vectors.next(), None);
}
