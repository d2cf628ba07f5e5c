//! Streams on TCP sockets of smoltcp's, whose interface is the test's.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Loopback, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use weft_netif::{CloseCause, Llp, LlpState, SocketStream};

const PORT: u16 = 4000;

/// Two sockets on an interface that hears itself. The first one connects to a port, and the second one listens.
struct Line {
    device: Loopback,
    iface: Interface,
    sockets: SocketSet<'static>,
    ends: [(SocketHandle, SocketStream); 2],
    now: Instant,
}

impl Line {
    fn new(port: u16) -> Self {
        let mut device = Loopback::new(Medium::Ethernet);
        let mut iface = Interface::new(
            Config::new(EthernetAddress([2, 0, 0, 0, 0, 1]).into()),
            &mut device,
            Instant::ZERO,
        );
        iface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::v4(127, 0, 0, 1), 8)).unwrap()
        });
        let mut sockets = SocketSet::new(Vec::new());
        let buffer = || SocketBuffer::new(vec![0; 1000]);
        let ends = [(); 2].map(|()| (sockets.add(Socket::new(buffer(), buffer())), SocketStream::new(500)));
        let remote = (IpAddress::v4(127, 0, 0, 1), port);
        sockets.get_mut::<Socket<'_>>(ends[0].0).connect(iface.context(), remote, 5000).unwrap();
        sockets.get_mut::<Socket<'_>>(ends[1].0).listen(PORT).unwrap();
        Self { device, iface, sockets, ends, now: Instant::ZERO }
    }

    fn llp(&mut self, end: usize) -> Llp<'_> {
        let (handle, stream) = &mut self.ends[end];
        Llp::Socket(stream.llp(self.sockets.get_mut(*handle)))
    }

    /// Lets a second pass.
    fn settle(&mut self) {
        for _ in 0..100 {
            self.iface.poll(self.now, &mut self.device, &mut self.sockets);
            self.now += Duration::from_millis(10);
            let _seen = [0, 1].map(|end| self.llp(end).state());
        }
    }

    fn ends(&mut self) -> [(LlpState, Option<CloseCause>); 2] {
        [0, 1].map(|end| {
            let llp = self.llp(end);
            (llp.state(), llp.cause())
        })
    }
}

#[test]
fn octets_go_both_ways_and_the_end_is_graceful() {
    let mut line = Line::new(PORT);
    assert_eq!(line.ends(), [(LlpState::Connecting, None); 2]);
    line.settle();
    assert_eq!(line.ends(), [(LlpState::Established, None); 2]);
    let mut llp = line.llp(0);
    assert_eq!((llp.emss(), llp.capacity(), llp.segment_room()), (500, 1000, None));
    assert_eq!(llp.send_slice(b"over "), 5);
    let put = llp.transmit(1, |room| {
        room[..5].copy_from_slice(b"there");
        (5, room.len())
    });
    assert_eq!((put, llp.room(), llp.unsent()), (Some(995), 990, 10));
    assert!(llp.has_room(990) && !llp.has_room(991));
    line.settle();
    assert_eq!(line.llp(0).unsent(), 0);
    let mut llp = line.llp(1);
    let mut octets = [0; 4];
    assert_eq!((llp.peek(&mut octets), &octets), (4, b"over"));
    assert_eq!(llp.unread(1), 10);
    assert_eq!(llp.readable(), b"over there");
    llp.consume(5);
    assert_eq!(llp.readable(), b"there");
    line.llp(0).shutdown();
    line.settle();
    assert_eq!(line.ends(), [(LlpState::Established, None), (LlpState::PeerClosed, None)]);
    assert!(line.llp(1).is_complete() && !line.llp(1).is_drained());
    line.llp(1).consume(100);
    assert!(line.llp(1).is_drained());
    line.llp(1).shutdown();
    line.settle();
    assert_eq!(line.ends(), [(LlpState::Closed, Some(CloseCause::Graceful)); 2]);
}

#[test]
fn a_port_that_nobody_listens_on_refuses() {
    let mut line = Line::new(PORT + 1);
    line.settle();
    assert_eq!(line.ends()[0], (LlpState::Reset, Some(CloseCause::Refused)));
}

#[test]
fn an_abort_is_a_reset_at_the_other_end() {
    let mut line = Line::new(PORT);
    line.settle();
    line.llp(0).abort();
    line.settle();
    let [aborted, reset] =
        [CloseCause::Aborted, CloseCause::Reset].map(|cause| (LlpState::Reset, Some(cause)));
    assert_eq!(line.ends(), [aborted, reset]);
    assert_eq!(line.llp(1).transmit(1, |_| (0, ())), None);
}

#[test]
fn a_connection_that_is_not_there_yet_can_be_given_up() {
    let mut line = Line::new(PORT);
    line.llp(0).shutdown();
    line.settle();
    assert_eq!(line.ends()[0], (LlpState::Reset, Some(CloseCause::Aborted)));
}
