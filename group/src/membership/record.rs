//! The record of a group: its epoch, and the members of that epoch.

use std::net::{SocketAddr, ToSocketAddrs};

use serde_json::{Map, Value, json};

/// How the replicas of a group hang together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Topology {
    /// Each replica hands operations on to the next one.
    #[default]
    Chain,
    /// The client sends operations to each replica.
    Fan,
}

/// A host that may be a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// Its name, which is unique in the group.
    pub id: String,
    /// Where its server listens.
    pub addr: String,
}

/// A member of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    /// The host.
    pub host: Host,
    /// The incarnation with which it has become a member. In another one it may lack octets.
    pub incarnation: u64,
}

/// What the register of a group holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The group's name.
    pub group: String,
    /// The epoch that the next coordinator takes for its change.
    pub next_epoch: u64,
    /// The epoch of the members below; 0 before the first.
    pub epoch: u64,
    /// The members, in the order of the chain.
    pub members: Vec<Seat>,
    /// Hosts that a change of epoch may make members, in this order. A member that was lost stands here, at the end.
    pub spares: Vec<Host>,
    /// How many members the group is to have.
    pub replicas: usize,
    /// How operations reach the members.
    pub topology: Topology,
    /// Octets of the region.
    pub size: u64,
}

/// Why something is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError(pub String);

/// The longest record that is read, in octets.
pub const MAX_RECORD: usize = 65_536;

impl Host {
    /// Returns the address that its name stands for now.
    ///
    /// # Errors
    /// A line that says what is wrong.
    pub fn address(&self) -> Result<SocketAddr, String> {
        let found = self.addr.to_socket_addrs().map(|mut found| found.next());
        match found {
            Ok(Some(address)) => Ok(address),
            Ok(None) => Err(format!("{} has no address", self.addr)),
            Err(error) => Err(format!("{}: {error}", self.addr)),
        }
    }
}

impl Record {
    /// Returns the record of a group that has no epoch yet. The first change of epoch makes the first `replicas` hosts
    /// that answer its members.
    pub fn found(group: &str, hosts: Vec<Host>, replicas: usize, shape: (Topology, u64)) -> Self {
        let (topology, size) = shape;
        let group = group.to_owned();
        Self { group, next_epoch: 1, epoch: 0, members: Vec::new(), spares: hosts, replicas, topology, size }
    }

    /// Reads a record from JSON.
    ///
    /// # Errors
    /// [`RecordError`] for everything that [`Self::to_json`] does not write.
    pub fn from_json(text: &str) -> Result<Self, RecordError> {
        if text.len() > MAX_RECORD {
            return Err(wrong("the record is longer than 64 KiB"));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| wrong(&format!("no JSON: {error}")))?;
        let object = value.as_object().ok_or_else(|| wrong("the record is no JSON object"))?;
        let seats = list(object, "members")?.iter().map(seat).collect::<Result<_, _>>()?;
        let spares = list(object, "spares")?.iter().map(host).collect::<Result<_, _>>()?;
        let topology = match text_of(object, "topology")?.as_str() {
            "chain" => Topology::Chain,
            "fan" => Topology::Fan,
            other => return Err(wrong(&format!("\"topology\" is \"{other}\", not \"chain\" or \"fan\""))),
        };
        let replicas = usize::try_from(number(object, "replicas")?).unwrap_or(usize::MAX);
        let record = Self {
            group: text_of(object, "group")?,
            next_epoch: number(object, "next_epoch")?,
            epoch: number(object, "epoch")?,
            members: seats,
            spares,
            replicas,
            topology,
            size: number(object, "size")?,
        };
        record.check()?;
        Ok(record)
    }

    /// Returns the record as JSON.
    pub fn to_json(&self) -> String {
        let host = |host: &Host| json!({ "id": host.id, "addr": host.addr });
        let seat = |seat: &Seat| {
            let incarnation = format!("{:016x}", seat.incarnation);
            json!({ "id": seat.host.id, "incarnation": incarnation, "addr": seat.host.addr })
        };
        json!({
            "group": self.group,
            "next_epoch": self.next_epoch,
            "epoch": self.epoch,
            "members": self.members.iter().map(seat).collect::<Vec<_>>(),
            "spares": self.spares.iter().map(host).collect::<Vec<_>>(),
            "replicas": self.replicas,
            "topology": match self.topology { Topology::Chain => "chain", Topology::Fan => "fan" },
            "size": self.size,
        })
        .to_string()
    }

    /// Says whether the record can be true.
    ///
    /// # Errors
    /// [`RecordError`] with the first contradiction.
    pub fn check(&self) -> Result<(), RecordError> {
        if self.next_epoch <= self.epoch || self.next_epoch == u64::MAX {
            return Err(wrong(&format!("\"next_epoch\" {} does not follow {}", self.next_epoch, self.epoch)));
        }
        if self.members.is_empty() != (self.epoch == 0) {
            return Err(wrong("an epoch has members, and epoch 0 has none"));
        }
        if !(1..=crate::MAX_REPLICAS).contains(&self.replicas) || self.members.len() > self.replicas {
            return Err(wrong(&format!("{} members, \"replicas\" {}", self.members.len(), self.replicas)));
        }
        let mut ids: Vec<&str> = self.hosts().map(|host| host.id.as_str()).collect();
        ids.sort_unstable();
        ids.windows(2)
            .find(|pair| pair[0] == pair[1])
            .map_or(Ok(()), |pair| Err(wrong(&format!("\"{}\" is there twice", pair[0]))))
    }

    /// Returns all hosts: members, then spares.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.members.iter().map(|seat| &seat.host).chain(&self.spares)
    }

    /// Returns the record with the next epoch taken, as `next_epoch` is before.
    pub(crate) fn claimed(&self) -> Self {
        Self { next_epoch: self.next_epoch.saturating_add(1), ..self.clone() }
    }

    /// Returns the record with an epoch begun. Hosts that are no members of it are its spares.
    pub(crate) fn begun(&self, epoch: u64, members: Vec<Seat>) -> Self {
        let is_member = |host: &Host| members.iter().any(|seat| seat.host.id == host.id);
        let former = self.members.iter().map(|seat| &seat.host);
        let spares = self.spares.iter().chain(former).filter(|host| !is_member(host)).cloned().collect();
        Self { epoch, members, spares, ..self.clone() }
    }
}

fn wrong(text: &str) -> RecordError {
    RecordError(text.to_owned())
}

fn number(object: &Map<String, Value>, name: &str) -> Result<u64, RecordError> {
    object.get(name).and_then(Value::as_u64).ok_or_else(|| wrong(&format!("\"{name}\" is no number")))
}

fn text_of(object: &Map<String, Value>, name: &str) -> Result<String, RecordError> {
    let text = object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| wrong(&format!("\"{name}\" is no text")))
}

fn list<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a Vec<Value>, RecordError> {
    object.get(name).and_then(Value::as_array).ok_or_else(|| wrong(&format!("\"{name}\" is no list")))
}

fn host(value: &Value) -> Result<Host, RecordError> {
    let object = value.as_object().ok_or_else(|| wrong("a host is no JSON object"))?;
    Ok(Host { id: text_of(object, "id")?, addr: text_of(object, "addr")? })
}

fn seat(value: &Value) -> Result<Seat, RecordError> {
    let host = host(value)?;
    let incarnation = value.get("incarnation").and_then(Value::as_str).unwrap_or_default();
    let is_hex = incarnation.len() == 16 && incarnation.bytes().all(|octet| octet.is_ascii_hexdigit());
    let incarnation = u64::from_str_radix(incarnation, 16).ok().filter(|_| is_hex);
    let incarnation = incarnation.ok_or_else(|| wrong("\"incarnation\" is not 16 hexadecimal digits"))?;
    Ok(Seat { host, incarnation })
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RecordError {}
