//! The members of a JSON object. Each is taken once, and none may be left at the end.

use core::net::SocketAddr;
use core::ops::Range;

use serde_json::{Map, Value};

/// The longest message, in octets.
pub const MAX_CONTROL: usize = 4096;

/// What is wrong with a message, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

/// An object that is being read.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Malformed {
    pub(super) fn new(reason: impl core::fmt::Display) -> Self {
        Self(line(&reason.to_string()))
    }
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Malformed {}

impl Fields {
    /// Reads a message: the name of its only member, and the object that this member is.
    pub(super) fn read(octets: &[u8]) -> Result<(String, Self), Malformed> {
        if octets.len() > MAX_CONTROL {
            return Err(Malformed::new(format_args!(
                "a message has at most {MAX_CONTROL} octets, and this one has {}",
                octets.len()
            )));
        }
        let value: Value = serde_json::from_slice(octets).map_err(Malformed::new)?;
        let Value::Object(object) = value else { return Err(Malformed::new("a message is an object")) };
        let mut members = object.into_iter();
        match (members.next(), members.next()) {
            (Some((name, Value::Object(fields))), None) => Ok((name, Self(fields))),
            _ => Err(Malformed::new("a message has one member, which is an object")),
        }
    }

    /// Checks that nothing is left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        match self.0.keys().next() {
            Some(name) => Err(Malformed::new(format_args!("there is no member `{name}`"))),
            None => Ok(()),
        }
    }

    /// Returns whether there is a member of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn number(&mut self, name: &str) -> Result<u64, Malformed> {
        self.take(name, "a whole number", |value| value.as_u64())
    }

    pub(super) fn number_or_none(&mut self, name: &str) -> Result<Option<u64>, Malformed> {
        if self.take_null(name) { Ok(None) } else { self.number(name).map(Some) }
    }

    pub(super) fn small(&mut self, name: &str) -> Result<u32, Malformed> {
        let is_small = |value: Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
        self.take(name, "a whole number below 2^32", is_small)
    }

    pub(super) fn at_most(&mut self, name: &str, most: usize) -> Result<usize, Malformed> {
        let is_in = |value: Value| {
            value.as_u64().and_then(|value| usize::try_from(value).ok()).filter(|value| *value <= most)
        };
        self.take(name, format_args!("a whole number up to {most}"), is_in)
    }

    pub(super) fn truth(&mut self, name: &str) -> Result<bool, Malformed> {
        self.take(name, "true or false", |value| value.as_bool())
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String, Malformed> {
        let is_text = |value| if let Value::String(text) = value { Some(text) } else { None };
        self.take(name, "text", is_text)
    }

    pub(super) fn address(&mut self, name: &str) -> Result<SocketAddr, Malformed> {
        let is_address = |value: Value| value.as_str().and_then(|text| text.parse().ok());
        self.take(name, "an address with a port, as 10.0.0.1:7471", is_address)
    }

    pub(super) fn octets<const N: usize>(&mut self, name: &str) -> Result<[u8; N], Malformed> {
        let is_octets = |value: Value| value.as_str().and_then(from_hexadecimal);
        self.take(name, format_args!("{} hexadecimal digits", 2 * N), is_octets)
    }

    pub(super) fn octets_or_none<const N: usize>(
        &mut self,
        name: &str,
    ) -> Result<Option<[u8; N]>, Malformed> {
        if self.take_null(name) { Ok(None) } else { self.octets(name).map(Some) }
    }

    /// Takes a range of octets that is not empty.
    pub(super) fn range(&mut self, name: &str) -> Result<Range<u64>, Malformed> {
        let is_range = |value: Value| match value.as_array()?.as_slice() {
            [start, end] => Some(start.as_u64()?..end.as_u64()?).filter(|range| !range.is_empty()),
            _ => None,
        };
        self.take(name, "two whole numbers, the second one larger", is_range)
    }

    pub(super) fn pair_or_none(&mut self, name: &str) -> Result<Option<[u64; 2]>, Malformed> {
        if self.take_null(name) {
            return Ok(None);
        }
        let is_pair = |value: Value| match value.as_array()?.as_slice() {
            [first, second] => Some([first.as_u64()?, second.as_u64()?]),
            _ => None,
        };
        self.take(name, "two whole numbers", is_pair).map(Some)
    }

    /// Takes a list of at most so many objects.
    pub(super) fn objects(&mut self, name: &str, most: usize) -> Result<Vec<Self>, Malformed> {
        let is_list = |value| {
            let Value::Array(list) = value else { return None };
            let one = |value| if let Value::Object(fields) = value { Some(Self(fields)) } else { None };
            if list.len() > most { None } else { list.into_iter().map(one).collect() }
        };
        self.take(name, format_args!("a list of at most {most} objects"), is_list)
    }

    /// Takes a member that is there and is null. One that is not there is refused when it is taken.
    fn take_null(&mut self, name: &str) -> bool {
        let is_null = self.0.get(name).is_some_and(Value::is_null);
        is_null && self.0.remove(name).is_some()
    }

    fn take<T>(
        &mut self,
        name: &str,
        what: impl core::fmt::Display,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Result<T, Malformed> {
        let value = self.0.remove(name);
        let value = value.ok_or_else(|| Malformed::new(format_args!("`{name}` is missing")))?;
        read(value).ok_or_else(|| Malformed::new(format_args!("`{name}` is not {what}")))
    }
}

/// Returns octets as hexadecimal digits.
pub(super) fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn from_hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut octets = [0; N];
    for (index, octet) in octets.iter_mut().enumerate() {
        *octet = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(octets)
}

/// Returns a text that fits on one line of a terminal, whoever wrote it.
pub(super) fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LINE).collect()
}

/// Characters of a line. JSON takes up to 6 octets for each, and the peer's line may stand in one of ours.
const LINE: usize = 300;
