//! The same verbs over the sockets of the kernel: the layers above the transport do not depend on its kind.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;

use weft_rnic::{
    Access, Bind, CmEvent, Config, ConnParam, Data, Device, DisconnectReason, Ground, QpInit, Region,
    SendOpcode, SendWr, Sge, Stag, Status, WindowType,
};
use weft_tests::{HOST, Pair, PairConfig};

use crate::world::{
    CAPACITY, WR, contents, drain, guarded, memory_of, outcomes, pattern, post_recv, read_from, write_to,
};

/// Runs tests of this binary once more, with all pairs of devices on the host's TCP.
#[test]
fn the_tests_pass_over_the_sockets_of_the_kernel() {
    if std::env::var_os(HOST).is_some() {
        return;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.env(HOST, "1").args(["--test-threads", "2"]).args(MODULES);
    for (test, _why) in ELSEWHERE {
        again.args(["--skip", test]);
    }
    let output = again.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let summary = text.lines().find_map(|line| line.strip_prefix("test result: ok. "));
    let passed = summary.and_then(|line| line.split(' ').next()?.parse().ok());
    assert!(passed.is_some_and(|passed: usize| passed > 80), "{text}");
}

const MODULES: [&str; 13] = [
    "completions::",
    "connecting::",
    "ending::",
    "events::",
    "gather::",
    "many::",
    "mw_revoke::",
    "protection::",
    "reads::",
    "revoking::",
    "states::",
    "streaming",
    "windows::",
];

/// Tests of behaviour that the kernel's TCP cannot show, or shows differently.
const ELSEWHERE: [(&str, &str); 13] = [
    (
        "a_port_of_the_devices_choice",
        "the kernel has ephemeral ports of its own, and all addresses of loopback",
    ),
    ("addresses_that_cannot_be_connected_to", "a loopback address meets other refusals"),
    ("no_listener_or_no_host_answers", "waits for 40 seconds"),
    ("a_silent_peer_is_given_up", "waits for a timeout"),
    ("a_dropped_handle_closes", "waits for a timeout"),
    ("a_device_is_dropped_in_mid_transfer", "what the kernel holds arrives before the reset"),
    ("a_long_write_beyond_the_bounds", "counts segments of an Ethernet's length"),
    ("memory_deregistered_while", "counts segments of an Ethernet's length"),
    ("a_fence_waits_for_the_reads_before_it", "counts segments of an Ethernet's length"),
    ("requests_posted_before_the_end", "stops during a transfer"),
    ("a_read_that_is_answered_ends_with_a_terminate", "stops during a transfer"),
    ("a_connection_that_ends_answers_no_more", "stops during a transfer"),
    ("everything_can_be_dropped_in_any_order", "jumps over time"),
];

fn pair(crc: bool) -> Pair {
    let mpa = weft_mpa::Config { crc, ..weft_mpa::Config::default() };
    let config =
        PairConfig { mpa, host: true, capacity: CAPACITY, peer_to_peer: true, ..PairConfig::default() };
    Pair::connected(&config)
}

/// The same octets arrive with and without CRC. Only without CRC payload goes out and comes in without a copy.
#[test]
fn payload_is_sent_directly_if_no_crc_covers_it() {
    for crc in [true, false] {
        let mut pair = pair(crc);
        let octets = pattern(1 << 20, 7);
        let (source, target) = (memory_of(&pair.a, &octets), guarded(&pair.b, 1 << 20));
        let (inbox, read) = (guarded(&pair.b, 400_000), guarded(&pair.a, 1 << 20));
        post_recv(&pair.b.qp, 9, &[inbox.sge(0, 400_000)]);
        let post = |wr_id, opcode, sges: &[Sge]| {
            pair.a.qp.post_send(&SendWr { wr_id, opcode, data: Data::Sges(sges), ..WR }).unwrap();
        };
        post(1, write_to(&target, 0), &[source.sge(0, 1 << 20)]);
        post(2, SendOpcode::Send, &[source.sge(5, 100_001), source.sge(300_000, 3), source.sge(1, 200_000)]);
        post(3, read_from(&target, 0), &[read.sge(0, 1 << 20)]);
        let (mut done, cq) = (Vec::new(), pair.a.cq.clone());
        pair.wait(|| {
            done.extend(drain(&cq));
            (done.len() == 3).then_some(())
        })
        .unwrap();
        assert_eq!(outcomes(&done), [1, 2, 3].map(|wr_id| (wr_id, Status::Success)));
        assert_eq!(pair.completion_of_b().byte_len, 300_004);
        assert!(contents(&target) == octets && contents(&read) == octets, "CRC {crc}");
        let sent = [&octets[5..100_006], &octets[300_000..300_003], &octets[1..200_001]].concat();
        assert!(contents(&inbox)[..300_004] == sent, "CRC {crc}");
        let lent = [&pair.a, &pair.b].map(|side| side.device.counters().host.octets_lent);
        // The same for a Read Response from the other side. Octets that the kernel did not take at once were copied.
        assert_eq!(lent.map(|octets| octets > 0), [!crc, !crc], "{lent:?}");
        let placed = [&pair.a, &pair.b].map(|side| side.device.counters().host.octets_placed);
        assert_eq!(placed.map(|octets| octets > 0), [!crc, !crc], "{placed:?}");
    }
}

/// The same by the STag of a window: a Write and a Read through it. The sink of the Read is a part of other memory.
#[test]
fn payload_goes_directly_through_a_window() {
    for crc in [true, false] {
        let mut pair = pair(crc);
        let octets = pattern(LEN, 8);
        let source = memory_of(&pair.a, &octets);
        let whole = Arc::new(Region::owned(3 * LEN).unwrap());
        let part = Region::part(&whole, LEN..2 * LEN).unwrap();
        let (sink, iova) = (&whole, part.address());
        let read = pair.a.pd.register_at(part, Access::LOCAL_WRITE, iova).unwrap();
        let target = pair.b.pd.register(LEN, Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
        let window = pair.b.pd.alloc_mw(WindowType::Type2B).unwrap();
        let access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::ZERO_BASED;
        let (region, addr) = (target.rkey(), target.addr());
        let bind = Bind { window: window.stag(1), region, addr, length: LEN as u64, access };
        pair.b.qp.post_send(&SendWr { opcode: SendOpcode::BindWindow(bind), ..WR }).unwrap();
        assert_eq!(pair.completion_of_b().status, Status::Success);
        let (stag, to) = (window.rkey(), 0);
        let len = u32::try_from(LEN).unwrap();
        let post = |opcode, sge| {
            pair.a.qp.post_send(&SendWr { opcode, data: Data::Sges(&[sge]), ..WR }).unwrap();
        };
        post(SendOpcode::Write { stag, to }, source.sge(0, len));
        post(SendOpcode::Read { stag, to }, read.sge(0, len));
        for _ in 0..2 {
            assert_eq!(pair.completion_of_a().status, Status::Success);
        }
        let mut all = vec![0; 3 * LEN];
        assert!(sink.copy_out(0, &mut all) && contents(&target) == octets, "CRC {crc}");
        assert!(all[LEN..2 * LEN] == octets, "CRC {crc}");
        assert!(all[..LEN].iter().chain(&all[2 * LEN..]).all(|&octet| octet == 0), "CRC {crc}");
        for side in [&pair.a, &pair.b] {
            let counters = side.device.counters().host;
            let direct = [counters.octets_lent, counters.octets_placed];
            assert_eq!(direct.map(|octets| octets > 0), [!crc; 2], "{direct:?}");
        }
    }
}

/// A plain socket gets the octets of the RFCs in any case: the FPDUs of a Write from three pieces.
#[test]
fn lent_payload_makes_the_same_octets_on_the_wire() {
    let config = Config {
        mpa: weft_mpa::Config { crc: false, ..weft_mpa::Config::default() },
        ..Config::host(LOCALHOST, 5)
    };
    let device = Device::open(Ground::Host, config).unwrap();
    let (events, pd, cq) =
        (device.create_event_channel().unwrap(), device.alloc_pd(), device.create_cq(16, None).unwrap());
    let qp = device.create_qp(&pd, &QpInit { capacity: CAPACITY, ..QpInit::new(&cq, &cq) }).unwrap();
    let listener = device.listen(&events, 0).unwrap();
    let octets = pattern(300_000, 9);
    let (source, expected) = (pd.register(300_000, Access::LOCAL_WRITE).unwrap(), octets.clone());
    source.write(0, &octets).unwrap();
    let address = listener.local_addr();
    let peer = std::thread::spawn(move || hear_write(address, &expected[1..250_002]));
    let mut posted = false;
    loop {
        match events.wait(Some(std::time::Duration::from_secs(60))).expect("the peer goes on") {
            CmEvent::ConnectRequest(request) => device.accept(request.id, &qp, ConnParam::default()).unwrap(),
            CmEvent::Established { .. } => {
                let sges = [source.sge(1, 100_000), source.sge(100_001, 1), source.sge(100_002, 150_000)];
                let write = SendOpcode::Write { stag: Stag(STAG), to: TO };
                qp.post_send(&SendWr { opcode: write, data: Data::Sges(&sges), ..WR }).unwrap();
                posted = true;
            }
            CmEvent::Disconnected { reason, .. } => {
                assert_eq!(reason, DisconnectReason::Peer);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    peer.join().unwrap();
    assert!(posted);
    assert_eq!(outcomes(&drain(&cq)), [(0, Status::Success)]);
    assert!(device.counters().host.octets_lent > 100_000);
}

/// The other end on a plain socket: connects, sends the RTR message, reads one whole Write, and closes.
fn hear_write(address: std::net::SocketAddr, expected: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    // RFC 5044 section 7.1: no Markers, no CRC, no private data; then an empty Write of one FPDU.
    stream.write_all(b"MPA ID Req Frame\x00\x01\x00\x00").unwrap();
    let mut reply = [0; 20];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"MPA ID Rep Frame\x00\x01\x00\x00");
    stream.write_all(b"\x00\x0E\xC1\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
    let mut heard = Vec::new();
    while heard.len() < expected.len() {
        let mut header = [0; 16];
        stream.read_exact(&mut header).unwrap();
        let len = usize::from(u16::from_be_bytes([header[0], header[1]])) - 14;
        let last = heard.len() + len == expected.len();
        let to = TO + heard.len() as u64;
        let tagged = if last { 0xC1 } else { 0x81 };
        assert_eq!(header[2..], [&[tagged, 0x40], &STAG.to_be_bytes()[..], &to.to_be_bytes()].concat());
        let pad = (4 - (2 + 14 + len) % 4) % 4;
        let mut rest = vec![0xAA; len + pad + 4];
        stream.read_exact(&mut rest).unwrap();
        assert!(rest[len..].iter().all(|octet| *octet == 0), "pad and CRC are zero");
        heard.extend_from_slice(&rest[..len]);
    }
    assert!(heard == expected);
}

const LEN: usize = 1 << 20;
const LOCALHOST: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const STAG: u32 = 0x0102_0304;
const TO: u64 = 0x0A0B_0C0D_0E0F_1011;
