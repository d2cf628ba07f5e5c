//! A connection of the device in streaming mode, with the scripted peer at its other end.

use weft_rnic::{CmError, CmEvent, ConnParam, Listener, QpState, StreamState, StreamingConnection};
use weft_tests::{PairConfig, RawPeer, hex};

use crate::world::{World, exchange};

/// The port where connections to the device begin in streaming mode.
pub(crate) const STREAMING_PORT: u16 = 7175;
/// A Request of the peer, behind its key, and a Reply: CRC, "abc" as private data in the Request.
pub(crate) const REQUEST: &str = "4D504120494420526571204672616D65 40 01 0003 616263";
pub(crate) const REPLY: &str = "4D504120494420526570204672616D65 40 01 0000";
pub(crate) const REJECTION: &str = "4D504120494420526570204672616D65 60 01 0002 6E6F";
/// The device's Request, and the peer's answers to it.
pub(crate) const OUR_REQUEST: &str = "4D504120494420526571204672616D65 50 02 0004 0010 0010";
pub(crate) const THEIR_REPLY: &str = "4D504120494420526570204672616D65 50 02 0004 0010 0010";
pub(crate) const THEIR_REJECTION: &str = "4D504120494420526570204672616D65 70 02 0006 0010 0010 6E6F";

/// The side that opens the TCP connection. The roles in MPA do not depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opener {
    Device,
    Peer,
}

pub(crate) const OPENERS: [Opener; 2] = [Opener::Device, Opener::Peer];

/// A connection in streaming mode.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) world: World,
    pub(crate) stream: StreamingConnection,
    pub(crate) peer: RawPeer,
    _listener: Listener,
}

impl Talk {
    pub(crate) fn new(opener: Opener) -> Self {
        Self::with(opener, &PairConfig::default())
    }

    pub(crate) fn with(opener: Opener, config: &PairConfig) -> Self {
        let world = World::with(config);
        let side = &world.side;
        let listener = side.device.listen_streaming(&side.events, STREAMING_PORT).expect("a free port");
        let (stream, peer) = match opener {
            Opener::Device => {
                let stream = side.device.open_stream(&side.events, world.address_of_peer()).expect("a way");
                assert_eq!(stream.state(), StreamState::Opening);
                assert_eq!(world.event(), CmEvent::StreamReady { id: stream.id() });
                (stream, world.host.accept())
            }
            Opener::Peer => {
                let peer = world.host.connect(side.device.address(STREAMING_PORT));
                let CmEvent::StreamRequest(request) = world.event() else { panic!("no stream request") };
                assert_eq!(request.port, STREAMING_PORT);
                (side.device.accept_stream(request.id).expect("it is there"), peer)
            }
        };
        assert_eq!(stream.state(), StreamState::Streaming);
        Self { world, stream, peer, _listener: listener }
    }

    /// The device receives exactly this, and nothing behind it.
    pub(crate) fn hear(&self, text: &[u8]) {
        let mut heard = vec![0; text.len()];
        let mut len = 0;
        while len < heard.len() {
            len += self.world.host.wait("octets in streaming mode", || {
                Some(self.stream.receive(&mut heard[len..]).expect("streaming mode")).filter(|&len| len > 0)
            });
        }
        assert_eq!(heard, text);
    }

    /// The device sends this, and the peer gets it.
    pub(crate) fn say(&self, text: &[u8]) {
        assert_eq!(self.stream.send(text), Ok(text.len()));
        self.peer.expect(text);
    }

    /// A line in each direction.
    pub(crate) fn chat(&self) {
        self.peer.send(b"how are you?\n");
        self.hear(b"how are you?\n");
        self.say(b"fine\n");
        while matches!(self.world.side.events.next(), Some(CmEvent::StreamReady { .. })) {}
        self.expect_empty();
    }

    /// Checks that no unread octets are there. The device may then owe an event for later ones.
    pub(crate) fn expect_empty(&self) {
        assert_eq!(self.stream.receive(&mut [0; 8]), Ok(0));
    }

    /// Returns the next event, except those that only report octets in streaming mode.
    pub(crate) fn event(&self) -> CmEvent {
        loop {
            match self.world.event() {
                CmEvent::StreamReady { id } => assert_eq!(id, self.stream.id()),
                event => return event,
            }
        }
    }

    pub(crate) fn start_initiator(&self) -> Result<(), CmError> {
        self.stream.start_initiator(&self.world.side.qp, ConnParam::default())
    }

    /// The device accepts the Request that has come.
    pub(crate) fn accept(&self) {
        let CmEvent::ConnectRequest(request) = self.event() else { panic!("no connect request") };
        assert_eq!((&request.private_data[..], request.stream), (&b"abc"[..], Some(self.stream.id())));
        let side = &self.world.side;
        side.device.accept(request.id, &side.qp, ConnParam::default()).expect("a free queue pair");
    }

    pub(crate) fn expect_established(&self) {
        let number = self.world.side.qp.number();
        assert!(matches!(self.event(), CmEvent::Established { qp_num, .. } if qp_num == number));
        assert_eq!((self.world.side.qp.state(), self.stream.state()), (QpState::Rts, StreamState::Mpa));
        exchange(&self.world, &self.world.side.qp, &self.peer, 1);
    }

    /// MPA startup with the device as responder, up to a Send in each direction.
    pub(crate) fn respond(&self) {
        self.stream.start_responder(b"go ahead\n").unwrap();
        self.peer.expect(b"go ahead\n");
        self.peer.send(&hex(REQUEST));
        self.accept();
        self.peer.expect(&hex(REPLY));
        self.expect_established();
    }

    /// MPA startup with the device as initiator, up to a Send in each direction.
    pub(crate) fn initiate(&self) {
        self.start_initiator().unwrap();
        self.peer.expect(&hex(OUR_REQUEST));
        self.peer.send(&hex(THEIR_REPLY));
        self.expect_established();
    }
}
