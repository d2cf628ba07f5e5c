//! Registers by name, as people and programs name them.

use std::time::Duration;

use super::etcd::Etcd;
use super::file::FileRegister;
use super::{Membership, MembershipError};

/// Opens the register of this name: a file, or `etcd://HOST:PORT[,HOST:PORT…]/KEY`. `timeout` is for each request to etcd.
///
/// # Errors
/// [`MembershipError`] if it is the name of none.
pub fn register(name: &str, timeout: Duration) -> Result<Box<dyn Membership + Send>, MembershipError> {
    match name.split_once("://") {
        _ if name.is_empty() => Err(MembershipError("a register has a name".into())),
        None => Ok(Box::new(FileRegister::new(name))),
        Some(("etcd", _)) => Ok(Box::new(Etcd::parse(name, timeout)?)),
        Some(_) => Err(MembershipError(format!(
            "{name} is no register: a file is one, and etcd://HOST:PORT[,HOST:PORT]/KEY"
        ))),
    }
}
