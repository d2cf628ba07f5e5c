//! Remote procedure calls in the form of MessagePack-RPC: `[0, id, "echo", [octets]]` and `[1, id, nil, octets]`.

use std::io;

use super::end::End;

/// The client's side of a connection.
pub(super) struct Calls {
    end: End,
    body: Vec<u8>,
    answer: Vec<u8>,
    id: u32,
}

impl Calls {
    pub(super) fn new(end: End, body: Vec<u8>) -> Self {
        let answer = vec![0; response(0, &body).len()];
        Self { end, body, answer, id: 0 }
    }

    /// Calls the function, and compares its answer.
    pub(super) fn call(&mut self) -> io::Result<()> {
        self.id = self.id.wrapping_add(1);
        self.end.write_all(&request(self.id, &self.body))?;
        if !self.end.read_all(&mut self.answer)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.answer != response(self.id, &self.body) {
            return Err(io::Error::other("an answer that is not that of its call"));
        }
        Ok(())
    }
}

/// Answers calls with bodies of `size` octets until the client goes away.
pub(super) fn answer(end: &mut End, size: usize) -> io::Result<()> {
    let mut call = vec![0; request(0, &vec![0; size]).len()];
    while end.read_all(&mut call)? {
        let id = u32::from_be_bytes([call[3], call[4], call[5], call[6]]);
        let body = &call[call.len() - size..];
        if call != request(id, body) {
            return Err(io::Error::other("a call of another form"));
        }
        end.write_all(&response(id, body))?;
    }
    Ok(())
}

/// Returns how many octets a call and its answer have beside their bodies.
pub(super) fn overhead() -> usize {
    request(0, &[]).len() + response(0, &[]).len()
}

fn request(id: u32, body: &[u8]) -> Vec<u8> {
    // An array of four, 0, the id; a string of four; an array of one with octets.
    [&[0x94, 0x00, 0xce][..], &id.to_be_bytes(), b"\xa4echo\x91\xc6", &len(body), body].concat()
}

fn response(id: u32, body: &[u8]) -> Vec<u8> {
    [&[0x94, 0x01, 0xce][..], &id.to_be_bytes(), b"\xc0\xc6", &len(body), body].concat()
}

fn len(body: &[u8]) -> [u8; 4] {
    u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes()
}
