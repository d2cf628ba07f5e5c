//! DDP as the Data Sink of a peer that breaks the rules: each check of RFC 5041 section 7.1 finds its fault, and no
//! octet is placed. Every scene has two receives of 16 octets, and ends with the exact Terminate, FIN, and unchanged
//! memory.

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Access, Cause, DisconnectReason, Mr, Region, Status};

use crate::octets::{
    Place, fpdu, join, read_fpdu, read_request, send, send_invalidate, send_part, tagged, terminate, vector,
    write,
};
use crate::scene::{Answer, Row, Scene};
use crate::world::{FILL, FLUSHED, ROLES, Role, content, filled, open, whole};

/// Shows for both roles that the last segment is refused with DDP's error, after the Sends before it were taken.
fn refused(name: &'static str, code: &'static str, error: Ddp, bad: &[u8]) {
    for role in ROLES {
        Scene::new(role).run(&Row::new(name, bad.to_vec(), Answer::Ddp(code), error));
    }
}

/// Shows the same after a good Send of `hello`.
fn refused_after_hello(name: &'static str, code: &'static str, error: Ddp, bad: &[u8]) {
    for role in ROLES {
        let row = Row::new(name, bad.to_vec(), Answer::Ddp(code), error)
            .after(send(1, b"hello"))
            .receives([Status::Success, FLUSHED])
            .inbox(b"hello");
        Scene::new(role).run(&row);
    }
}

/// Returns an untagged segment of one message. `head` has both control octets.
fn untagged(head: &str, numbers: [u32; 3], payload: &[u8]) -> Vec<u8> {
    join(head, &[&[0; 4], &numbers.map(u32::to_be_bytes).concat(), payload])
}

/// Any version but 1, at first and after segments of version 1, in all kinds of segments, on any queue.
// Covers 5041-4.1-11, 5041-6.2.2-3.
#[test]
fn other_versions() {
    for version in [0, 2, 3] {
        for control in [0x00, 0x40, 0x7C] {
            for payload in [&b""[..], b"12345678"] {
                let first = control | version;
                let mut bad = untagged("0043", [0, 2, 0], payload);
                bad[0] = first;
                refused_after_hello("untagged", "1206", Ddp::UntaggedVersion, &bad);
                // The version is checked before all other faults.
                let mut bad = untagged("0043", [9, 9, 9], payload);
                bad[0] = first;
                refused("untagged, and nothing right", "1206", Ddp::UntaggedVersion, &bad);
                for role in ROLES {
                    let scene = Scene::new(role);
                    let mut bad = write(scene.target.rkey().0, scene.target.addr(), payload);
                    bad[0] = 0x80 | first;
                    scene.run(&Row::new("tagged", bad, Answer::Ddp("1104"), Ddp::TaggedVersion));
                }
            }
        }
    }
}

/// Queue numbers above those in use, some of which would be valid in another octet order.
// Covers 5041-7.1-1, 5041-7.1-2.
#[test]
fn queue_numbers() {
    for queue in
        [4, 5, 0xFF, 0x100, 0x0001_0000, 0x0100_0000, 0x7FFF_FFFF, 0x8000_0000, u32::MAX - 1, u32::MAX]
    {
        for payload in [&b""[..], b"hello"] {
            for head in ["4143", "0143", "4141", "4147"] {
                refused("queue", "1201", Ddp::InvalidQueue, &untagged(head, [queue, 1, 0], payload));
            }
        }
    }
    // Queues 1 to 3 are in use, so that RDMAP finds the Send there.
    for queue in 1..4 {
        for role in ROLES {
            let bad = untagged("4143", [queue, 1, 0], b"hello");
            Scene::new(role).run(&Row::new("Send", bad, Answer::Ddp("0206"), Rdmap::UnexpectedOpcode));
        }
    }
}

/// Octets and event when no receive is posted at all. Empty messages need one too.
// Covers 5041-7.1-3, 5041-7.1-7, 5041-7.1-18, 5041-7.1-20.
#[test]
fn no_buffer_is_posted() {
    for role in ROLES {
        for (octets, answer) in [
            (vector("send5"), vector("term-ddp-nobuf")),
            (vector("send0"), fpdu(&terminate("1202", &send(1, b"")))),
            (fpdu(&send_part("01", 1, 0, b"x")), fpdu(&terminate("1202", &send_part("01", 1, 0, b"x")))),
        ] {
            let (world, peer) = open(role);
            peer.send(&octets);
            peer.expect(&answer);
            peer.expect_fin();
            let cause = Cause::Peer(Ddp::NoBuffer.into());
            assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
            // A receive that comes too late takes nothing.
            let inbox = filled(&world.side, 8);
            world.side.post_recv(1, whole(&inbox));
            assert_eq!(world.all_completions(), [(1, FLUSHED)]);
            assert_eq!(content(&inbox), [FILL; 8]);
        }
    }
}

/// Skipped and repeated numbers, numbers behind the last buffer, and numbers around the ends of the range. Each comes
/// with and without payload, and on each queue that counts separately.
// Covers 5041-7.1-1, 5041-7.1-10.
#[test]
fn message_sequence_numbers() {
    for msn in [0, 2, 3, 0x100, 0x0100_0000, 0x7FFF_FFFF, 0x8000_0000, u32::MAX - 1, u32::MAX] {
        for payload in [&b""[..], b"hello"] {
            let bad = send_part(if msn % 2 == 0 { "41" } else { "01" }, msn, 0, payload);
            refused("at first", "1203", Ddp::MsnRange, &bad);
        }
        let bad = read_request(msn, Place(1, 0), 0, Place(0, 0));
        refused("Read Request", "1203", Ddp::MsnRange, &bad);
    }
    for msn in [0, 1, 3, 4, 0x8000_0002, u32::MAX] {
        for payload in [&b""[..], b"again"] {
            refused_after_hello("second", "1203", Ddp::MsnRange, &send(msn, payload));
        }
    }
    // Each queue has its own numbers.
    refused_after_hello("2 on queue 1", "1203", Ddp::MsnRange, &read_request(2, Place(1, 0), 0, Place(0, 0)));
    let terminate = untagged("4147", [2, 2, 0], &[0; 4]);
    refused("2 on queue 2", "1203", Ddp::MsnRange, &terminate);
}

/// Offsets that do not continue the message: inside the buffer, at its end, behind it, at the ends of the range. A
/// gap is found, though the RFC does not require it.
// Covers 5041-7.1-1, 5041-7.1-8, 5041-5.2-11.
#[test]
fn message_offsets() {
    for (index, mo) in
        [1, 15, 16, 17, 18, 0x7FFF_FFFF, 0x8000_0000, u32::MAX - 1, u32::MAX].into_iter().enumerate()
    {
        for payload in [&b""[..], b"e"] {
            let bad = send_part(if index % 2 == 0 { "01" } else { "41" }, 1, mo, payload);
            refused("first segment", "1204", Ddp::InvalidMo, &bad);
        }
    }
    for mo in [0, 1, 3, 5, 8, 15, 16, 17, 0x0400_0000, u32::MAX - 3, u32::MAX] {
        for payload in [&b""[..], b"efgh"] {
            for role in ROLES {
                let bad = send_part("41", 1, mo, payload);
                let row = Row::new("second segment", bad, Answer::Ddp("1204"), Ddp::InvalidMo)
                    .after(send_part("01", 1, 0, b"abcd"))
                    .inbox(b"abcd");
                Scene::new(role).run(&row);
            }
        }
    }
}

/// One octet too many for the buffer of 16, in one, two and seventeen segments. The buffer next to it is not touched.
// Covers 5041-7.1-1, 5041-7.1-9.
#[test]
fn messages_that_are_longer_than_their_buffer() {
    let octets = b"0123456789abcdefXYZ";
    for cuts in
        [vec![17], vec![19], vec![16, 17], vec![15, 17], vec![1, 19], (1..=17).collect(), vec![0, 16, 17]]
    {
        for head in ["01", "41"] {
            for role in ROLES {
                let (mut start, mut parts) = (0, Vec::new());
                for (index, &end) in cuts.iter().enumerate() {
                    let head = if index + 1 == cuts.len() { head } else { "01" };
                    parts.push((
                        start,
                        send_part(head, 1, u32::try_from(start).unwrap(), &octets[start..end]),
                    ));
                    start = end;
                }
                let (placed, bad) = parts.pop().unwrap();
                let row = Row::new("too long", bad, Answer::Ddp("1205"), Ddp::TooLong)
                    .receives([Status::LocalLength, FLUSHED])
                    .inbox(&octets[..placed]);
                let row = parts.into_iter().fold(row, |row, (_, good)| row.after(good));
                Scene::new(role).run(&row);
            }
        }
    }
}

/// A Write to an unknown STag, octet by octet. Then STags that are nearly right.
// Covers 5041-7.1-11, 5041-7.1-12, 5041-7.1-18.
#[test]
fn stags_that_are_not_valid() {
    for role in ROLES {
        let (world, peer) = open(role);
        peer.send(&fpdu(&write(0xDEAD_BEEF, 0x1000, &[0, 1, 2, 3, 4, 5, 6, 7])));
        peer.expect(&vector("term-ddp-stag"));
        peer.expect_fin();
        let cause = Cause::Peer(Ddp::InvalidStag.into());
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
        type Wrong = fn(u32) -> u32;
        let wrongs: [Wrong; 6] = [
            |_| 0,
            |_| u32::MAX,
            |stag| stag ^ 1,
            |stag| stag ^ 0x100,
            |stag| stag ^ 1 << 31,
            u32::swap_bytes,
        ];
        for wrong in wrongs {
            for head in ["C140", "8140"] {
                let scene = Scene::new(role);
                let bad = tagged(head, wrong(scene.target.rkey().0), scene.target.addr(), b"12345678");
                scene.run(&Row::new("STag", bad, Answer::Ddp("1100"), Ddp::InvalidStag));
            }
        }
    }
}

/// The rights of a buffer are part of whether it allows placement; RDMAP has the code (doubt D10).
// Covers 5041-7.1-11, 5041-7.1-13.
#[test]
fn buffers_that_do_not_allow_placement() {
    for role in ROLES {
        for which in 0..2 {
            let scene = Scene::new(role);
            let memory = [&scene.read_only, &scene.local][which];
            let bad = write(memory.rkey().0, memory.addr(), b"1");
            scene.run(&Row::new("rights", bad, Answer::Ddp("0102"), Rdmap::AccessRights));
        }
    }
}

/// Registers `size` octets from tagged offset `iova` and writes `len` octets at `to`. Either all are placed, or
/// exactly this Terminate comes and none is.
fn write_at(role: Role, (iova, size): (u64, usize), (to, len): (u64, usize), code: Option<&str>) {
    let (world, peer) = open(role);
    let region = Region::owned(size).unwrap();
    let target = world.side.pd.register_at(region, Access::ALL, iova).unwrap();
    target.write(0, &vec![FILL; size]).unwrap();
    let segment = write(target.rkey().0, to, &vec![0x11; len]);
    peer.send(&fpdu(&segment));
    let mut expected = vec![FILL; size];
    if let Some(code) = code {
        peer.expect(&fpdu(&terminate(code, &segment)));
        peer.expect_fin();
        assert!(matches!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Peer(_))));
    } else {
        peer.expect_silence();
        let start = usize::try_from(to - iova).unwrap();
        expected[start..start + len].fill(0x11);
    }
    assert!(content(&target) == expected, "{len} octets at {to:x} of {size} at {iova:x}");
}

/// A region of tagged offsets 0x1000 to 0x1FFF.
// Covers 5041-7.1-11, 5041-7.1-14, 5041-7.1-15, 5041-8.1-1.
#[test]
fn the_bounds_of_a_tagged_buffer() {
    let region = (0x1000, 0x1000);
    let outside = Some("1101");
    for role in ROLES {
        for (to, len, code) in [
            (0x1000, 1, None),
            (0x1000, 0x1000, None),
            (0x1FFF, 1, None),
            (0x1FF8, 8, None),
            (0x1FF9, 8, outside),
            (0x1FFF, 2, outside),
            (0x2000, 1, outside),
            (0x0FFF, 1, outside),
            (0x0FFF, 2, outside),
            (0x0FFF, 0x1002, outside),
            (0x1000, 0x1001, outside),
            (0, 1, outside),
            (1, 0x2000, outside),
            (0x1_0000_1000, 1, outside),
            (0x8000_0000_0000_1000, 1, outside),
            (u64::MAX - 8, 8, outside),
        ] {
            write_at(role, region, (to, len), code);
        }
    }
}

/// 2^64 exceeds the largest possible sum of offset and length by one.
// Covers 5041-7.1-16.
#[test]
fn tagged_offsets_that_wrap() {
    let (outside, wraps) = (Some("1101"), Some("1103"));
    for role in ROLES {
        for region in [(0, 16), (0x1000, 0x1000), (u64::MAX - 16, 16)] {
            let is_high = region.0 > 0x1000;
            for (to, len, code) in [
                (u64::MAX, 1, wraps),
                (u64::MAX - 3, 8, wraps),
                (u64::MAX - 7, 8, wraps),
                (u64::MAX - 1, 2, wraps),
                (u64::MAX - 1, 1, if is_high { None } else { outside }),
                (u64::MAX - 8, 8, if is_high { None } else { outside }),
                (u64::MAX - 16, 16, if is_high { None } else { outside }),
                (u64::MAX - 16, 17, wraps),
                (u64::MAX - 17, 17, outside),
            ] {
                write_at(role, region, (to, len), code);
            }
        }
    }
}

/// A bad segment, and behind it good ones of every kind and bad ones. One Terminate and one event come, and nothing
/// else happens.
// Covers 5041-7.1-17, 5041-7.1-19.
#[test]
fn after_an_error_everything_is_dropped() {
    for role in ROLES {
        for (bad, code, error) in [
            (send(7, b"bad"), "1203", Ddp::MsnRange),
            (write(0, 0, b"bad"), "1100", Ddp::InvalidStag),
            (untagged("4043", [0, 1, 0], b"bad"), "1206", Ddp::UntaggedVersion),
        ] {
            let (world, peer) = open(role);
            let (target, inbox) = (filled(&world.side, 8), filled(&world.side, 32));
            let place = Place(target.rkey().0, target.addr());
            world.side.post_recv(1, inbox.sge(0, 16));
            world.side.post_recv(2, inbox.sge(16, 16));
            let dropped = [
                send(1, b"good"),
                write(place.0, place.1, b"good"),
                read_request(1, Place(1, 1), 8, place),
                send_invalidate(2, place.0, b"good"),
                bad.clone(),
                untagged("4147", [2, 1, 0], &[0x20, 0x02, 0, 0]),
                vec![0x41],
            ];
            peer.send(&fpdu(&bad));
            peer.send(&dropped.map(|ulpdu| fpdu(&ulpdu)).concat());
            peer.send(&[0xFF; 999]);
            peer.expect(&fpdu(&terminate(code, &bad)));
            peer.expect_fin();
            assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Peer(error.into())));
            assert_eq!(world.all_completions(), [(1, FLUSHED), (2, FLUSHED)]);
            peer.send(&fpdu(&send(1, b"late")));
            world.expect_no_news();
            assert!(!target.is_invalidated());
            assert_eq!((content(&target), content(&inbox)), (vec![FILL; 8], vec![FILL; 32]));
        }
    }
}

/// A segment that misses the first region, or hits the second one, which is of another domain.
type Bad = fn(&Mr, &Mr) -> Vec<u8>;

/// Every number of the RFC's table, in the Terminate.
// Covers 5041-7.2-1.
#[test]
fn error_numbers() {
    let cases: [(Bad, u8, u8); 12] = [
        (|mr, _| write(mr.rkey().0 ^ 1, mr.addr(), b"x"), 0x1, 0x00),
        (|mr, _| write(mr.rkey().0, mr.addr() + 16, b"x"), 0x1, 0x01),
        (|_, foreign| write(foreign.rkey().0, foreign.addr(), b"x"), 0x1, 0x02),
        (|mr, _| write(mr.rkey().0, u64::MAX, b"x"), 0x1, 0x03),
        (|mr, _| tagged("C240", mr.rkey().0, mr.addr(), b"x"), 0x1, 0x04),
        (|_, _| untagged("4143", [8, 1, 0], b"x"), 0x2, 0x01),
        (|_, _| [fpdu(&send(1, b"")), fpdu(&send(2, b""))].concat(), 0x2, 0x02),
        (|_, _| send(2, b"x"), 0x2, 0x03),
        (|_, _| send_part("01", 1, 17, b"x"), 0x2, 0x04),
        (|_, _| send(1, &[0; 17]), 0x2, 0x05),
        (|_, _| untagged("4243", [0, 1, 0], b"x"), 0x2, 0x06),
        (|_, _| vec![0xC1; 13], 0x0, 0x00),
    ];
    for role in ROLES {
        for (bad, etype, code) in cases {
            let (world, peer) = open(role);
            let (target, inbox) = (filled(&world.side, 16), filled(&world.side, 16));
            let foreign = world.side.device.alloc_pd().register(16, Access::ALL).unwrap();
            world.side.post_recv(1, whole(&inbox));
            let octets = bad(&target, &foreign);
            let is_stream = octets.starts_with(&[0, 18]);
            peer.send(&if is_stream { octets } else { fpdu(&octets) });
            let answer = read_fpdu(&peer);
            assert_eq!(answer[18..20], [0x10 | etype, code], "layer and type, code");
            match world.disconnected() {
                DisconnectReason::LocalTerminate(Cause::Peer(error)) => {
                    assert_eq!(error.code(), (0x1, etype, code));
                }
                reason => panic!("{reason:?}"),
            }
        }
    }
}
