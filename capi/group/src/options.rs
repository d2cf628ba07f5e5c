//! What a session is opened with, as a C program writes it.

use core::net::SocketAddr;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use weft_group::{
    Durability, Key, MAX_REPLICAS, MAX_WINDOW, Member, Membership, Options, Topology, register,
};

use crate::abi;
use crate::failure::{Failure, Outcome};

/// Where a program has the members of a group from.
pub(crate) enum Target {
    Members(Vec<Member>),
    Register(Box<dyn Membership + Send>),
}

/// Reads where the members come from.
///
/// # Errors
/// `EFAULT` if there are none, `EINVAL` for what makes no sense.
pub(crate) fn target(
    members: Option<&CStr>,
    register_name: Option<&CStr>,
    options: &Options,
) -> Outcome<Target> {
    match (members, register_name) {
        (Some(_), Some(_)) => Err(Failure::invalid("members: register_name has the members")),
        (Some(members), None) => Ok(Target::Members(self::members(members)?)),
        (None, Some(name)) => {
            let text = name.to_str().map_err(|_| Failure::invalid("register_name: this is no UTF-8"))?;
            let wrong = |error| Failure::invalid(format_args!("register_name: {error}"));
            Ok(Target::Register(register(text, options.timeout).map_err(wrong)?))
        }
        (None, None) => Err(Failure::null("members")),
    }
}

/// Reads a list of addresses.
///
/// # Errors
/// `EINVAL`, with the address that is none.
fn members(list: &CStr) -> Outcome<Vec<Member>> {
    let list = list.to_str().map_err(|_| Failure::invalid("members: this is no UTF-8"))?;
    let members = list.split(',').map(|one| {
        let address: SocketAddr = one.trim().parse().map_err(|_| {
            Failure::invalid(format_args!(
                "members: `{one}` is no address with a port, as 10.0.0.1:7471 and [fd00::1]:7471 are"
            ))
        })?;
        Ok(address.into())
    });
    let members: Vec<Member> = members.collect::<Outcome<_>>()?;
    if members.len() > MAX_REPLICAS {
        let many = members.len();
        return Err(Failure::invalid(format_args!("members: {many} of them, and at most {MAX_REPLICAS}")));
    }
    Ok(members)
}

/// Reads all other options.
///
/// # Errors
/// `EINVAL`, `ERANGE` and `ENOKEY`, with the option that is wrong.
pub(crate) fn options(given: &abi::Options, key_file: Option<&CStr>) -> Outcome<Options> {
    let topology = match given.topology {
        abi::CHAIN => Topology::Chain,
        abi::FAN => Topology::Fan,
        other => return Err(Failure::invalid(format_args!("topology: {other} is neither chain nor fan"))),
    };
    let durability = match given.durability {
        abi::FILE => Durability::File,
        abi::VOLATILE => Durability::Volatile,
        other => {
            return Err(Failure::invalid(format_args!("durability: {other} is neither file nor volatile")));
        }
    };
    let plain = Options::default();
    let window = or(given.window, plain.window);
    let window =
        window.filter(|window| window.is_power_of_two() && *window <= MAX_WINDOW).ok_or_else(|| {
            let window = given.window;
            Failure::invalid(format_args!("window: {window} is no power of two from 1 to {MAX_WINDOW}"))
        })?;
    let is_small = |piece: &u32| u64::from(*piece) * u64::from(window) <= MAX_STAGING;
    let piece = or(given.piece, plain.piece).filter(is_small).ok_or_else(|| {
        let piece = given.piece;
        Failure::invalid(format_args!("piece: {window} of {piece} octets are more than {MAX_STAGING}"))
    })?;
    let timeout = match given.timeout_ms {
        0 => plain.timeout,
        ms @ 1..=MAX_TIMEOUT_MS => Duration::from_millis(ms),
        ms => return Err(Failure::invalid(format_args!("timeout_ms: {ms} is more than {MAX_TIMEOUT_MS}"))),
    };
    let (at, len) = (given.range_at, given.range_len);
    let range = match (at, len) {
        (0, 0) => None,
        (_, 0) => return Err(Failure::invalid("range_len: a range has at least one octet")),
        _ if at % 8 != 0 => {
            return Err(Failure::invalid(format_args!("range_at: {at} is no multiple of 8")));
        }
        _ => {
            let end = at.checked_add(len).ok_or_else(|| {
                Failure::new(Errno::ERANGE, format_args!("range_len: {len} octets at {at} end beyond 2^64"))
            })?;
            Some(at..end)
        }
    };
    let key = key_file.map(|path| {
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let failed = |why| Failure::new(Errno::ENOKEY, format_args!("key_file: {}: {why}", path.display()));
        Key::read(path).map_err(failed)
    });
    let key = key.transpose()?;
    Ok(Options { topology, window, piece, timeout, range, key, durability, ..plain })
}

/// Returns the number, or another one instead of 0; `None` if it is too large for any.
fn or(number: u64, instead: u32) -> Option<u32> {
    if number == 0 { Some(instead) } else { u32::try_from(number).ok() }
}

/// Octets of the pieces of all slots: a mistaken piece shall not take all memory.
const MAX_STAGING: u64 = 1 << 32;
const MAX_TIMEOUT_MS: u64 = 3_600_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_stands_for_the_defaults() {
        let (read, plain) = (options(&abi::Options::default(), None).unwrap(), Options::default());
        assert_eq!(format!("{read:?}"), format!("{plain:?}"));
    }

    #[test]
    fn all_options_are_read() {
        let given = abi::Options {
            topology: 1,
            window: 4096,
            piece: 1 << 20,
            timeout_ms: 1,
            range_at: 8,
            range_len: 5,
            durability: 1,
            ..abi::Options::default()
        };
        let read = options(&given, None).unwrap();
        assert_eq!((read.topology, read.window, read.piece), (Topology::Fan, 4096, 1 << 20));
        assert_eq!((read.timeout, read.range), (Duration::from_millis(1), Some(8..13)));
        assert_eq!(read.durability, Durability::Volatile);
        let all = members(c"10.0.0.1:7471, [fd00::1]:1").unwrap();
        assert_eq!(all.iter().map(|one| one.address.port()).collect::<Vec<_>>(), [7471, 1]);
    }
}
