//! Steps that many dialogues have: a Request and its answer, and a zero-length Read.

use crate::finding::Stop;
use crate::probe::{DEPTH, echo, is_no_room, is_zero_response, shown, spoilt, zero_read};
use crate::startup::{HEADER_LEN, R, Reply, Request};
use crate::stream::{Missing, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

impl Trial<'_> {
    /// Returns the best Request that the target understands, with CRC and without Markers.
    pub(crate) fn best_request(&self) -> Request {
        if self.need_enhanced().is_ok() { Request::enhanced(DEPTH, DEPTH) } else { Request::plain() }
    }

    /// Sends a Request. If no Reply comes, `ids` are not kept. The content of the Reply is not judged.
    pub(crate) fn ask(&mut self, ids: &[&'static str], request: &Request) -> Result<(Stream, Reply), Stop> {
        let mut stream = self.dial()?;
        stream.send(&request.emit());
        match self.read_reply(&mut stream) {
            Ok(reply) => Ok((stream, reply)),
            // One check judges a Reply with too little private data, and this is not it.
            Err(missing) if stream.record().1.len() >= HEADER_LEN => {
                Err(Stop::Unsuited(format!("{missing} instead of all the private data of a Reply")))
            }
            Err(missing) => Err(self.fail(ids, &stream, "a Reply", missing)),
        }
    }

    /// Sends a Request. If no Reply accepts it, `ids` are not kept. Full Operation has begun when this returns.
    pub(crate) fn ask_in(
        &mut self,
        ids: &[&'static str],
        request: &Request,
    ) -> Result<(Stream, Reply), Stop> {
        let (mut stream, reply) = self.ask(ids, request)?;
        if reply.has(R) {
            self.judge(ids, &stream, false, ("a Reply with R=0", &reply));
            return Err(Stop::Judged);
        }
        self.enter(&mut stream, request, &reply);
        Ok((stream, reply))
    }

    /// Sends octets that are no valid Request. The target has to close the connection without an answer. Judges `ids`
    /// by it.
    pub(crate) fn expect_refusal(&mut self, ids: &[&'static str], octets: &[u8]) -> Result<(), Stop> {
        let mut stream = self.dial()?;
        stream.send(octets);
        self.expect_close(ids, &mut stream);
        Ok(())
    }

    /// The target has to take the tester's octets as FPDUs. Judges `ids` by the answer to a zero-length Read. Without
    /// a negotiated IRD there may be no room for Reads. The Terminate that says so is an answer too.
    pub(crate) fn expect_understood(
        &mut self,
        ids: &[&'static str],
        stream: &mut Stream,
    ) -> Result<(), Stop> {
        let what = "an answer to a zero-length RDMA Read";
        let fpdu = echo(stream, 1).map_err(|missing| self.fail(ids, stream, what, missing))?;
        let is_right = is_zero_response(&fpdu) || is_no_room(&fpdu);
        self.judge(ids, stream, is_right, (what, shown(&fpdu)));
        if is_right { Ok(()) } else { Err(Stop::Judged) }
    }

    /// The target must not act on an FPDU whose CRC is wrong. Judges `ids` by it. `msn` is the next one of queue 1.
    pub(crate) fn expect_crc_check(&mut self, ids: &[&'static str], stream: &mut Stream, msn: u32) {
        let wrong = spoilt(stream.outgoing.fpdu(&zero_read(msn)));
        stream.send(&wrong);
        let (is_right, observed) = match stream.read_fpdu() {
            Ok(fpdu) => (Terminate::parse(&fpdu.ulpdu).is_some() && !is_no_room(&fpdu), shown(&fpdu)),
            Err(missing) => (missing != Missing::Silence, missing.to_string()),
        };
        let expected = "a Terminate or the end of the connection, as the CRC is wrong";
        self.judge(ids, stream, is_right, (expected, observed));
    }
}
