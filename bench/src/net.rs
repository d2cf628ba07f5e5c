//! Cases over the host's network: two threads, each on a core of its own, with a device or a socket each.
//!
//! ```text
//!   scene.rs     the network: loopback, a TAP device, a veth between two network namespaces of the benchmark's own
//!   namespace.rs  a network namespace that stands for a host
//!   place.rs     two threads that work in rounds
//!   work.rs      the messages of a round
//!   verbs.rs     ours      exs.rs      ours, by sockets of EXS; threads.rs: what their threads use
//!   kernel.rs   plain sockets      raw.rs, device.rs   smoltcp alone, with offloads
//!   programs.rs  two processes of a program of others: fabric.rs libfabric's fi_pingpong, rsocket.rs rstream
//!   way.rs       the programs that can work in each scene
//! ```

mod device;
mod exs;
mod fabric;
mod kernel;
pub(crate) mod namespace;
mod place;
mod programs;
mod raw;
mod rsocket;
pub(crate) mod scene;
mod threads;
mod verbs;
mod way;
mod work;

use core::fmt::Display;

pub(crate) use exs::{Carries, Exs, Gauge, Plan};
pub(crate) use fabric::Provider;
pub(crate) use kernel::{Waiting, set_congestion};
pub(crate) use place::now;
pub use scene::isolate;
#[cfg(test)]
pub(crate) use scene::{ISOLATED, is_isolated, way_in};
pub(crate) use verbs::Op;
pub(crate) use way::Way;
pub(crate) use work::{Kind, Source, Work};

use crate::case::Trouble;

/// A result, or the reason why there is none.
type Outcome<T = ()> = Result<T, Trouble>;

/// Returns a function that makes a failure of `what` out of an error.
fn say<E: Display>(what: &str) -> impl Fn(E) -> Trouble {
    move |error| Trouble::failed(format!("{what}: {error}"))
}
