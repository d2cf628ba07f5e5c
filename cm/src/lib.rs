//! The connection manager: librdmacm's semantics in Rust, over any number of [`weft_rnic::Device`]s.
//!
//! ```text
//!   Cm ── devices                knows which device has an address, and which one leads to an address
//!    ├── EventChannel            a file descriptor, and the events of its ids in order
//!    └── Id                      like a socket: bind, listen, resolve, connect, accept, reject, disconnect
//!          ├── Device            from bind or address resolution on
//!          └── Qp                made by the id, or attached
//! ```
//! An [`Id`] with a channel does not wait: an [`Event`] tells the result of a call. An id without one is
//! synchronous, as in librdmacm: each call waits for its event, which [`Id::take_event`] gives out.
//!
//! One table says which call each state allows: [`State::after`]. A call in the wrong state is refused (`EINVAL`), and
//! changes nothing. [`Error::errno`] gives the number that librdmacm would set, [`Event::status`] the one that it would
//! report.
//!
//! **Events are taken in order.** An id goes from state to state when its event is taken from the channel, as in
//! librdmacm, so that a program sees an id as its events have told. Dropping an [`Event`] acknowledges it.
//! [`Id::destroy`] and [`Id::migrate`] wait until the events that were taken are acknowledged; [`Id::try_destroy`] and
//! [`Id::try_migrate`] refuse with `EBUSY`. Just dropping an [`Id`] destroys it without waiting, which is sound since
//! an event holds what it shows.
//!
//! **What is different from librdmacm**, and why. Only the port space TCP exists: there are no datagrams and no
//! multicast. Addresses are resolved at once: TCP's handshake asks for the peer's hardware address, within the time
//! limits of the device. [`EventKind::ConnectResponse`] and [`EventKind::TimewaitExit`] never come on iWARP: the queue
//! pair is ready when the Reply is there, and TCP keeps its own TIME-WAIT.
//!
//! ```
//! use std::time::Duration;
//! use weft_cm::{Cm, ConnParam};
//! use weft_rnic::{Config, Device, Progress, QpInit};
//!
//! let (left, right) = weft_netif::pair(1500);
//! let open = |wire, ip: &str, seed| -> Result<Device, Box<dyn std::error::Error>> {
//!     let config = Config { progress: Progress::Thread, ..Config::new(ip.parse()?, seed) };
//!     Ok(Device::open(wire, config)?)
//! };
//! let cm = Cm::new();
//! let (client, server) = (open(left, "10.0.0.1/24", 1)?, open(right, "10.0.0.2/24", 2)?);
//! cm.add(&client);
//! cm.add(&server);
//!
//! let listener = cm.create_id(None)?;
//! listener.bind("10.0.0.2:0".parse()?)?;
//! listener.listen(8)?;
//! let address = listener.local_addr().ok_or("bound")?;
//! let served = std::thread::spawn(move || -> Result<(), weft_cm::Error> {
//!     let id = listener.get_request()?;
//!     let cq = server.create_cq(16, None).map_err(weft_cm::Error::from)?;
//!     id.create_qp(&server.alloc_pd(), &QpInit::new(&cq, &cq))?;
//!     id.accept(&ConnParam::default())?;
//!     id.disconnect()
//! });
//! let id = cm.create_id(None)?;
//! id.resolve_addr(Some("10.0.0.1:0".parse()?), address, Duration::from_secs(2))?;
//! id.resolve_route(Duration::from_secs(2))?;
//! let cq = client.create_cq(16, None)?;
//! id.create_qp(&client.alloc_pd(), &QpInit::new(&cq, &cq))?;
//! id.connect(&ConnParam { private_data: b"hello", ..ConnParam::default() })?;
//! id.disconnect()?;
//! served.join().expect("the server does not panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod addrinfo;
mod bind;
mod channel;
mod connect;
mod core;
mod deliver;
mod error;
mod event;
mod id;
mod kind;
mod life;
mod manager;
mod param;
mod state;

pub use self::core::{Event, Id};
pub use addrinfo::{AddrInfo, resolve};
pub use channel::EventChannel;
pub use error::Error;
pub use kind::EventKind;
pub use manager::{Cm, Counters};
pub use param::{ConnParam, EventParam};
pub use state::{Op, State};

pub use rustix::io::Errno;
