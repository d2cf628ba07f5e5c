//! Names of devices on the command line.

use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;

/// The device of a transport, as the command line names it.
///
/// ```
/// use weft_netif::Spec;
/// assert_eq!("tap:tap0".parse(), Ok(Spec::Tap("tap0".into())));
/// assert!("token-ring:1".parse::<Spec>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spec {
    /// `pair`: two stacks in one process, frames through memory; see [`pair`](crate::pair).
    Pair,
    /// `unix:PATH`: connects to a Unix stream socket.
    Unix(PathBuf),
    /// `unix-listen:PATH`: listens on a Unix stream socket, one peer at a time.
    UnixListen(PathBuf),
    /// `tap:NAME`: a TAP device of Linux.
    Tap(String),
    /// `tap:NAME,plain`: a TAP device without offloads.
    PlainTap(String),
    /// `packet:IFNAME`: a network interface, by AF_PACKET.
    Packet(String),
    /// `packet:IFNAME,plain`: a network interface by AF_PACKET, without offloads.
    PlainPacket(String),
    /// `xdp:IFNAME` or `xdp:IFNAME@QUEUE`: a network interface, by AF_XDP.
    Xdp {
        /// The interface's name. A name that ends like `@1` needs the queue behind it.
        interface: String,
        /// The only queue to take frames from; `None` for all queues.
        queue: Option<u32>,
    },
    /// `host`: the TCP of the kernel instead of a wire; see [`Ground::Host`](crate::Ground::Host).
    Host,
}

/// An invalid name of a device. Its text has the given name, the fault, and the valid names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    given: String,
    reason: &'static str,
}

impl Spec {
    /// The forms of the devices that carry frames to other processes, each with a description.
    pub const WIRES: &'static [(&'static str, &'static str)] = &[
        ("unix:PATH", "Ethernet frames over a Unix socket (also a QEMU -netdev stream), connects"),
        ("unix-listen:PATH", "the same, waits for the other side"),
        ("tap:NAME", "a TAP device; needs CAP_NET_ADMIN, or a new namespace: unshare -Urn"),
        ("packet:IFNAME", "a network interface, with a MAC address of our own; needs CAP_NET_RAW"),
        (
            "xdp:IFNAME[@QUEUE]",
            "the same by AF_XDP, from all of its queues or one, for MTUs up to 3818; needs root.\n\
             On a real network card, for short round trips; on a veth take packet",
        ),
    ];

    /// Returns the names of these forms in a row, with `conjunction` in front of the last one.
    #[must_use]
    pub fn wires(conjunction: &str) -> String {
        let names: Vec<&str> = Self::WIRES.iter().map(|&(name, _)| name).collect();
        match names.split_last() {
            Some((last, others)) => format!("{} {conjunction} {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (kind, place) = text.split_once(':').unwrap_or((text, ""));
        let spec = match kind {
            _ if text == "pair" => Ok(Self::Pair),
            _ if text == "host" => Ok(Self::Host),
            "pair" => Err("a pair has no argument"),
            "host" => Err("host has no argument"),
            "unix" => socket_path(place).map(Self::Unix),
            "unix-listen" => socket_path(place).map(Self::UnixListen),
            "tap" if place.is_empty() => Err("the name of the TAP device is missing"),
            "tap" => match place.strip_suffix(PLAIN) {
                Some(name) => interface_name(name).map(Self::PlainTap),
                None => interface_name(place).map(Self::Tap),
            },
            "packet" | "xdp" if place.is_empty() => Err("the name of the interface is missing"),
            "packet" => match place.strip_suffix(PLAIN) {
                Some(name) => interface_name(name).map(Self::PlainPacket),
                None => interface_name(place).map(Self::Packet),
            },
            "xdp" => queue_of_interface(place).map(|(interface, queue)| Self::Xdp { interface, queue }),
            _ => Err("no such device"),
        };
        spec.map_err(|reason| SpecError { given: text.into(), reason })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair => f.write_str("pair"),
            Self::Host => f.write_str("host"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::UnixListen(path) => write!(f, "unix-listen:{}", path.display()),
            Self::Tap(name) => write!(f, "tap:{name}"),
            Self::PlainTap(name) => write!(f, "tap:{name}{PLAIN}"),
            Self::Packet(name) => write!(f, "packet:{name}"),
            Self::PlainPacket(name) => write!(f, "packet:{name}{PLAIN}"),
            Self::Xdp { interface, queue: None } => write!(f, "xdp:{interface}"),
            Self::Xdp { interface, queue: Some(queue) } => write!(f, "xdp:{interface}@{queue}"),
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, reason } = self;
        write!(f, "device `{given}`: {reason} (there are host, pair, {})", Spec::wires("and"))
    }
}

impl core::error::Error for SpecError {}

fn socket_path(path: &str) -> Result<PathBuf, &'static str> {
    match path {
        "" => Err("the path of the socket is missing"),
        _ if path.contains('\0') => Err("the path has a zero octet in it"),
        _ if path.len() > MAX_SOCKET_PATH => {
            Err("the path is longer than the 107 octets a Unix socket may have")
        }
        _ => Ok(path.into()),
    }
}

/// Splits `IFNAME@QUEUE`. If no number is behind the last `@`, all of it is the name.
fn queue_of_interface(place: &str) -> Result<(String, Option<u32>), &'static str> {
    match place.rsplit_once('@') {
        Some((name, digits)) if !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit()) => {
            let queue = digits.parse().map_err(|_| "there is no queue of that number")?;
            Ok((interface_name(name)?, Some(queue)))
        }
        _ => Ok((interface_name(place)?, None)),
    }
}

fn interface_name(name: &str) -> Result<String, &'static str> {
    match name {
        "" | "." | ".." => Err("that is no name of an interface"),
        _ if name.len() > MAX_INTERFACE_NAME => Err("an interface name has at most 15 octets"),
        _ if name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control()) => {
            Err("an interface name has no slash, colon or space")
        }
        _ => Ok(name.into()),
    }
}

/// The end of the name of a device without offloads.
const PLAIN: &str = ",plain";

/// `sun_path` has 108 octets, the last of them zero.
const MAX_SOCKET_PATH: usize = 107;

/// IFNAMSIZ is 16, the last of them zero.
const MAX_INTERFACE_NAME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_specs_are_read_and_written_back() {
        let table = [
            ("pair", Spec::Pair),
            ("host", Spec::Host),
            ("unix:/tmp/w.sock", Spec::Unix("/tmp/w.sock".into())),
            ("unix:a:b", Spec::Unix("a:b".into())),
            ("unix-listen:./x", Spec::UnixListen("./x".into())),
            ("tap:tap0", Spec::Tap("tap0".into())),
            ("tap:abcdefghijklmno", Spec::Tap("abcdefghijklmno".into())),
            ("tap:tap0,plain", Spec::PlainTap("tap0".into())),
            ("packet:eth0,plain", Spec::PlainPacket("eth0".into())),
            ("packet:eth0", Spec::Packet("eth0".into())),
            ("packet:eth0.5@x", Spec::Packet("eth0.5@x".into())),
            ("xdp:eth0", Spec::Xdp { interface: "eth0".into(), queue: None }),
            ("xdp:eth0@3", Spec::Xdp { interface: "eth0".into(), queue: Some(3) }),
            ("xdp:eth0@x", Spec::Xdp { interface: "eth0@x".into(), queue: None }),
            ("xdp:eth0@1@0", Spec::Xdp { interface: "eth0@1".into(), queue: Some(0) }),
            ("xdp:eth0@", Spec::Xdp { interface: "eth0@".into(), queue: None }),
        ];
        for (text, spec) in table {
            assert_eq!(text.parse::<Spec>().as_ref(), Ok(&spec), "{text}");
            assert_eq!(spec.to_string(), text);
            let form = text.split_once(':').map(|(kind, _)| kind);
            let is_told = |kind| Spec::WIRES.iter().any(|(name, _)| name.split(':').next() == Some(kind));
            assert!(form.is_none_or(is_told), "{text} is in no list of devices");
        }
        for (form, _) in Spec::WIRES {
            assert_eq!(form.parse::<Spec>().map(|spec| spec.to_string()).as_deref(), Ok(*form));
        }
    }

    #[test]
    fn bad_specs_get_one_line_that_names_the_reason_and_the_choice() {
        let longest = format!("unix:/{}", "p".repeat(106));
        assert!(longest.parse::<Spec>().is_ok());
        let long = format!("{longest}p");
        let table = [
            ("", "no such device"),
            ("Pair", "no such device"),
            ("pair:", "no argument"),
            ("host:", "no argument"),
            ("host:127.0.0.1", "no argument"),
            ("hosts", "no such device"),
            ("pair:1", "no argument"),
            ("unix", "missing"),
            ("unix:", "missing"),
            ("unix:a\0b", "zero octet"),
            (long.as_str(), "107"),
            ("unix-listen", "missing"),
            ("unix-listen:", "missing"),
            ("tap", "missing"),
            ("tap:", "missing"),
            ("tap:a/b", "slash"),
            ("tap:a b", "space"),
            ("tap:..", "no name"),
            ("tap:abcdefghijklmnop", "15"),
            ("tap:,plain", "no name"),
            ("packet:,plain", "no name"),
            ("tap:a:b,plain", "colon"),
            ("packet", "missing"),
            ("packet:", "missing"),
            ("packet:a:b", "colon"),
            ("packet:abcdefghijklmnop", "15"),
            ("eth0", "no such device"),
            ("xdp", "missing"),
            ("xdp:", "missing"),
            ("xdp:@1", "no name"),
            ("xdp:eth0@4294967296", "no queue"),
            ("xdp:abcdefghijklmnop@1", "15"),
            ("xdp:a b", "space"),
            ("dpdk:eth0", "no such device"),
            (":x", "no such device"),
        ];
        for (text, reason) in table {
            let error = text.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
            let (_, choice) = error.split_once(" (there are ").unwrap();
            let (others, last) = choice.strip_suffix(')').unwrap().rsplit_once(" and ").unwrap();
            let wires = Spec::WIRES.iter().map(|&(name, _)| name);
            assert!(
                others.split(", ").chain([last]).eq(["host", "pair"].into_iter().chain(wires)),
                "{error}"
            );
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn every_wire_has_a_row_in_the_documentation() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/commands.md");
        let text = std::fs::read_to_string(path).unwrap();
        let rows: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
        for (name, _) in Spec::WIRES {
            let name = format!("`{name}`");
            assert!(
                rows.iter().any(|row| row.split(", ").any(|form| form == name)),
                "docs/commands.md lacks {name}"
            );
        }
    }
}
