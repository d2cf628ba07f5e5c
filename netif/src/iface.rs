//! smoltcp's interface with the own address and the routes.

use smoltcp::iface::{Config, Interface, Route};
use smoltcp::time::Instant;
use smoltcp::wire::EthernetAddress;

use crate::config::StackConfig;
use crate::ip::{IpSetting, to_cidr};
use crate::slot::Slot;

/// Returns an interface on `slot` with the addresses of `config`.
pub(crate) fn interface(config: &StackConfig, slot: &mut Slot, now: Instant) -> Interface {
    let mut settings = Config::new(EthernetAddress(config.mac).into());
    settings.random_seed = config.seed;
    let mut iface = Interface::new(settings, slot, now);
    set_addresses(&mut iface, &config.ip);
    iface
}

fn set_addresses(iface: &mut Interface, ip: &IpSetting) {
    // A validated setting fits into smoltcp's lists.
    iface.update_ip_addrs(|addresses| addresses.extend([to_cidr(ip.address, ip.prefix)]));
    let route = |net, prefix, via: core::net::IpAddr| Route {
        cidr: to_cidr(net, prefix),
        via_router: via.into(),
        preferred_until: None,
        expires_at: None,
    };
    let any = if ip.address.is_ipv4() {
        core::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        core::net::Ipv6Addr::UNSPECIFIED.into()
    };
    iface.routes_mut().update(|routes| {
        routes.extend(ip.gateways.iter().map(|gateway| route(any, 0, *gateway)));
        routes.extend(ip.routes.iter().map(|it| route(it.net, it.prefix, it.via)));
    });
}
