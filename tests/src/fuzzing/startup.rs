//! A startup of the peer that fits the device's frame, octet by octet.

use weft_mpa::Config;

use super::ulpdu::{read_request, tagged, untagged};

/// Returns the Request of a peer with these settings.
pub(super) fn request(config: &Config) -> Vec<u8> {
    let mut frame = b"MPA ID Req Frame".to_vec();
    frame.push(flags(config) | (u8::from(config.enhanced) * ENHANCED));
    if config.enhanced {
        frame.extend_from_slice(&[2, 0, 4]);
        frame.extend_from_slice(&depths(config, config.peer_to_peer, rtr_bits(config)));
    } else {
        frame.extend_from_slice(&[1, 0, 0]);
    }
    frame
}

/// Returns the Reply of a peer with these settings to the device's Request.
pub(super) fn reply(config: &Config, request: &[u8]) -> Vec<u8> {
    let mut frame = b"MPA ID Rep Frame".to_vec();
    let header = request.get(16..20).unwrap_or(&[0, 1, 0, 0]);
    let is_enhanced = header[0] & ENHANCED != 0;
    frame.push(flags(config) | header[0] & ENHANCED);
    frame.push(header[1]);
    if is_enhanced {
        let asked = request.get(20..24).unwrap_or(&[0; 4]);
        let is_peer_to_peer = asked[0] & PEER_TO_PEER != 0;
        let wanted = [asked[0] & SEND_RTR, asked[2] & (WRITE_RTR | READ_RTR)];
        let own = rtr_bits(config);
        let rtr = [wanted[0] & own[0], wanted[1] & own[1]];
        frame.extend_from_slice(&[0, 4]);
        frame.extend_from_slice(&depths(config, is_peer_to_peer, rtr));
    } else {
        frame.extend_from_slice(&[0, 0]);
    }
    frame
}

/// Returns the RTR message of a peer that asked for peer-to-peer, of a kind that the device's Reply names.
pub(super) fn rtr(config: &Config, reply: &[u8]) -> Option<Vec<u8>> {
    let data = reply.get(20..24).filter(|data| config.enhanced && data[0] & PEER_TO_PEER != 0)?;
    Some(if data[2] & WRITE_RTR != 0 {
        tagged(true, 0x0, 1, 0, &[])
    } else if data[2] & READ_RTR != 0 {
        let mut ulpdu = untagged(true, 0x1, 1, 0, &read_request(1, 0, 0));
        ulpdu[13] = 1;
        ulpdu
    } else {
        let mut ulpdu = untagged(true, 0x3, 0, 0, &[]);
        ulpdu[13] = 1;
        ulpdu
    })
}

fn flags(config: &Config) -> u8 {
    (u8::from(config.markers) << 7) | (u8::from(config.crc) << 6)
}

fn rtr_bits(config: &Config) -> [u8; 2] {
    let write_or_read = (u8::from(config.rtr.write) * WRITE_RTR) | (u8::from(config.rtr.read) * READ_RTR);
    [u8::from(config.rtr.send) * SEND_RTR, write_or_read]
}

fn depths(config: &Config, is_peer_to_peer: bool, rtr: [u8; 2]) -> [u8; 4] {
    let [ird, ord] = [config.ird, config.ord].map(u16::to_be_bytes);
    let bits = if is_peer_to_peer { [PEER_TO_PEER | rtr[0], rtr[1]] } else { [0, 0] };
    [bits[0] | ird[0], ird[1], bits[1] | ord[0], ord[1]]
}

const ENHANCED: u8 = 0x10;
const PEER_TO_PEER: u8 = 0x80;
const SEND_RTR: u8 = 0x40;
const WRITE_RTR: u8 = 0x80;
const READ_RTR: u8 = 0x40;
