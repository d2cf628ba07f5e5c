//! The zero-length Read, which every stream in RDMA mode answers, and other answers to it.

use crate::octets::{Place, digits, read_request};
use crate::stream::{Fpdu, Missing, Stream};
use crate::terminate::Terminate;

/// Sends a zero-length Read and returns its answer, right or wrong.
pub(crate) fn echo(stream: &mut Stream, msn: u32) -> Result<Fpdu, Missing> {
    stream.send_ulpdu(&zero_read(msn));
    stream.read_fpdu()
}

/// Returns a zero-length Read Request, which every stream in RDMA mode answers.
pub(crate) fn zero_read(msn: u32) -> Vec<u8> {
    read_request(msn, Place(PROBE_STAG, u64::from(msn)), 0, Place(0, 0))
}

/// Returns true if the FPDU is the answer to a zero-length Read.
pub(crate) fn is_zero_response(fpdu: &Fpdu) -> bool {
    fpdu.ulpdu.len() == 14 && fpdu.ulpdu[0] & 0x80 != 0 && fpdu.ulpdu[1] & 0x0F == 2
}

/// Returns true if the FPDU is a Terminate that says that there is no room for a Read Request. That is a catastrophic
/// error of the stream, no buffer, or an MSN out of range. Layer and type may be in either order.
pub(crate) fn is_no_room(fpdu: &Fpdu) -> bool {
    const CODES: [[u8; 2]; 6] = [[0x02, 7], [0x20, 7], [0x12, 2], [0x21, 2], [0x12, 3], [0x21, 3]];
    Terminate::parse(&fpdu.ulpdu).is_some_and(|terminate| CODES.contains(&terminate.code()))
}

/// Returns the same FPDU with another CRC.
pub(crate) fn spoilt(mut fpdu: Vec<u8>) -> Vec<u8> {
    if let Some(last) = fpdu.last_mut() {
        *last ^= 1;
    }
    fpdu
}

/// Returns an FPDU as text.
pub(crate) fn shown(fpdu: &Fpdu) -> String {
    Terminate::parse(&fpdu.ulpdu).map_or_else(
        || format!("the ULPDU {}", digits(&fpdu.ulpdu, SHOWN)),
        |terminate| terminate.to_string(),
    )
}

/// The Reads that each side may have outstanding, as in rping.
pub(crate) const DEPTH: u16 = 1;
/// The STag that a zero-length Read names as its sink.
pub(crate) const PROBE_STAG: u32 = 0x0050_524F;
const SHOWN: usize = 60;
