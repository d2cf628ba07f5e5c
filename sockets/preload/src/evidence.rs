//! What the kernel says of a connection: how many octets it has seen, and whether its socket may be upgraded.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use weft_sockets::Reason;
use weft_sockets::layout::End;

use crate::calls;

/// What the kernel has counted of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Octets that were written to the socket. The SYN of the end that connected counts as one.
    pub(crate) written: u64,
    /// Octets that were taken from the socket.
    pub(crate) consumed: u64,
    /// The peer has sent its FIN.
    pub(crate) is_ended: bool,
    /// `written` by the counts of sent segments. It has no SYN, but each failed transmission.
    pub(crate) sent: u64,
}

impl Evidence {
    /// Asks the kernel. The program must not be inside a call on the direction that the caller looks at. Returns `None`
    /// if the kernel cannot tell, if octets of the peer come faster than it can be asked, or if the connection is over.
    pub(crate) fn of(descriptor: c_int) -> Option<Self> {
        let mut before = Info::of(descriptor)?;
        for _ in 0..TURNS {
            let unread = calls::queued(descriptor, SIOCINQ).ok()?;
            let unacknowledged = calls::queued(descriptor, SIOCOUTQ).ok()?;
            let behind = Info::of(descriptor)?;
            if behind.counts() == before.counts() {
                // Behind both FINs or a reset the kernel does not say whether a FIN is among what it has counted.
                if behind.state() == CLOSED && behind.bytes_received() > 0 {
                    return None;
                }
                let is_ended = behind.is_ended();
                return Some(Self {
                    written: behind.bytes_acked() + unacknowledged,
                    consumed: behind.bytes_received().checked_sub(unread + u64::from(is_ended))?,
                    is_ended,
                    sent: behind.sent(),
                });
            }
            before = behind;
        }
        None
    }
}

/// Notes where a connection is that the family did not see begin.
pub(crate) fn begin(end: &End, descriptor: c_int) {
    let Some(evidence) = Evidence::of(descriptor) else {
        end.stay(Reason::Kernel);
        return;
    };
    let syn = evidence.written.wrapping_sub(evidence.sent);
    if syn > 1 {
        end.stay(Reason::Evidence);
    }
    end.outbound.kernel.store(syn, Ordering::Relaxed);
    end.outbound.written.store(evidence.sent, Ordering::Relaxed);
    end.inbound.consumed.store(evidence.consumed, Ordering::Relaxed);
}

/// Returns why a socket cannot be upgraded, if it is so.
pub(crate) fn objection(descriptor: c_int) -> Option<Reason> {
    let Some(info) = Info::of(descriptor) else { return Some(Reason::Kernel) };
    if info.state() != ESTABLISHED {
        return Some(Reason::Short);
    }
    let is = |level, name, wanted| calls::number(descriptor, level, name) == Ok(wanted);
    let is_off =
        |level, name| matches!(calls::number(descriptor, level, name), Ok(0) | Err(libc::ENOPROTOOPT));
    // Both answer with a length of 0 if there is nothing.
    let is_empty = |level, name| matches!(calls::option(descriptor, level, name, &mut []), Ok(0));
    let is_usual = info.options() & SYN_DATA == 0
        && is(libc::SOL_SOCKET, libc::SO_PROTOCOL, libc::IPPROTO_TCP)
        && is_empty(libc::IPPROTO_TCP, TCP_ULP)
        && is_empty(libc::SOL_SOCKET, libc::SO_GET_FILTER)
        && OFF.iter().all(|&(level, name)| is_off(level, name))
        && matches!(calls::number(descriptor, libc::SOL_SOCKET, libc::SO_PEEK_OFF), Ok(-1) | Err(_))
        && calls::file_flags(descriptor).is_ok_and(|flags| flags & libc::O_ASYNC == 0)
        && calls::is_own_peer(descriptor) == Ok(false);
    (!is_usual).then_some(Reason::Option)
}

/// `struct tcp_info`.
struct Info([u8; INFO_LEN]);

impl Info {
    /// Asks the kernel. Returns `None` if it lacks a count.
    fn of(descriptor: c_int) -> Option<Self> {
        let mut octets = [0; INFO_LEN];
        let len = calls::option(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, &mut octets).ok()?;
        (len == INFO_LEN).then_some(Self(octets))
    }

    const fn state(&self) -> u8 {
        self.0[0]
    }

    const fn options(&self) -> u8 {
        self.0[5]
    }

    fn bytes_acked(&self) -> u64 {
        self.long(BYTES_ACKED)
    }

    fn bytes_received(&self) -> u64 {
        self.long(BYTES_RECEIVED)
    }

    fn sent(&self) -> u64 {
        let (not_sent, sent, again) = (self.word(144), self.long(BYTES_SENT), self.long(208));
        sent.wrapping_sub(again).wrapping_add(u64::from(not_sent))
    }

    /// True if the peer's FIN is there.
    const fn is_ended(&self) -> bool {
        matches!(self.state(), TIME_WAIT | CLOSE_WAIT | LAST_ACK | CLOSING)
    }

    /// What must not change while the queues are read.
    fn counts(&self) -> (u8, u64, u64) {
        (self.state(), self.bytes_acked(), self.bytes_received())
    }

    fn long(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |octets| u64::from_ne_bytes(*octets))
    }

    fn word(&self, at: usize) -> u32 {
        self.0.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |octets| u32::from_ne_bytes(*octets))
    }
}

/// Octets of `struct tcp_info` up to and with `tcpi_bytes_retrans` of Linux 4.19.
const INFO_LEN: usize = 216;
/// Where `struct tcp_info` has the octets that the peer has acknowledged.
pub(crate) const BYTES_ACKED: usize = 120;
/// Where it has the octets that the peer's segments brought.
pub(crate) const BYTES_RECEIVED: usize = 128;
/// Where it has the octets of all segments sent.
pub(crate) const BYTES_SENT: usize = 200;
/// How often the counts may change while they are read.
const TURNS: usize = 16;
const SIOCINQ: u64 = libc::FIONREAD;
const SIOCOUTQ: u64 = libc::TIOCOUTQ;
const ESTABLISHED: u8 = 1;
const TIME_WAIT: u8 = 6;
const CLOSED: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const CLOSING: u8 = 11;
/// `TCPI_OPT_SYN_DATA`
const SYN_DATA: u8 = 32;
const TCP_ULP: c_int = 31;
const TCP_INQ: c_int = 36;
/// `SO_TIMESTAMP`, `SO_TIMESTAMPNS` and `SO_TIMESTAMPING` with 64 bits of seconds.
const NEW_STAMPS: [c_int; 3] = [63, 64, 65];
/// Options that need the kernel's own stream.
const OFF: [(c_int, c_int); 9] = [
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
    (libc::SOL_SOCKET, NEW_STAMPS[0]),
    (libc::SOL_SOCKET, NEW_STAMPS[1]),
    (libc::SOL_SOCKET, NEW_STAMPS[2]),
    (libc::IPPROTO_TCP, libc::TCP_REPAIR),
    (libc::IPPROTO_TCP, TCP_INQ),
];

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    /// A connection: the end that connected, and the other one.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let client = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        (client, listener.accept().expect("its other end").0)
    }

    /// Written and consumed, by the kernel.
    fn counts(stream: &TcpStream) -> (u64, u64) {
        let evidence = Evidence::of(stream.as_raw_fd()).expect("the kernel counts");
        (evidence.written, evidence.consumed)
    }

    /// Waits until so many octets can be read.
    fn wait_for(stream: &TcpStream, octets: u64) {
        while calls::queued(stream.as_raw_fd(), SIOCINQ).expect("a count") < octets {
            std::thread::yield_now();
        }
    }

    #[test]
    fn both_ends_are_counted_with_octets_on_their_way() {
        let (mut client, mut server) = pair();
        assert_eq!((counts(&client), counts(&server)), ((1, 0), (0, 0)), "the SYN counts as an octet");
        client.write_all(&[1; 1000]).expect("sent");
        assert_eq!(counts(&client), (1001, 0));
        wait_for(&server, 1000);
        assert_eq!(counts(&server), (0, 0), "nobody has taken them");
        server.read_exact(&mut [0; 300]).expect("read");
        assert_eq!(counts(&server), (0, 300));
        server.write_all(&[2; 7]).expect("sent");
        client.read_exact(&mut [0; 7]).expect("read");
        assert_eq!((counts(&client), counts(&server)), ((1001, 7), (7, 300)));
        assert_eq!([&client, &server].map(|end| objection(end.as_raw_fd())), [None, None]);
    }

    #[test]
    fn a_full_pipe_is_counted_to_the_octet() {
        let (mut client, mut server) = pair();
        client.set_nonblocking(true).expect("an option");
        let mut written = 0;
        while let Ok(octets) = client.write(&[3; 50_001]) {
            written += octets as u64;
        }
        assert_eq!(counts(&client), (written + 1, 0));
        let mut consumed = 0;
        while consumed < written {
            consumed += server.read(&mut [0; 70_003]).expect("read") as u64;
            assert_eq!(counts(&server), (0, consumed));
        }
        let evidence = Evidence::of(client.as_raw_fd()).expect("the kernel counts");
        assert_eq!(evidence.written, evidence.sent + 1);
    }

    #[test]
    fn an_end_of_the_stream_is_no_octet() {
        let (mut client, mut server) = pair();
        client.write_all(b"last words").expect("sent");
        client.shutdown(Shutdown::Write).expect("a FIN");
        wait_for(&server, 10);
        while !Evidence::of(server.as_raw_fd()).expect("the kernel counts").is_ended {
            std::thread::yield_now();
        }
        assert_eq!(counts(&server), (0, 0));
        let mut words = Vec::new();
        server.read_to_end(&mut words).expect("read");
        assert_eq!(counts(&server), (0, 10));
        server.write_all(b"not yet").expect("sent");
        assert_eq!(counts(&server), (7, 10), "the other direction goes on");
        client.read_exact(&mut [0; 7]).expect("read");
        assert_eq!(counts(&client).1, 7);
    }

    #[test]
    fn a_connection_that_both_ends_have_ended_is_not_counted() {
        let (mut client, mut server) = pair();
        client.write_all(b"all").expect("sent");
        client.shutdown(Shutdown::Write).expect("a FIN");
        server.write_all(b"answer").expect("sent");
        server.shutdown(Shutdown::Write).expect("a FIN");
        while Evidence::of(client.as_raw_fd()).is_some() {
            std::thread::yield_now();
        }
        let mut words = Vec::new();
        client.read_to_end(&mut words).expect("read");
        assert_eq!((words.len(), Evidence::of(client.as_raw_fd())), (6, None));
    }

    #[test]
    fn sockets_that_need_the_kernel_are_told() {
        let options = [
            (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
            (libc::IPPROTO_TCP, TCP_INQ),
        ];
        for (level, name) in options {
            let (client, _server) = pair();
            assert_eq!(objection(client.as_raw_fd()), None);
            calls::tests::set(client.as_raw_fd(), level, name, 1);
            assert_eq!(objection(client.as_raw_fd()), Some(Reason::Option), "{level} {name}");
        }
        let (client, server) = pair();
        drop(server);
        while objection(client.as_raw_fd()) != Some(Reason::Short) {
            std::thread::yield_now();
        }
        let pipe = std::io::pipe().expect("a pipe").0;
        assert_eq!(objection(pipe.as_raw_fd()), Some(Reason::Kernel));
        assert_eq!(Evidence::of(pipe.as_raw_fd()), None);
    }

    #[test]
    fn a_connection_to_itself_stays() {
        use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, connect, getsockname, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("an address");
        connect(&socket, &getsockname(&socket).expect("its address")).expect("a connection");
        assert_eq!(objection(socket.as_raw_fd()), Some(Reason::Option));
    }
}
