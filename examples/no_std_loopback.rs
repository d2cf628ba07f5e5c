//! MPA, DDP and RDMAP for a microcontroller: on two TCP sockets of smoltcp, without std and without an allocator.
//!
//! The module `protocol` uses only `core`, the three crates and smoltcp's sockets. All its storage is arrays, and its
//! CRC is the portable one. The clock of the loop and the output are the host's part.
//!
//! `cargo run -p weft-examples --example no_std_loopback`

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Loopback, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use weft_examples::Result;

use protocol::{Client, Server};

const PORT: u16 = 4791;
const BUFFER: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(1);

fn main() -> Result {
    let mut device = Loopback::new(Medium::Ethernet);
    let mut now = Instant::ZERO;
    let mac = EthernetAddress([0x02, 0, 0, 0, 0, 1]);
    let mut iface = Interface::new(Config::new(mac.into()), &mut device, now);
    iface.update_ip_addrs(|addresses| {
        // The list is empty, and has room for more than one.
        let _fits = addresses.push(IpCidr::new(IpAddress::v4(127, 0, 0, 1), 8));
    });
    let mut sockets = SocketSet::new(Vec::new());
    let [client, server] = [(); 2].map(|()| sockets.add(socket()));
    sockets.get_mut::<tcp::Socket<'_>>(server).listen(PORT)?;
    let to = (IpAddress::v4(127, 0, 0, 1), PORT);
    sockets.get_mut::<tcp::Socket<'_>>(client).connect(iface.context(), to, 49152)?;

    let mut ends = (Client::new(), Server::new());
    while now < Instant::ZERO + PATIENCE {
        iface.poll(now, &mut device, &mut sockets);
        if turn(&mut ends, &mut sockets, [client, server])? {
            println!(
                "{} Sends written back and {} octets read, CRC and Markers on",
                protocol::ROUNDS,
                protocol::MEMORY
            );
            return Ok(());
        }
        // A frame may lie in the loopback, and the sockets do not know of it. No real time has to pass for it.
        now += STEP;
    }
    Err("it takes too long".into())
}

/// Gives both ends a turn. Returns true when the client has received everything.
fn turn(
    ends: &mut (Client, Server),
    sockets: &mut SocketSet<'_>,
    [client, server]: [SocketHandle; 2],
) -> Result<bool> {
    ends.1.poll(sockets.get_mut(server)).map_err(|step| format!("server: {step:?}"))?;
    let is_done = ends.0.poll(sockets.get_mut(client)).map_err(|step| format!("client: {step:?}"))?;
    Ok(is_done)
}

fn socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
    tcp::Socket::new(buffer(), buffer())
}

/// The protocols and their ULP, without std.
mod protocol {
    use smoltcp::socket::tcp::Socket;
    use weft_ddp::{Receiver, Stag};
    use weft_mpa::{
        Config, Crc32c, Deframer, FrameKind, Framer, Initiator, MAX_FRAME_LEN, Negotiated, Outcome,
        Responder, StartupFrame, mulpdu,
    };
    use weft_rdmap::{Body, Endpoint, Inbound, Kind, Message, OutstandingRequest, PendingRequest, Token};

    /// Sends that go to the server and back.
    pub(crate) const ROUNDS: u32 = 100;
    /// Octets of the server's memory, which the client reads last.
    pub(crate) const MEMORY: usize = 3000;
    const EMSS: usize = 536;
    /// The largest FPDU that either end makes, Markers included.
    const FPDU: usize = 600;
    /// The server's memory, and the client's for what it reads.
    const SOURCE: Stag = Stag(0x0000_0100);
    const SINK: Stag = Stag(0x0000_0200);

    /// The step in which an end has failed.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Step {
        Startup,
        Framing,
        Segment,
        Message,
        Content,
        Tcp,
    }

    /// MPA, DDP and RDMAP in Full Operation, in arrays.
    struct Stream {
        framer: Framer,
        deframer: Deframer<[u8; FPDU]>,
        ddp: Receiver,
        rdmap: Endpoint<[OutstandingRequest; 1], [PendingRequest; 1]>,
        may_send: bool,
    }

    impl Stream {
        fn new(negotiated: &Negotiated, initiator: bool) -> Self {
            let crc = negotiated.crc.then_some(Crc32c::PORTABLE);
            Self {
                framer: Framer::new(crc, negotiated.send_markers),
                deframer: Deframer::new(crc, negotiated.receive_markers, [0; FPDU]),
                ddp: Receiver::new(3),
                rdmap: Endpoint::new(Default::default(), Default::default()).without_extensions(),
                may_send: initiator,
            }
        }

        /// Gives every segment that has come to `take`.
        fn receive(
            &mut self,
            socket: &mut Socket<'_>,
            mut take: impl FnMut(Inbound<'_>) -> Result<(), Step>,
        ) -> Result<(), Step> {
            while socket.can_recv() {
                let taken = socket.recv(|octets| {
                    let mut rest = &*octets;
                    let result = loop {
                        match self.deframer.next(&mut rest) {
                            Ok(None) => break Ok(()),
                            Err(_) => break Err(Step::Framing),
                            Ok(Some(ulpdu)) => {
                                self.may_send = true;
                                let segment = self.ddp.accept(ulpdu).map_err(|_| Step::Segment);
                                let inbound = segment.and_then(|segment| {
                                    self.rdmap.accept(segment).map_err(|_| Step::Message)
                                });
                                if let Err(step) = inbound.and_then(&mut take) {
                                    break Err(step);
                                }
                            }
                        }
                    };
                    (octets.len() - rest.len(), result)
                });
                taken.map_err(|_| Step::Tcp)??;
            }
            Ok(())
        }

        /// Sends segments while there is room. `fill` has the octets of messages, and of memory that the peer reads.
        fn transmit(
            &mut self,
            socket: &mut Socket<'_>,
            mut fill: impl FnMut(&Body, &mut [u8]),
        ) -> Result<(), Step> {
            let mut scratch = [0; FPDU];
            while self.may_send && socket.send_capacity() - socket.send_queue() >= FPDU {
                let room = mulpdu(EMSS, self.framer.markers()).min(self.framer.room(FPDU));
                let Some(segment) = self.rdmap.poll_segment(room) else { return Ok(()) };
                let len = segment.ulpdu_len();
                let ulpdu = self.framer.ulpdu_mut(&mut scratch, len);
                segment.header.emit(ulpdu);
                let payload = &mut ulpdu[segment.header.len()..];
                match &segment.body {
                    Body::Inline(octets) => payload.copy_from_slice(octets),
                    body => fill(body, payload),
                }
                let octets = self.framer.seal(&mut scratch, len);
                if socket.send_slice(&scratch[..octets]) != Ok(octets) {
                    return Err(Step::Tcp);
                }
            }
            Ok(())
        }
    }

    /// The startup frame of the peer, as far as it has come.
    struct Frame {
        octets: [u8; MAX_FRAME_LEN],
        len: usize,
    }

    impl Frame {
        const fn new() -> Self {
            Self { octets: [0; MAX_FRAME_LEN], len: 0 }
        }

        /// Takes octets one by one until the frame is whole: the octets behind it belong to the stream.
        fn receive(
            &mut self,
            socket: &mut Socket<'_>,
            kind: FrameKind,
        ) -> Result<Option<StartupFrame<'_>>, Step> {
            loop {
                let parsed = StartupFrame::parse(kind, &self.octets[..self.len]);
                if parsed.map_err(|_| Step::Startup)?.is_some() {
                    break;
                }
                let place = self.octets.get_mut(self.len..=self.len).ok_or(Step::Startup)?;
                if !socket.can_recv() || socket.recv_slice(place) != Ok(1) {
                    return Ok(None);
                }
                self.len += 1;
            }
            let parsed = StartupFrame::parse(kind, &self.octets[..self.len]);
            Ok(parsed.map_err(|_| Step::Startup)?.map(|(frame, _)| frame))
        }
    }

    fn send_frame(socket: &mut Socket<'_>, frame: &StartupFrame<'_>) -> Result<(), Step> {
        let mut octets = [0; MAX_FRAME_LEN];
        let len = frame.emit(&mut octets).map_err(|_| Step::Startup)?;
        if socket.send_slice(&octets[..len]) == Ok(len) { Ok(()) } else { Err(Step::Tcp) }
    }

    const fn wish() -> Config {
        let rtr = weft_mpa::RtrSet { send: false, write: false, read: false };
        Config { crc: true, markers: true, enhanced: true, ird: 1, ord: 1, peer_to_peer: false, rtr }
    }

    fn content(round: u32) -> [u8; 16] {
        let [a, b, c, d] = round.to_be_bytes();
        let mut octets = *b"round nnnn .....";
        octets[6..10].copy_from_slice(&[a, b, c, d]);
        octets
    }

    /// Returns the octet of the server's memory at an offset.
    const fn octet(at: u64) -> u8 {
        (at * 31 % 251).to_le_bytes()[0]
    }

    /// The client's end.
    pub(crate) struct Client {
        initiator: Option<Initiator>,
        is_asked: bool,
        frame: Frame,
        stream: Option<Stream>,
        /// Rounds that have come back.
        round: u32,
        /// The message in progress, if there is one.
        is_waiting: bool,
        memory: [u8; MEMORY],
        has_read: bool,
    }

    impl Client {
        pub(crate) fn new() -> Self {
            Self {
                initiator: Some(Initiator::new(wish())),
                is_asked: false,
                frame: Frame::new(),
                stream: None,
                round: 0,
                is_waiting: false,
                memory: [0; MEMORY],
                has_read: false,
            }
        }

        /// Takes a turn. Returns true when all answers have come back.
        pub(crate) fn poll(&mut self, socket: &mut Socket<'_>) -> Result<bool, Step> {
            if !socket.may_send() {
                return Ok(false);
            }
            let Some(stream) = &mut self.stream else {
                self.start(socket)?;
                return Ok(false);
            };
            let Self { round, is_waiting, memory, has_read, .. } = self;
            stream.receive(socket, |inbound| match inbound {
                Inbound::Send { offset: 0, payload, last: Some(_) } if *payload == content(*round) => {
                    *round += 1;
                    *is_waiting = false;
                    Ok(())
                }
                Inbound::ReadResponse { to, payload, finished, .. } => {
                    let start = usize::try_from(to).map_err(|_| Step::Content)?;
                    let place = memory.get_mut(start..start + payload.len()).ok_or(Step::Content)?;
                    place.copy_from_slice(payload);
                    *has_read = finished;
                    Ok(())
                }
                _ => Err(Step::Content),
            })?;
            if *has_read {
                let is_good = (0..).zip(memory.iter()).all(|(at, found)| *found == octet(at));
                return if is_good { Ok(true) } else { Err(Step::Content) };
            }
            if !*is_waiting {
                let message = if *round < ROUNDS {
                    let kind = Kind::Send { solicited: false, invalidate: None };
                    Message { token: Token(u64::from(*round)), len: 16, kind }
                } else {
                    let kind = Kind::Read { sink_stag: SINK, sink_to: 0, source_stag: SOURCE, source_to: 0 };
                    Message {
                        token: Token(u64::MAX),
                        len: u32::try_from(MEMORY).map_err(|_| Step::Message)?,
                        kind,
                    }
                };
                stream.rdmap.start(message).map_err(|_| Step::Message)?;
                *is_waiting = true;
            }
            let octets = content(*round);
            stream.transmit(socket, |body, payload| {
                if let Body::Message { offset, .. } = body {
                    let start = *offset as usize;
                    payload.copy_from_slice(&octets[start..start + payload.len()]);
                }
            })?;
            Ok(false)
        }

        fn start(&mut self, socket: &mut Socket<'_>) -> Result<(), Step> {
            let Some(initiator) = &self.initiator else { return Err(Step::Startup) };
            if !self.is_asked {
                self.is_asked = true;
                send_frame(socket, &initiator.request(b"").map_err(|_| Step::Startup)?)?;
            }
            let Some(reply) = self.frame.receive(socket, FrameKind::Reply)? else { return Ok(()) };
            let Some(initiator) = self.initiator.take() else { return Err(Step::Startup) };
            match initiator.handle_reply(&reply) {
                Ok(Outcome::Established(negotiated)) => {
                    self.stream = Some(Stream::new(&negotiated, true));
                    Ok(())
                }
                _ => Err(Step::Startup),
            }
        }
    }

    /// The server's end, which sends messages back and lets the client read its memory.
    pub(crate) struct Server {
        frame: Frame,
        stream: Option<Stream>,
        /// The message to send back. The client waits for it, so one buffer is enough.
        echo: [u8; 16],
        owes: bool,
    }

    impl Server {
        pub(crate) const fn new() -> Self {
            Self { frame: Frame::new(), stream: None, echo: [0; 16], owes: false }
        }

        /// Takes a turn.
        pub(crate) fn poll(&mut self, socket: &mut Socket<'_>) -> Result<(), Step> {
            let Some(stream) = &mut self.stream else { return self.start(socket) };
            let Self { echo, owes, .. } = self;
            stream.receive(socket, |inbound| match inbound {
                Inbound::Send { offset: 0, payload, last: Some(_) } if !*owes => {
                    *echo = payload.try_into().map_err(|_| Step::Content)?;
                    *owes = true;
                    Ok(())
                }
                Inbound::ReadRequest(request)
                    if request.source_stag == SOURCE
                        && request.source_to == 0
                        && request.size as usize <= MEMORY =>
                {
                    Ok(())
                }
                _ => Err(Step::Content),
            })?;
            if *owes && stream.rdmap.readiness().idle {
                let kind = Kind::Send { solicited: false, invalidate: None };
                let message = Message { token: Token(0), len: 16, kind };
                stream.rdmap.start(message).map_err(|_| Step::Message)?;
                *owes = false;
            }
            let octets = *echo;
            stream.transmit(socket, |body, payload| match body {
                Body::Message { offset, .. } => {
                    let start = *offset as usize;
                    payload.copy_from_slice(&octets[start..start + payload.len()]);
                }
                Body::ReadResponse { to, .. } => {
                    for (at, place) in (*to..).zip(payload) {
                        *place = octet(at);
                    }
                }
                Body::AtomicResponse(_) | Body::Inline(_) => {}
            })
        }

        fn start(&mut self, socket: &mut Socket<'_>) -> Result<(), Step> {
            let Some(request) = self.frame.receive(socket, FrameKind::Request)? else { return Ok(()) };
            let offer = Responder::new(wish()).handle_request(&request).map_err(|_| Step::Startup)?;
            let (reply, negotiated) = offer.accept(b"").map_err(|_| Step::Startup)?;
            send_frame(socket, &reply)?;
            self.stream = Some(Stream::new(&negotiated, false));
            Ok(())
        }
    }
}
