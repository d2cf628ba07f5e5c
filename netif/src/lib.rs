//! Wires, which carry Ethernet frames, and TCP connections on them or on the kernel's sockets.
//!
//! ```text
//!      Llp   Llp   Llp            a connection each, byte streams: readable, transmit, emss, state
//!        \    |    /
//!       [ Transport ]             either of the two
//!         /       \
//!    [ Stack ]  [ HostStack ]     smoltcp, one socket set a connection, found by 4-tuple; the kernel's sockets
//!         |
//!     [ Wire ]                    capture outermost, then impairment
//!         |
//!     [ Link ]                    the device: memory, a Unix socket, a TAP device, a network interface
//! ```
//!
//! A [`Wire`] carries frames and nothing else. A [`Stack`] puts TCP/IP on it. This crate reads neither a clock nor a
//! source of randomness: time is an argument, and a seed is part of the configuration. So a run on [`pair`] can be
//! repeated frame by frame. No call blocks. [`Stack::poll_at`] and [`Stack::poll_fd`] tell how long to sleep.
//!
//! ```
//! use weft_netif::{Instant, LlpState, Stack, StackConfig, pair};
//!
//! let now = Instant::ZERO;
//! let (left, right) = pair(1500);
//! let mut client = Stack::new(left, StackConfig::new("10.0.0.1/24".parse()?), now);
//! let mut server = Stack::new(right, StackConfig::new("10.0.0.2/24".parse()?), now);
//! let listener = server.listen(4791)?;
//! let id = client.connect("10.0.0.2:4791".parse()?, None, now)?;
//! for _ in 0..8 {
//!     for stack in [&mut client, &mut server] {
//!         stack.egress(now);
//!         stack.ingress(now);
//!     }
//! }
//! let (accepted, by) = server.next_accepted().expect("three segments were enough");
//! assert_eq!((by, server.peer_addr(accepted)), (listener, client.local_addr(id)));
//! assert_eq!(client.llp(id).unwrap().state(), LlpState::Established);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! RFC 9293 (TCP), 5681 and 9438 (congestion control), 826 (ARP), 4861 (NDP), 791, 8200 (IP), 6691 (MSS).

mod capture;
mod checksum;
mod config;
mod counters;
mod demux;
mod error;
mod ethernet;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod held;
mod host;
mod hub;
mod iface;
mod ifreq;
mod impair;
mod ip;
mod link;
mod listen;
mod llp;
mod packet;
mod pair;
mod ports;
mod random;
mod slot;
mod spec;
mod stack;
mod steering;
mod table;
mod tap;
mod tcp;
mod transport;
mod unix;
mod virtio;
mod wheel;
mod wire;
mod xdp;

pub use smoltcp::time::{Duration, Instant};

pub use capture::Capture;
pub use config::{Congestion, StackConfig, Tcp};
pub use counters::{Counters, HostCounters, TcpCounters, WireCounters};
pub use error::{ConfigError, ConnectError, ListenError};
pub use held::{Held, take_marked};
pub use host::{HostLlp, HostMoving, HostStack};
pub use impair::{Bursts, Impairment, ImpairmentConfig};
pub use ip::{IpSetting, IpSettingError, Route};
pub use listen::Listen;
pub use llp::{CloseCause, Llp, LlpState, SocketLlp, SocketStream};
pub use spec::{Spec, SpecError};
pub use stack::{Moving, Stack, TcpLlp};
pub use steering::queue_of;
pub use table::ConnectionId;
pub use tcp::OwnLlp;
pub use transport::{Ground, Moved, Transport};
pub use wire::{Wire, pair};
