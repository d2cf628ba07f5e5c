//! The paths that messages can take, and the programs that can do the same work there.

use core::net::Ipv4Addr;

use weft_netif::Spec;

use super::Outcome;
use super::fabric::{Provider, fabric};
use super::kernel::{Kernel, Waiting};
use super::raw::{self, Raw};
use super::rsocket::rsocket;
use super::scene::{Scene, TAP, TAP_KERNEL, VETH, VETH_KERNEL};
use super::verbs::{Op, Site, Verbs};
use super::work::Work;
use crate::case::Side;

/// The ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The kernel's TCP at both ends, on loopback.
    Loopback,
    /// A veth between two network namespaces.
    Veth,
    /// From a TAP device to the kernel's TCP.
    FromTap,
    /// From the kernel's TCP to a TAP device.
    ToTap,
}

impl Way {
    /// Returns two devices of ours.
    pub(crate) fn ours(self, op: Op, work: Work, crc: bool) -> Outcome<Box<dyn Side>> {
        let host = |address: Ipv4Addr| Site::Host(address.into());
        let tap = || Site::Wire(Spec::Tap(TAP.into()), OURS_ON_TAP.into());
        let packet = |end: usize| Site::Wire(Spec::Packet(VETH[end].into()), OURS_ON_VETH[end].into());
        let (scene, sites) = match self {
            Self::Loopback => (Scene::loopback(), [host(Ipv4Addr::LOCALHOST), host(Ipv4Addr::LOCALHOST)]),
            Self::Veth => (Scene::veth()?, [packet(0), packet(1)]),
            Self::FromTap => (Scene::tap()?, [host(TAP_KERNEL), tap()]),
            Self::ToTap => (Scene::tap()?, [tap(), host(TAP_KERNEL)]),
        };
        Ok(Box::new(Verbs { scene, sites, op, work, crc }))
    }

    /// Returns two sockets of the kernel. A TAP device has only one.
    pub(crate) fn kernel(self, work: Work, waiting: Waiting) -> Outcome<Box<dyn Side>> {
        let (scene, address) = match self {
            Self::Loopback => (Scene::loopback(), Ipv4Addr::LOCALHOST),
            Self::Veth => (Scene::veth()?, VETH_KERNEL[0]),
            Self::FromTap | Self::ToTap => (Scene::tap()?, TAP_KERNEL),
        };
        Ok(Box::new(Kernel { scene, address: address.into(), waiting, work }))
    }

    /// Returns smoltcp alone at each end that is not the kernel's.
    pub(crate) fn raw(self, work: Work) -> Outcome<Box<dyn Side>> {
        let kernel = raw::Site::Kernel;
        let tap = raw::Site::Tap(TAP, RAW_ON_TAP);
        let packet = |end: usize| raw::Site::Packet(VETH[end], RAW_ON_VETH[end]);
        let (scene, sites) = match self {
            Self::Loopback => (Scene::loopback(), [kernel(Ipv4Addr::LOCALHOST); 2]),
            Self::Veth => (Scene::veth()?, [packet(0), packet(1)]),
            Self::FromTap => (Scene::tap()?, [kernel(TAP_KERNEL), tap]),
            Self::ToTap => (Scene::tap()?, [tap, kernel(TAP_KERNEL)]),
        };
        Ok(Box::new(Raw { scene, sites, work }))
    }

    /// Returns libfabric between two processes of this host, for any path.
    pub(crate) fn fabric(provider: Provider, size: usize) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(fabric(provider, size)?))
    }

    /// Returns rsocket between two processes of this host, for any path.
    pub(crate) fn rsocket(work: Work) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(rsocket(work.size, work.kind)?))
    }
}

/// Addresses of ours and of smoltcp's. They differ, so that the kernel never takes one for the other.
const OURS_ON_TAP: Ipv4Addr = Ipv4Addr::new(10, 92, 0, 2);
const RAW_ON_TAP: Ipv4Addr = Ipv4Addr::new(10, 92, 0, 3);
const OURS_ON_VETH: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 91, 0, 11), Ipv4Addr::new(10, 91, 0, 12)];
const RAW_ON_VETH: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 91, 0, 21), Ipv4Addr::new(10, 91, 0, 22)];
