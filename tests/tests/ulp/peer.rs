//! A stream with a peer that speaks octets, and shares no encoder with it.

use weft_conform::octets::{Framing, hex, number};
use weft_mpa::Config;
use weft_netif::LlpState;
use weft_rnic::ulp::{Agreement, DdpStream, Startup, StartupEvent};

use crate::line::{Both, End, Line, LineConfig, Stream, plain};

/// A stream at one end of a line, octets at the other one.
#[derive(Debug)]
pub(crate) struct Scripted<S: Stream> {
    pub(crate) line: Line,
    pub(crate) end: End<S>,
    /// The framing of the peer's FPDUs.
    pub(crate) framing: Framing,
    inbox: Vec<u8>,
}

impl<S: Stream> Scripted<S> {
    /// The stream is the initiator. The peer has accepted with these options for its input: CRC or not, Markers or
    /// not.
    pub(crate) fn initiator(crc: bool, markers: bool) -> Self {
        let flags = match (markers, crc) {
            (false, false) => "00",
            (false, true) => "40",
            (true, false) => "80",
            (true, true) => "C0",
        };
        let reply = hex(&format!("4D504120494420526570204672616D65 {flags} 01 0000"));
        Self::start(plain(crc, false), &reply)
    }

    /// The stream is the initiator, with this wish, and gets this Reply.
    pub(crate) fn start(config: Config, reply: &[u8]) -> Self {
        let mut line = Line::new(LineConfig::default());
        let mut startup = Startup::initiator(config, b"").expect("no private data");
        assert!(line.llp(1).send_slice(reply) == reply.len());
        let agreement = line.run(|line| match startup.poll(&mut line.llp(0)).expect("a good Reply")? {
            StartupEvent::Established(agreement) => Some(agreement),
            other => panic!("{other:?}"),
        });
        Self::with(line, &agreement)
    }

    /// The stream is the responder. It has accepted this Request of the peer.
    pub(crate) fn responder(config: Config, request: &[u8]) -> Self {
        let mut line = Line::new(LineConfig::default());
        let mut startup = Startup::responder(config);
        assert!(line.llp(1).send_slice(request) == request.len());
        let agreement = line.run(|line| match startup.poll(&mut line.llp(0)).expect("a good Request")? {
            StartupEvent::Requested { .. } => {
                startup.accept([4, 4], b"").expect("no private data");
                None
            }
            StartupEvent::Established(agreement) => Some(agreement),
            other => panic!("{other:?}"),
        });
        Self::with(line, &agreement)
    }

    fn with(mut line: Line, agreement: &Agreement) -> Self {
        let negotiated = agreement.negotiated;
        let mut inbox = Vec::new();
        line.settle(|line| take(line, &mut inbox));
        let frame = 20 + number(&inbox[18..20]);
        inbox.drain(..frame);
        assert!(inbox.is_empty(), "octets behind the startup frame");
        let framing = Framing::new(negotiated.crc, negotiated.receive_markers);
        Self { line, end: End::new(agreement), framing, inbox }
    }

    /// The peer sends a ULPDU, framed; the stream gets it.
    pub(crate) fn send(&mut self, ulpdu: &[u8]) {
        let fpdu = self.framing.fpdu(ulpdu);
        self.send_octets(&fpdu);
    }

    /// The peer sends octets as they are.
    pub(crate) fn send_octets(&mut self, octets: &[u8]) {
        assert_eq!(self.line.llp(1).send_slice(octets), octets.len(), "more than TCP takes at once");
        self.settle();
    }

    /// Lets all events happen.
    pub(crate) fn settle(&mut self) {
        let Self { line, end, inbox, .. } = self;
        line.settle(|line| {
            end.poll(&mut line.llp(0));
            take(line, inbox);
        });
    }

    /// Returns the octets from the stream since the last call.
    pub(crate) fn take_octets(&mut self) -> Vec<u8> {
        self.settle();
        core::mem::take(&mut self.inbox)
    }

    /// Checks that exactly these octets have come from the stream.
    #[track_caller]
    pub(crate) fn expect(&mut self, octets: &[u8]) {
        assert_eq!(self.take_octets(), octets);
    }

    /// Returns the state of the connection at the peer.
    pub(crate) fn state(&mut self) -> LlpState {
        self.line.llp(1).state()
    }
}

fn take(line: &mut Line, inbox: &mut Vec<u8>) {
    let mut llp = line.llp(1);
    loop {
        let octets = llp.readable();
        let len = octets.len();
        if len == 0 {
            return;
        }
        inbox.extend_from_slice(octets);
        llp.consume(len);
    }
}

/// Returns how many segments each posted message of the first end had, by the octets on the wire. The second end only
/// receives.
pub(crate) fn segments_sent(both: &mut Both<DdpStream>) -> Vec<usize> {
    let Both { line, ends: [sender, _] } = both;
    let mut inbox = Vec::new();
    line.settle(|line| {
        sender.poll(&mut line.llp(0));
        take(line, &mut inbox);
    });
    let markers = {
        let llp = line.llp(0);
        let plain = llp.emss() - 6 - llp.emss() % 4 - 18;
        sender.stream.max_untagged(&llp) != plain
    };
    let mut counts = vec![0];
    for ulpdu in ulpdus(&inbox, markers) {
        let last = counts.len() - 1;
        counts[last] += 1;
        if ulpdu[0] & 0x40 != 0 {
            counts.push(0);
        }
    }
    counts.pop();
    counts
}

/// The ULPDUs of a stream from its first octet on.
pub(crate) fn ulpdus(stream: &[u8], markers: bool) -> Vec<Vec<u8>> {
    let content: Vec<u8> = stream
        .iter()
        .enumerate()
        .filter(|(position, _)| !markers || position % 512 >= 4)
        .map(|(_, octet)| *octet)
        .collect();
    let mut rest = &content[..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let len = number(rest);
        found.push(rest[2..2 + len].to_vec());
        rest = &rest[(2 + len).next_multiple_of(4) + 4..];
    }
    found
}

/// A plain Request with a CRC.
pub(crate) const REQUEST: &str = "4D504120494420526571204672616D65 40 01 0000";
