//! Payload that the kernel's socket places directly, sent by a plain socket and cut anywhere.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};

use weft_rnic::{
    Access, Bind, Cause, CmEvent, Config, ConnParam, Cq, Data, Device, DisconnectReason, EventChannel,
    Ground, Listener, Mr, Mw, Pd, Qp, QpInit, SendOpcode, SendWr, Stag, Status, WindowType,
};

use crate::world::{CAPACITY, GUARD, WR, contents, drain, outcomes, pattern, post_recv};

/// A device, and a plain socket that is connected to its queue pair, without CRC and Markers.
struct Scene {
    qp: Qp,
    cq: Cq,
    pd: Pd,
    events: EventChannel,
    device: Device,
    _listener: Listener,
    peer: TcpStream,
    said: u64,
}

impl Scene {
    fn new() -> Self {
        let mpa = weft_mpa::Config { crc: false, ..weft_mpa::Config::default() };
        let config = Config { mpa, ..Config::host(IpAddr::V4(Ipv4Addr::LOCALHOST), 5) };
        let device = Device::open(Ground::Host, config).unwrap();
        let (events, pd) = (device.create_event_channel().unwrap(), device.alloc_pd());
        let cq = device.create_cq(16, None).unwrap();
        let qp = device.create_qp(&pd, &QpInit { capacity: CAPACITY, ..QpInit::new(&cq, &cq) }).unwrap();
        let listener = device.listen(&events, 0).unwrap();
        let peer = TcpStream::connect(listener.local_addr()).unwrap();
        let mut scene = Self { qp, cq, pd, events, device, _listener: listener, peer, said: 0 };
        scene.peer.set_nodelay(true).unwrap();
        scene.peer.set_nonblocking(true).unwrap();
        // RFC 5044 section 7.1: no Markers, no CRC, no private data; then an empty Write of one FPDU.
        scene.say(b"MPA ID Req Frame\x00\x01\x00\x00");
        let CmEvent::ConnectRequest(request) = scene.event() else { panic!("no request") };
        scene.device.accept(request.id, &scene.qp, ConnParam::default()).unwrap();
        assert_eq!(scene.hear(20), b"MPA ID Rep Frame\x00\x01\x00\x00");
        scene.say(&write(Stag(0), 0, &[]));
        assert!(matches!(scene.event(), CmEvent::Established { .. }));
        scene
    }

    /// Sends octets, and lets the device take all of them.
    fn say(&mut self, octets: &[u8]) {
        self.peer.write_all(octets).unwrap();
        self.said += octets.len() as u64;
        while self.device.counters().host.octets_received < self.said {
            self.device.progress();
        }
    }

    fn hear(&mut self, len: usize) -> Vec<u8> {
        let (mut octets, mut heard) = (vec![0; len], 0);
        while heard < len {
            self.device.progress();
            match self.peer.read(&mut octets[heard..]) {
                Ok(0) => panic!("closed"),
                Ok(more) => heard += more,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        octets
    }

    /// Reads the answer to a Read up to the FIN, which comes between two FPDUs, and returns its payload.
    fn hear_answer(&mut self) -> Vec<u8> {
        let (mut heard, mut octets) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            self.device.progress();
            match self.peer.read(&mut octets) {
                Ok(0) => break,
                Ok(more) => heard.extend_from_slice(&octets[..more]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        let (mut rest, mut payload) = (&heard[..], Vec::new());
        while let Some((len, behind)) = rest.split_first_chunk() {
            let len = usize::from(u16::from_be_bytes(*len));
            assert_eq!(behind[1], 0x42, "a Read Response");
            payload.extend_from_slice(&behind[HEAD - 2..len]);
            rest = &rest[fpdu(&behind[..len]).len()..];
        }
        payload
    }

    fn event(&self) -> CmEvent {
        loop {
            self.device.progress();
            if let Some(event) = self.events.next() {
                return event;
            }
        }
    }

    fn guarded(&self, len: usize) -> Mr {
        let memory = self.pd.register(len, Access::ALL).unwrap();
        memory.write(0, &vec![GUARD; len]).unwrap();
        memory
    }

    fn placed(&self) -> usize {
        usize::try_from(self.device.counters().host.octets_placed).unwrap()
    }
}

/// An FPDU without CRC.
fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    let mut octets = u16::try_from(ulpdu.len()).unwrap().to_be_bytes().to_vec();
    octets.extend_from_slice(ulpdu);
    octets.resize(octets.len().next_multiple_of(4) + 4, 0);
    octets
}

/// A segment with L bit, tagged (RFC 5041 section 4.2).
fn tagged(control: u8, stag: Stag, to: u64, payload: &[u8]) -> Vec<u8> {
    fpdu(&[&[0xC1, control], &stag.0.to_be_bytes()[..], &to.to_be_bytes(), payload].concat())
}

fn write(stag: Stag, to: u64, payload: &[u8]) -> Vec<u8> {
    tagged(0x40, stag, to, payload)
}

/// The first Send (RFC 5041 section 4.3).
fn send(payload: &[u8]) -> Vec<u8> {
    let mut header = [0; 18];
    (header[0], header[1], header[13]) = (0x41, 0x43, 1);
    fpdu(&[&header[..], payload].concat())
}

/// The first Read Request, for so many octets (RFC 5040 section 4.4).
fn read_request(stag: Stag, to: u64, len: u32) -> Vec<u8> {
    let mut header = [0; 18];
    (header[0], header[1], header[9], header[13]) = (0x41, 0x41, 1, 1);
    let sink = [0; 12];
    fpdu(&[&header[..], &sink, &len.to_be_bytes(), &stag.0.to_be_bytes(), &to.to_be_bytes()].concat())
}

/// The offset of the payload in a tagged FPDU.
const HEAD: usize = 16;
/// The length of a payload with 3 octets of pad.
const LEN: usize = 20_001;
/// More octets than the kernel holds between two sockets.
const HUGE: usize = 32 << 20;

// Covers 5041-4.1-1, 5041-5.2-4.
#[test]
fn a_write_that_is_cut_anywhere_is_placed_directly() {
    let mut scene = Scene::new();
    let memory = scene.guarded(LEN + 64);
    let end = HEAD + LEN;
    for cut in [1, 2, HEAD - 1, HEAD, HEAD + 1, 9000, end - 1, end, end + 1, end + 6] {
        let octets = pattern(LEN, cut as u64);
        memory.write(0, &vec![GUARD; LEN + 64]).unwrap();
        let whole = write(memory.rkey(), memory.addr() + 32, &octets);
        let before = scene.placed();
        scene.say(&whole[..cut]);
        scene.say(&whole[cut..]);
        let now = contents(&memory);
        assert!(now[32..][..LEN] == octets, "cut at {cut}");
        assert!(now[..32].iter().chain(&now[32 + LEN..]).all(|&octet| octet == GUARD), "cut at {cut}");
        // All octets behind the cut were placed directly, unless the header was cut.
        let expected = if cut < HEAD { 0 } else { end.saturating_sub(cut) };
        assert_eq!(scene.placed() - before, expected, "cut at {cut}");
    }
    assert_eq!(scene.device.counters().mpa.fpdus_received, 11);
}

#[test]
fn segments_behind_a_directly_placed_payload_are_read() {
    let mut scene = Scene::new();
    let (memory, inbox) = (scene.guarded(2 * LEN), scene.guarded(64));
    post_recv(&scene.qp, 7, &[inbox.sge(0, 64)]);
    let octets = pattern(2 * LEN, 3);
    let first = write(memory.rkey(), memory.addr(), &octets[..LEN]);
    let second = write(memory.rkey(), memory.addr() + LEN as u64, &octets[LEN..]);
    scene.say(&first[..100]);
    // The end of one payload, a whole one, and a Send come at once.
    scene.say(&[&first[100..], &second[..], &send(b"all of it")].concat());
    let done = drain(&scene.cq);
    assert_eq!((outcomes(&done), done[0].byte_len), (vec![(7, Status::Success)], 9));
    assert!(contents(&memory) == octets);
    assert_eq!(&contents(&inbox)[..9], b"all of it");
    assert!(scene.placed() > LEN, "the second Write, too: {}", scene.placed());
}

/// Memory is checked again for each placed piece. The peer gets the same error as for a whole segment.
// Covers 5041-7.1-11, 5041-7.1-13.
#[test]
fn nothing_is_placed_into_deregistered_memory() {
    let mut scene = Scene::new();
    let memory = scene.guarded(LEN);
    let whole = write(memory.rkey(), memory.addr(), &pattern(LEN, 4));
    scene.say(&whole[..9000]);
    memory.invalidate();
    scene.peer.write_all(&whole[9000..]).unwrap();
    let CmEvent::Disconnected { reason, .. } = scene.event() else { panic!("no end") };
    let expected = Cause::Peer(weft_rdmap::Error::Ddp(weft_ddp::Error::InvalidStag));
    assert_eq!(reason, DisconnectReason::LocalTerminate(expected));
    assert!(contents(&memory)[9000 - HEAD..].iter().all(|&octet| octet == GUARD));
    // Layer DDP, tagged buffer error, invalid STag. The segment's length and its header follow.
    let heard = scene.hear(2 + 18 + 4 + 2 + 14);
    let len = u16::try_from(HEAD - 2 + LEN).unwrap().to_be_bytes();
    assert_eq!(heard[20..23], [0x11, 0x00, 0xC0]);
    assert_eq!(heard[24..], [&len[..], &whole[2..HEAD]].concat());
}

/// Binds a window to all of `memory`.
fn bound(scene: &Scene, memory: &Mr) -> Mw {
    let window = scene.pd.alloc_mw(WindowType::Type2B).unwrap();
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    let (region, addr, length) = (memory.rkey(), memory.addr(), memory.len() as u64);
    let bind = Bind { window: window.stag(9), region, addr, length, access };
    scene.qp.post_send(&SendWr { opcode: SendOpcode::BindWindow(bind), ..WR }).unwrap();
    while !window.is_bound() {
        scene.device.progress();
    }
    assert_eq!(outcomes(&drain(&scene.cq)), [(0, Status::Success)]);
    window
}

/// The same for a window. The part of the Write that comes before its revocation is placed.
// Covers 5042-6.2.2-2.
#[test]
fn nothing_is_placed_through_a_revoked_window() {
    let mut scene = Scene::new();
    let memory = scene.pd.register(LEN, Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
    let window = bound(&scene, &memory);
    let octets = pattern(LEN, 4);
    let whole = write(window.rkey(), memory.addr(), &octets);
    scene.say(&whole[..100]);
    scene.say(&whole[100..9000]);
    assert!(scene.placed() > 0 && contents(&memory)[..9000 - HEAD] == octets[..9000 - HEAD]);
    window.revoke(&scene.qp);
    memory.write(0, &[GUARD; LEN]).unwrap();
    scene.peer.write_all(&whole[9000..]).unwrap();
    let CmEvent::Disconnected { reason, .. } = scene.event() else { panic!("no end") };
    let expected = Cause::Peer(weft_rdmap::Error::Ddp(weft_ddp::Error::InvalidStag));
    assert_eq!(reason, DisconnectReason::LocalTerminate(expected));
    assert_eq!(contents(&memory), [GUARD; LEN]);
}

/// The peer asks for a Read, closes its direction, and reads nothing for a while. The connection ends, and owes the
/// answer. The window is revoked then: of what the memory holds afterwards the peer gets nothing.
// Covers 5042-6.2.2-2.
#[test]
fn nothing_is_sent_through_a_revoked_window_to_a_peer_that_has_closed() {
    for revokes in [false, true] {
        let mut scene = Scene::new();
        let memory = scene.pd.register(HUGE, Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
        let octets = pattern(HUGE, 9);
        memory.write(0, &octets).unwrap();
        let window = bound(&scene, &memory);
        scene.say(&read_request(window.rkey(), memory.addr(), u32::try_from(HUGE).unwrap()));
        scene.peer.shutdown(Shutdown::Write).unwrap();
        let CmEvent::Disconnected { reason, .. } = scene.event() else { panic!("no end") };
        assert_eq!(reason, DisconnectReason::Peer);
        if revokes {
            window.revoke(&scene.qp);
            memory.write(0, &vec![GUARD; HUGE]).unwrap();
        }
        let answer = scene.hear_answer();
        assert!(scene.device.counters().host.octets_lent > 0);
        assert!(answer == octets[..answer.len()], "octets that were written behind the revocation");
        assert_eq!(answer.len() < HUGE, revokes, "{} octets", answer.len());
    }
}

#[test]
fn a_fin_in_the_midst_of_a_payload_is_no_graceful_end() {
    let mut scene = Scene::new();
    let memory = scene.guarded(LEN);
    scene.say(&write(memory.rkey(), memory.addr(), &pattern(LEN, 5))[..9000]);
    scene.peer.shutdown(Shutdown::Write).unwrap();
    let CmEvent::Disconnected { reason, .. } = scene.event() else { panic!("no end") };
    assert_eq!((reason, scene.device.counters().mpa.cut_short), (DisconnectReason::Lost, 1));
}

// Covers 5041-8.1-1.
#[test]
fn a_write_to_unknown_memory_is_refused_as_a_whole() {
    let mut scene = Scene::new();
    let memory = scene.guarded(LEN);
    let whole = write(memory.rkey(), memory.addr() + 1, &pattern(LEN, 6));
    scene.say(&whole[..9000]);
    scene.peer.write_all(&whole[9000..]).unwrap();
    let CmEvent::Disconnected { reason, .. } = scene.event() else { panic!("no end") };
    let expected = Cause::Peer(weft_rdmap::Error::Ddp(weft_ddp::Error::BaseOrBounds));
    assert_eq!(reason, DisconnectReason::LocalTerminate(expected));
    assert!(contents(&memory).iter().all(|&octet| octet == GUARD), "nothing of it is placed");
    assert_eq!(scene.placed(), 0);
}

#[test]
fn a_directly_placed_answer_completes_its_read_at_its_end() {
    let mut scene = Scene::new();
    let sink = scene.guarded(LEN);
    let read = SendOpcode::Read { stag: Stag(0x0102_0300), to: 77 };
    let sges = [sink.sge(0, u32::try_from(LEN).unwrap())];
    scene.qp.post_send(&SendWr { wr_id: 9, opcode: read, data: Data::Sges(&sges), ..WR }).unwrap();
    // The length field, the header, and 28 octets whose first 12 name the sink (RFC 5040 section 4.4).
    let request = scene.hear(2 + 18 + 28 + 4);
    let stag = Stag(u32::from_be_bytes(request[20..24].try_into().unwrap()));
    let to = u64::from_be_bytes(request[24..32].try_into().unwrap());
    let octets = pattern(LEN, 8);
    let answer = tagged(0x42, stag, to, &octets);
    scene.say(&answer[..HEAD]);
    scene.say(&answer[HEAD..answer.len() - 1]);
    assert_eq!(scene.placed(), LEN);
    assert_eq!(drain(&scene.cq), []);
    scene.say(&answer[answer.len() - 1..]);
    assert_eq!(outcomes(&drain(&scene.cq)), [(9, Status::Success)]);
    assert!(contents(&sink) == octets);
}
