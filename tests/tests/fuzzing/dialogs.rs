//! Scripts from captures of Linux siw. One end of each connection is the peer. The application of the device posts
//! the messages of the other end.

use std::collections::HashMap;
use std::net::SocketAddr;

use weft_cli::decode::packet::{self, TcpSegment};
use weft_cli::decode::pcap::Capture;
use weft_cli::decode::reassembly::{Next, Piece, Reassembly};
use weft_mpa::{Crc32c, Deframer, FrameKind, STAGING_LEN, StartupFrame};
use weft_tests::fuzzing::Op;

use crate::script::{ACTIVE, INBOX, LOCAL, NO_CRC, PEER_TO_PEER, Script, TARGET};

/// One connection: its ULPDUs in the order of the capture, with whether the initiator sent them.
#[derive(Debug, Default)]
pub(crate) struct Dialog {
    pub(crate) frames: [Vec<u8>; 2],
    pub(crate) ulpdus: Vec<(bool, Vec<u8>)>,
    pub(crate) has_crc: bool,
}

/// Names and scripts, each dialog with the device in either role.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (name, flags) in [("siw-rping", NO_CRC), ("siw-crc-p2p-rping", PEER_TO_PEER), ("siw-send-bw", NO_CRC)]
    {
        let dialog = dialog(name);
        for (role, is_initiator) in [("responder", false), ("initiator", true)] {
            let script = script(&dialog, flags, is_initiator);
            all.push((format!("{name}-{role}"), script.0));
        }
    }
    all
}

/// Reads the capture.
pub(crate) fn dialog(name: &str) -> Dialog {
    let file = std::fs::read(format!("{}/data/{name}.pcap", env!("CARGO_MANIFEST_DIR"))).expect("a capture");
    let mut capture = Capture::open(&file[..]).expect("a capture");
    let mut ends = HashMap::<(SocketAddr, SocketAddr), End>::new();
    let mut dialog = Dialog::default();
    while let Some(packet) = capture.next().expect("a whole capture") {
        let Ok(segment) = packet::parse(capture.link(), &packet.data) else { continue };
        let TcpSegment { src, dst, sequence, syn, payload, checksum, .. } = segment;
        let end = ends.entry((src, dst)).or_default();
        if syn {
            assert!(end.reassembly.handle_syn(sequence), "one connection");
        }
        let piece = Piece { data: payload, stamp: packet.stamp };
        end.reassembly.handle_segment(sequence.wrapping_add(u32::from(syn)), piece, checksum);
        while let Some(next) = end.reassembly.next() {
            let Next::Piece(piece) = next else { panic!("{name}: {next:?}") };
            end.read(&piece.data, &mut dialog);
        }
    }
    dialog
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct End {
    reassembly: Reassembly,
    startup: Vec<u8>,
    operation: Option<(bool, Deframer<Vec<u8>>)>,
}

impl End {
    fn read(&mut self, octets: &[u8], dialog: &mut Dialog) {
        let mut rest = octets;
        if self.operation.is_none() {
            self.startup.extend_from_slice(octets);
            let parsed = StartupFrame::parse_any(&self.startup).expect("a startup frame");
            let Some((frame, len)) = parsed else { return };
            let is_initiator = frame.kind == FrameKind::Request;
            dialog.has_crc |= frame.crc;
            dialog.frames[usize::from(!is_initiator)] = self.startup[..len].to_vec();
            let crc = dialog.has_crc.then(Crc32c::default);
            self.operation = Some((is_initiator, Deframer::new(crc, false, vec![0; STAGING_LEN])));
            rest = &octets[octets.len() - (self.startup.len() - len)..];
        }
        let Some((is_initiator, deframer)) = &mut self.operation else { return };
        while let Some(ulpdu) = deframer.next(&mut rest).expect("an FPDU") {
            dialog.ulpdus.push((*is_initiator, ulpdu.to_vec()));
        }
    }
}

fn script(dialog: &Dialog, flags: u8, is_initiator: bool) -> Script {
    let mut script = Script::new(if is_initiator { flags | ACTIVE } else { flags });
    let is_rtr = |index: usize| flags & PEER_TO_PEER != 0 && index == 0;
    let mut bases = HashMap::new();
    for (index, (from_initiator, ulpdu)) in dialog.ulpdus.iter().enumerate().take(MAX_ULPDUS) {
        let tagged = ulpdu[0] & 0x80 != 0;
        let opcode = ulpdu[1] & 0x0F;
        // The target does the startup by itself, including the initiator's first message.
        if is_rtr(index) {
            continue;
        }
        let payload = u16::try_from(ulpdu.len() - if tagged { 14 } else { 18 }).expect("a segment");
        script = match (*from_initiator == is_initiator, opcode) {
            (true, 0x0) => script.post(2, LOCAL, payload),
            (true, 0x1) => script.post(3, INBOX, u16::from_be_bytes([ulpdu[32], ulpdu[33]])),
            (true, 0x3..=0x6) => script.post(0, LOCAL, payload),
            (false, 0x2) => script.answer(),
            (false, 0x0 | 0x1 | 0x3..=0x6) => {
                let ulpdu = moved(ulpdu, &mut bases);
                let script = if opcode >= 0x3 { script.receive(INBOX, 0, 2048) } else { script };
                script.with(Op::Patched, &ulpdu)
            }
            _ => script,
        };
    }
    script.then(Op::Fin)
}

/// Returns the ULPDU with STag and tagged offset changed to the device's. The first offset of each STag becomes 0.
fn moved(ulpdu: &[u8], bases: &mut HashMap<[u8; 4], u64>) -> Vec<u8> {
    let mut ulpdu = ulpdu.to_vec();
    let at = if ulpdu[0] & 0x80 != 0 {
        2
    } else if ulpdu[1] & 0x0F == 0x1 {
        34
    } else {
        return ulpdu;
    };
    let stag: [u8; 4] = ulpdu[at..at + 4].try_into().expect("four octets");
    let to = u64::from_be_bytes(ulpdu[at + 4..at + 12].try_into().expect("eight octets"));
    let base = *bases.entry(stag).or_insert(to);
    ulpdu[at..at + 4].copy_from_slice(&[0, 0, 0, TARGET]);
    ulpdu[at + 4..at + 12].copy_from_slice(&to.wrapping_sub(base).to_be_bytes());
    ulpdu
}

/// The number of ULPDUs that are taken from a long dialog.
const MAX_ULPDUS: usize = 16;
