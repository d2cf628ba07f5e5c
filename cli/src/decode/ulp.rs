//! The protocol above RDMAP, which the first octets of the private data name.

use serde_json::{Map, Value, json};
use weft_exs_core::Hello as ExsHello;
use weft_group::{Greeting, MAGIC};
use weft_sockets::Hello;

/// Who talks on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ulp {
    /// Some program.
    Other,
    /// Two daemons of `weft sockets`: a lane.
    Lane,
    /// A client and a replica of `weft group`, or two replicas. `None` for a greeting of a later version.
    Group(Option<Greeting>),
    /// Two sockets of EXS.
    Exs,
}

/// A message with its fields by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The key of its JSON form: `lane`, `group` or `exs`.
    pub by: &'static str,
    /// Its form: of a lane `hello`, `letter` or `notice`; of a group `connection`, `request`, `answer`, `operation` or
    /// `acknowledgement`; of EXS `hello`, `reject` or `message`.
    pub form: &'static str,
    /// What kind of message it is. Empty if there is one kind.
    pub name: &'static str,
    /// The fields: numbers and texts.
    pub fields: Vec<(&'static str, Value)>,
}

impl Ulp {
    /// Returns who has written the private data of a startup frame.
    pub fn of(private_data: &[u8]) -> Self {
        if private_data.starts_with(&Hello::MAGIC) {
            Self::Lane
        } else if private_data.starts_with(&MAGIC) {
            Self::Group(Greeting::parse(private_data))
        } else if private_data.starts_with(&ExsHello::MAGIC) {
            Self::Exs
        } else {
            Self::Other
        }
    }
}

impl Said {
    /// Returns the message as text.
    pub fn text(&self) -> String {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let fields: Vec<_> =
            self.fields.iter().map(|(name, value)| format!("{name} {}", text(value))).collect();
        let title = format!("{} {}", self.form, self.name);
        let colon = if fields.is_empty() { "" } else { ": " };
        format!("{}{colon}{}", title.trim_end(), fields.join(", "))
    }

    /// Returns the message as an object.
    pub fn json(&self) -> Value {
        let mut object: Map<String, Value> =
            self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        object.insert("form".to_owned(), json!(self.form));
        object.insert("name".to_owned(), json!(self.name));
        Value::Object(object)
    }
}
