//! The parts of a process's answers, by name.

use serde_json::{Value, json};

/// The version of the answers. Each answer has it as `weft_stat`. It grows when a present field changes its meaning.
pub const STAT_VERSION: u32 = 1;

/// The process at the other end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The asking process belongs to the same user. Otherwise it belongs to root.
    pub is_same_user: bool,
}

/// A request, and the function that answers it by a JSON object.
pub struct Section {
    name: &'static str,
    tell: Box<dyn Fn(Asker) -> Value + Send>,
}

impl Section {
    /// A section for the request `name`. The server's thread calls `tell`, which must not wait.
    pub fn new(name: &'static str, tell: impl Fn(Asker) -> Value + Send + 'static) -> Self {
        Self { name, tell: Box::new(tell) }
    }
}

impl core::fmt::Debug for Section {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Section").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the answer to one request. `index` is the number of the server within the process.
pub(crate) fn answer(sections: &[Section], request: &str, index: u32, asker: Asker) -> Value {
    let found = match sections.iter().find(|section| section.name == request) {
        Some(section) => (section.tell)(asker),
        None => error(&unknown(request, sections)),
    };
    let mut answer = json!({ "weft_stat": STAT_VERSION, "pid": std::process::id(), "device": index });
    if let (Value::Object(answer), Value::Object(mut found)) = (&mut answer, found) {
        answer.append(&mut found);
    }
    answer
}

pub(crate) fn error(text: &str) -> Value {
    json!({ "error": text })
}

fn unknown(request: &str, sections: &[Section]) -> String {
    let names: Vec<_> = sections.iter().map(|section| section.name).collect();
    match names.split_last() {
        Some((last, [])) => format!("there is no `{request}`, but {last}"),
        Some((last, others)) => format!("there is no `{request}`, but {} and {last}", others.join(", ")),
        None => format!("there is no `{request}`: this process has no sections"),
    }
}
