//! The connection manager on the kernel's TCP, over loopback.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_cm::{AddrInfo, Cm, ConnParam, Errno};
use weft_netif::{Ground, StackConfig};
use weft_rnic::{Config, Device, Progress, QpInit};

fn device(address: IpAddr) -> Device {
    let mut config = Config::new("10.0.0.1/24".parse().unwrap(), 1);
    config.stack = StackConfig::host(address);
    config.progress = Progress::Thread;
    Device::open(Ground::Host, config).unwrap()
}

/// One device on all addresses of the host listens and connects, over IPv4 and IPv6.
#[test]
fn a_connection_over_loopback() {
    let host = device(Ipv6Addr::UNSPECIFIED.into());
    let cm = Cm::new();
    cm.add(&host);
    for own in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let source = Some((own, 0).into());
        let listener = cm.create_ep(&AddrInfo { source, destination: None }).unwrap();
        listener.listen(4).unwrap();
        let address = listener.local_addr().unwrap();
        assert!(address.ip() == own && address.port() != 0);
        let again = cm.create_id(None).unwrap();
        assert_eq!(again.bind(address).unwrap_err().errno(), Errno::ADDRINUSE);
        let equip = |id: &weft_cm::Id| {
            let cq = host.create_cq(16, None).unwrap();
            id.create_qp(&host.alloc_pd(), &QpInit::new(&cq, &cq)).unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let id = listener.get_request().unwrap();
                assert_eq!(id.take_event().unwrap().private_data(), b"over the host");
                equip(&id);
                id.accept(&ConnParam::default()).unwrap();
                id.disconnect().unwrap();
            });
            let id = cm.create_ep(&AddrInfo { source: None, destination: Some(address) }).unwrap();
            assert_eq!(id.local_addr().unwrap().ip(), own, "the route is known before the connection");
            equip(&id);
            id.connect(&ConnParam { private_data: b"over the host", ..ConnParam::default() }).unwrap();
            assert_eq!(id.local_addr().unwrap().ip(), own);
            id.disconnect().unwrap();
        });
    }
}

/// A listener that is not bound listens on all addresses of IPv4, as on Linux.
#[test]
fn listening_unbound() {
    let cm = Cm::new();
    cm.add(&device(Ipv6Addr::UNSPECIFIED.into()));
    let id = cm.create_id(None).unwrap();
    id.listen(1).unwrap();
    let local = id.local_addr().unwrap();
    assert!(local.ip() == IpAddr::from(Ipv4Addr::UNSPECIFIED) && local.port() != 0);
}

/// A device on all addresses of the host serves ids that want any address of either version.
#[test]
fn any_address_of_either_version() {
    let cm = Cm::new();
    cm.add(&device(Ipv6Addr::UNSPECIFIED.into()));
    for any in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
        let id = cm.create_id(None).unwrap();
        id.bind((any, 0).into()).unwrap();
        id.listen(1).unwrap();
        let local = id.local_addr().unwrap();
        assert!(local.ip() == any && local.port() != 0);
    }
}
