//! A run of a check: connections to the target, waits with a deadline, and judgements.

use std::fmt::Display;
use std::time::Duration;

use crate::arrival::DialError;
use crate::finding::{Evidence, Finding, Stop, Verdict};
use crate::octets::Framing;
use crate::probe::{DEPTH, is_zero_response, shown, zero_read};
use crate::startup::{C, HEADER_LEN, M, MAX_PRIVATE_DATA, R, Reply, Request};
use crate::stream::{Fpdu, Missing, Stream};
use crate::target::Target;
use crate::terminate::Terminate;
use crate::time::Deadline;

/// One run of one check.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    target: &'a Target,
    check: &'static str,
    /// How long the tester waits between the Reply and its first FPDU.
    pause: Duration,
    findings: Vec<Finding>,
    /// True if an answer that the check waited for did not come.
    is_silent: bool,
}

impl<'a> Trial<'a> {
    pub(crate) const fn new(target: &'a Target, check: &'static str, pause: Duration) -> Self {
        Self { target, check, pause, findings: Vec::new(), is_silent: false }
    }

    /// Opens a TCP connection. Repeats the attempt for a target that needs a moment before it listens again.
    pub(crate) fn dial(&self) -> Result<Stream, Stop> {
        let patience = self.target.patience;
        let deadline = Deadline::after(patience);
        loop {
            match self.target.host.connect(self.target.address, patience) {
                Ok(connection) => return Ok(Stream::new(connection, patience)),
                Err(DialError::Refused) if deadline.left().is_some() => self.target.host.sleep(REDIAL),
                Err(error) => return Err(Stop::Gone(error.to_string())),
            }
        }
    }

    /// Opens a connection for FPDUs, with CRC and without Markers, by the best Request that the target understands.
    pub(crate) fn open(&mut self) -> Result<Stream, Stop> {
        let request =
            if self.target.is_enhanced { Request::enhanced(DEPTH, DEPTH) } else { Request::plain() };
        self.open_with(&request).map(|(stream, _)| stream)
    }

    /// Opens a connection by `request`, and sets the framing as the two frames say.
    pub(crate) fn open_with(&mut self, request: &Request) -> Result<(Stream, Reply), Stop> {
        let mut stream = self.dial()?;
        stream.send(&request.emit());
        let reply = self.read_reply(&mut stream).map_err(|missing| {
            self.is_silent |= missing == Missing::Silence;
            Stop::Unsuited(format!("{missing} instead of a Reply"))
        })?;
        if reply.has(R) {
            return Err(Stop::Unsuited(format!("the target rejects the Request: {reply}")));
        }
        self.enter(&mut stream, request, &reply);
        Ok((stream, reply))
    }

    /// Begins Full Operation, framed as the two frames say.
    pub(crate) fn enter(&self, stream: &mut Stream, request: &Request, reply: &Reply) {
        let crc = (request.flags | reply.flags) & C != 0;
        stream.outgoing = Framing::new(crc, reply.has(M));
        stream.incoming = Framing::new(crc, request.flags & M != 0);
        self.pause();
    }

    /// Ends the check as unsuited if the target does not know RFC 6581's startup.
    pub(crate) fn need_enhanced(&self) -> Result<(), Stop> {
        let reason = "the target closes the connection at an enhanced Request";
        if self.target.is_enhanced { Ok(()) } else { Err(Stop::Unsuited(reason.to_owned())) }
    }

    /// Gives the target time to be ready for FPDUs: some answer the Request before they are.
    pub(crate) fn pause(&self) {
        self.target.host.sleep(self.pause);
    }

    pub(crate) const fn target(&self) -> &'a Target {
        self.target
    }

    /// Waits for a startup frame.
    pub(crate) fn read_reply(&self, stream: &mut Stream) -> Result<Reply, Missing> {
        let head = stream.read(HEADER_LEN)?;
        let len = usize::from(u16::from_be_bytes([head[18], head[19]]));
        let private_data = stream.read(len.min(MAX_PRIVATE_DATA))?;
        let key = std::array::from_fn(|at| head[at]);
        Ok(Reply { key, flags: head[16], revision: head[17], private_data })
    }

    /// Judges `ids`. `is_right` is true if the target did what it had to.
    pub(crate) fn judge(
        &mut self,
        ids: &[&'static str],
        stream: &Stream,
        is_right: bool,
        words: (impl Display, impl Display),
    ) {
        let (expected, observed) = words;
        let (sent, received) = stream.record();
        for id in ids {
            let verdict = if is_right {
                Verdict::Pass
            } else {
                let (expected, observed) = (expected.to_string(), observed.to_string());
                Verdict::Fail(Evidence {
                    expected,
                    observed,
                    sent: sent.to_vec(),
                    received: received.to_vec(),
                })
            };
            self.findings.push(Finding { id, check: self.check, verdict });
        }
    }

    /// Records that `ids` cannot be judged, and why.
    pub(crate) fn leave(&mut self, ids: &[&'static str], reason: impl Display) {
        let verdict = Verdict::Inconclusive(reason.to_string());
        self.findings.extend(ids.iter().map(|id| Finding {
            id,
            check: self.check,
            verdict: verdict.clone(),
        }));
    }

    /// Judges that `ids` are not kept, since `missing` came instead of `what`. Ends the dialogue.
    pub(crate) fn fail(
        &mut self,
        ids: &[&'static str],
        stream: &Stream,
        what: impl Display,
        missing: Missing,
    ) -> Stop {
        self.is_silent |= missing == Missing::Silence;
        self.judge(ids, stream, false, (what, missing));
        Stop::Judged
    }

    /// Waits for an FPDU. If none comes, `ids` are not kept. The content is not judged.
    pub(crate) fn expect_fpdu(
        &mut self,
        ids: &[&'static str],
        stream: &mut Stream,
        what: &str,
    ) -> Result<Fpdu, Stop> {
        stream.read_fpdu().map_err(|missing| self.fail(ids, stream, what, missing))
    }

    /// A Terminate with one of `codes` has to come. Each code is layer, type and code as four digits. Judges `ids` by
    /// it.
    pub(crate) fn expect_terminate(
        &mut self,
        ids: &[&'static str],
        stream: &mut Stream,
        codes: &[&str],
    ) -> Result<Terminate, Stop> {
        let expected = format!("a Terminate {}", codes.join(" or "));
        let fpdu = self.expect_fpdu(ids, stream, &expected)?;
        let Some(terminate) = Terminate::parse(&fpdu.ulpdu) else {
            self.judge(ids, stream, false, (expected, shown(&fpdu)));
            return Err(Stop::Judged);
        };
        let [layer, code] = terminate.code();
        let is_right = codes.contains(&format!("{layer:02X}{code:02X}").as_str());
        self.judge(ids, stream, is_right, (expected, &terminate));
        Ok(terminate)
    }

    /// The target has to close the connection, by FIN or RST, and to send nothing before. Judges `ids` by it.
    pub(crate) fn expect_close(&mut self, ids: &[&'static str], stream: &mut Stream) {
        let (octets, end) = stream.read_to_end();
        self.is_silent |= end == Missing::Silence;
        self.judge_close(ids, stream, &octets, end);
    }

    /// Does the same for octets and an end that have already been received.
    pub(crate) fn judge_close(&mut self, ids: &[&'static str], stream: &Stream, octets: &[u8], end: Missing) {
        let observed = format!("{} octets and {end}", octets.len());
        let is_right = octets.is_empty() && end != Missing::Silence;
        self.judge(ids, stream, is_right, ("the end of the connection, and no octet before", observed));
    }

    /// The target has to send nothing for a while and to keep the connection open. Judges `ids` by it.
    pub(crate) fn expect_quiet(&mut self, ids: &[&'static str], stream: &mut Stream) {
        let (octets, end) = stream.listen(QUIET);
        let observed = format!("{} octets and {end}", octets.len());
        let is_right = octets.is_empty() && end == Missing::Silence;
        self.judge(ids, stream, is_right, ("silence on an open connection", observed));
    }

    /// The target has to answer a zero-length Read, as every stream in RDMA mode does. Judges `ids` by it. `msn` is
    /// the next one of queue 1.
    pub(crate) fn expect_alive(
        &mut self,
        ids: &[&'static str],
        stream: &mut Stream,
        msn: u32,
    ) -> Result<(), Stop> {
        stream.send_ulpdu(&zero_read(msn));
        self.expect_answer(ids, stream)
    }

    /// The answer to a zero-length Read that was sent before has to come. Judges `ids` by it.
    pub(crate) fn expect_answer(&mut self, ids: &[&'static str], stream: &mut Stream) -> Result<(), Stop> {
        let what = "the answer to a zero-length RDMA Read";
        let fpdu = self.expect_fpdu(ids, stream, what)?;
        self.need(ids, stream, is_zero_response(&fpdu), (what, shown(&fpdu)))
    }

    /// Notes that `missing` came instead of an answer. After silence the check is repeated with a longer pause.
    pub(crate) fn note(&mut self, missing: Missing) {
        self.is_silent |= missing == Missing::Silence;
    }

    /// Returns the findings, and whether an awaited answer did not come.
    pub(crate) fn finish(self) -> (Vec<Finding>, bool) {
        (self.findings, self.is_silent)
    }
}

const REDIAL: Duration = Duration::from_millis(50);
/// How long the tester listens to see that nothing comes.
const QUIET: Duration = Duration::from_millis(300);
