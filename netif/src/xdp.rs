//! Network interfaces by AF_XDP.

use core::fmt;
use core::net::IpAddr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::frame::Frame;
use crate::packet::{Interface, groups, join, refuse_the_kernels};
use crate::xdp::queue::Queue;

mod checksum;
mod kernel;
mod program;
mod queue;

/// A network interface by AF_XDP. A program runs in the driver, or in the kernel behind it if the driver cannot run
/// one. It gives the station's frames to sockets whose memory the kernel shares, and leaves all other frames to the
/// kernel.
///
/// The station has a MAC address of its own, or shares the interface's. In both cases the kernel sees none of its
/// frames, and resets none of its connections.
pub(crate) struct Xdp {
    queues: Vec<Queue>,
    /// The queue whose turn it is.
    next: usize,
    /// Becomes readable when a queue does.
    watch: OwnedFd,
    steering: Arc<Steering>,
}

/// The program that gives the frames of an interface to sockets. It stays at the interface until its last owner is
/// dropped.
#[derive(Debug)]
struct Steering {
    interface: Interface,
    mac: [u8; 6],
    /// This socket makes the interface take frames to further addresses. It receives none itself.
    addresses: OwnedFd,
    map: OwnedFd,
    link: OwnedFd,
    is_native: bool,
}

impl Xdp {
    /// Opens queue `queue` of the interface `name`, or all of its queues, for IP packets of `mtu` octets. Returns
    /// `count` devices, each with its share of the queues, or one if there are fewer queues. Frames come from
    /// [`Xdp::claim`] on.
    pub(crate) fn open_queues(
        name: &str,
        queue: Option<u32>,
        mtu: usize,
        count: usize,
    ) -> io::Result<Vec<Self>> {
        let refuse = |text| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if mtu > queue::MAX_MTU {
            let most = queue::MAX_MTU;
            return refuse(format!("an MTU of {mtu} is above {most}, the most that AF_XDP has room for"));
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let addresses = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|error| explain(error.into()))?;
        let interface = Interface::find(&addresses, name)?;
        interface.check(mtu)?;
        let there = kernel::count_queues(&addresses, name)?;
        let chosen = match queue {
            Some(queue) if queue >= there => {
                return refuse(format!("there is no queue {queue}: the interface has {there}, from 0 on"));
            }
            Some(queue) => queue..queue + 1,
            None => 0..there,
        };
        let mac = kernel::mac_of(&addresses, name)?;
        let steering = Arc::new(Steering::attach(interface, mac, addresses, there)?);
        let count = if chosen.len() < count { 1 } else { count };
        let mut devices: Vec<Vec<Queue>> = (0..count).map(|_| Vec::new()).collect();
        for (index, device) in chosen.zip((0..count).cycle()) {
            let queue = Queue::bind(steering.interface.index, index, mtu, !steering.is_native);
            let queue = queue.map_err(explain)?;
            kernel::put_socket(&steering.map, index, queue.raw_fd())?;
            devices[device].push(queue);
        }
        devices.into_iter().map(|queues| Self::new(queues, &steering)).collect()
    }

    fn new(queues: Vec<Queue>, steering: &Arc<Steering>) -> io::Result<Self> {
        let watch = match &queues[..] {
            [queue] => queue.fd().try_clone_to_owned()?,
            _ => {
                let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                for queue in &queues {
                    epoll::add(&all, queue.fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
                }
                all
            }
        };
        Ok(Self { queues, next: 0, watch, steering: Arc::clone(steering) })
    }

    /// Takes the frames for a station from now on, and no others.
    pub(crate) fn claim(&self, mac: [u8; 6], address: IpAddr) -> io::Result<()> {
        self.steering.claim(mac, address)
    }

    /// Sends a frame. Returns false if it is lost, because the queue is full or the interface is down. All frames go
    /// out by one queue, so that they stay in order.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        self.queues.first_mut().is_some_and(|queue| queue.send(frame))
    }

    /// Takes the next frame. The queues take turns.
    pub(crate) fn receive(&mut self, frame: &mut Frame) -> bool {
        for _ in 0..self.queues.len() {
            self.next = (self.next + 1) % self.queues.len();
            if self.queues[self.next].receive(frame) {
                checksum::complete(frame);
                return true;
            }
        }
        false
    }

    pub(crate) fn poll_fd(&self) -> BorrowedFd<'_> {
        // A socket of an interface that is gone stays readable until the error is taken, and no sleeper could sleep.
        for queue in &self.queues {
            let _gone = socket_error(queue.fd());
        }
        self.watch.as_fd()
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.queues.iter().any(Queue::is_readable)
    }

    /// Returns how many frames for the station found no room here.
    pub(crate) fn lost(&self) -> u64 {
        self.queues.iter().map(Queue::lost).sum()
    }
}

impl fmt::Debug for Xdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queues, watch, steering, .. } = self;
        let mut text = f.debug_struct("Xdp");
        text.field("queues", &queues.len())
            .field("watch", watch)
            .field("steering", steering)
            .finish_non_exhaustive()
    }
}

impl Steering {
    /// Runs a program at the interface that leaves all frames to the kernel.
    fn attach(interface: Interface, mac: [u8; 6], addresses: OwnedFd, queues: u32) -> io::Result<Self> {
        let map = kernel::create_socket_map(queues).map_err(explain)?;
        let program = kernel::load(&program::nobody()).map_err(explain)?;
        // A driver that has XDP may refuse it with this MTU or these offloads. Then the kernel runs the program.
        let attached = match kernel::attach(&program, interface.index, kernel::NATIVE) {
            Err(error) if is_final(&error) => Err(error),
            Err(_) => kernel::attach(&program, interface.index, kernel::GENERIC).map(|link| (link, false)),
            Ok(link) => Ok((link, true)),
        };
        let (link, is_native) = attached.map_err(explain)?;
        Ok(Self { interface, mac, addresses, map, link, is_native })
    }

    fn claim(&self, mac: [u8; 6], address: IpAddr) -> io::Result<()> {
        let index = self.interface.index;
        refuse_the_kernels(address, index)?;
        let is_interfaces_mac = mac == self.mac;
        if !is_interfaces_mac {
            join(&self.addresses, index, mac, libc::PACKET_MR_UNICAST)?;
        }
        for group in groups(address) {
            join(&self.addresses, index, group, libc::PACKET_MR_MULTICAST)?;
        }
        let program = program::station(mac, address, is_interfaces_mac, self.map.as_raw_fd());
        kernel::replace(&self.link, &kernel::load(&program)?)
    }
}

/// Returns true if the error would also come in the other mode.
fn is_final(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EPERM | libc::EACCES))
}

fn explain(error: io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and those of no namespace of one's own: be root"
        }
        Some(libc::EAFNOSUPPORT | libc::ENOSYS) => {
            "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS, CONFIG_BPF_SYSCALL)"
        }
        Some(libc::EBUSY) => "another program has XDP on this interface or a socket on this queue",
        Some(libc::ENOBUFS) => "the limit of locked memory is too low for AF_XDP: `ulimit -l unlimited`",
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, Wire};

    #[test]
    fn frequent_errors_say_what_to_do() {
        let table = [
            (libc::EPERM, "CAP_BPF"),
            (libc::EAFNOSUPPORT, "CONFIG_XDP_SOCKETS"),
            (libc::EBUSY, "another program"),
            (libc::ENOBUFS, "ulimit -l"),
        ];
        for (number, word) in table {
            let error = explain(io::Error::from_raw_os_error(number)).to_string();
            assert!(error.contains(word) && !error.contains('\n'), "{error}");
        }
        let other = io::Error::from_raw_os_error(libc::EINVAL);
        assert_eq!(explain(other).raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn an_mtu_above_the_frame_size_is_one_clear_line() {
        let spec = Spec::Xdp { interface: "weft-nowhere".into(), queue: None };
        let error = Wire::open(&spec, 9000).unwrap_err();
        let text = "xdp:weft-nowhere: an MTU of 9000 is above 3818, the most that AF_XDP has room for";
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidInput, text));
        let error = Wire::open(&spec, 1500).unwrap_err().to_string();
        let lines = [
            "xdp:weft-nowhere: there is no such interface in this network namespace",
            "xdp:weft-nowhere: needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and those of no namespace of one's own: be root",
        ];
        assert!(lines.contains(&error.as_str()), "{error}");
    }
}
