//! What a change of epoch asks of replicas, and what they answer.

use core::net::SocketAddr;

use serde_json::{Value, json};

use super::fields::{Fields, Malformed};
use crate::epoch::Refusal;
use crate::epoch::change::Sealed;

/// A seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The epoch that is to begin.
    pub epoch: u64,
    /// The epoch from which the change starts.
    pub base: u64,
}

/// A replica as a change of epoch knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The epoch with which it is sealed.
    pub epoch: u64,
    /// The incarnation that it must have.
    pub incarnation: u64,
}

/// A copy from another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copying {
    /// The replica that copies.
    pub to: Named,
    /// Where the other one listens.
    pub from: SocketAddr,
    /// The incarnation that the other one must have.
    pub from_incarnation: u64,
}

/// Memory that another replica may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The STag of the whole memory.
    pub data: u32,
    /// The STag of the hashes of its blocks, one behind the other.
    pub hashes: u32,
    /// Octets of the memory.
    pub size: u64,
}

impl Seal {
    pub(super) fn value(self) -> Value {
        json!({"epoch": self.epoch, "base": self.base})
    }

    pub(super) fn parse(fields: &mut Fields) -> Result<Self, Malformed> {
        Ok(Self { epoch: fields.number("epoch")?, base: fields.number("base")? })
    }
}

impl Named {
    pub(super) fn value(self) -> Value {
        json!({"epoch": self.epoch, "incarnation": self.incarnation})
    }

    pub(super) fn parse(fields: &mut Fields) -> Result<Self, Malformed> {
        Ok(Self { epoch: fields.number("epoch")?, incarnation: fields.number("incarnation")? })
    }
}

impl Copying {
    pub(super) fn value(self) -> Value {
        json!({
            "epoch": self.to.epoch,
            "incarnation": self.to.incarnation,
            "from": self.from.to_string(),
            "from_incarnation": self.from_incarnation,
        })
    }

    pub(super) fn parse(fields: &mut Fields) -> Result<Self, Malformed> {
        let (from, from_incarnation) = (fields.address("from")?, fields.number("from_incarnation")?);
        Ok(Self { to: Named::parse(fields)?, from, from_incarnation })
    }
}

impl Lent {
    pub(super) fn value(self) -> Value {
        json!({"data": self.data, "hashes": self.hashes, "size": self.size})
    }

    pub(super) fn parse(fields: &mut Fields) -> Result<Self, Malformed> {
        let (data, hashes) = (fields.small("data")?, fields.small("hashes")?);
        Ok(Self { data, hashes, size: fields.number("size")? })
    }
}

pub(super) fn sealed_value(sealed: &Sealed) -> Value {
    json!({"incarnation": sealed.incarnation, "size": sealed.size, "stored": sealed.is_stored})
}

pub(super) fn parse_sealed(fields: &mut Fields) -> Result<Sealed, Malformed> {
    let (incarnation, size) = (fields.number("incarnation")?, fields.number("size")?);
    Ok(Sealed { incarnation, size, is_stored: fields.truth("stored")? })
}

pub(super) fn refusal_value(refusal: Refusal) -> Value {
    match refusal {
        Refusal::Sealed { epoch } => json!({"sealed": epoch}),
        Refusal::Served { epoch } => json!({"served": epoch}),
        Refusal::Incarnation { own } => json!({"incarnation": own}),
    }
}

pub(super) fn parse_refusal(fields: &mut Fields) -> Result<Refusal, Malformed> {
    Ok(if fields.has("sealed") {
        Refusal::Sealed { epoch: fields.number("sealed")? }
    } else if fields.has("served") {
        Refusal::Served { epoch: fields.number("served")? }
    } else {
        Refusal::Incarnation { own: fields.number("incarnation")? }
    })
}
