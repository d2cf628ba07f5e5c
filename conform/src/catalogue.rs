//! The requirements of the RFCs, by number.

use std::collections::HashMap;
use std::sync::OnceLock;

/// One normative sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `MUST`, `SHOULD` or `MAY`.
    pub level: String,
    /// The text of the sentence.
    pub text: String,
}

/// Returns the requirement with this number, such as `5044-4.3-7`.
#[must_use]
pub fn requirement(id: &str) -> Option<&'static Requirement> {
    static ALL: OnceLock<HashMap<String, Requirement>> = OnceLock::new();
    ALL.get_or_init(read).get(id)
}

/// Parses the list. It is part of this program and a test parses it, so that it cannot fail later.
fn read() -> HashMap<String, Requirement> {
    let mut reader = csv::Reader::from_reader(LIST.as_bytes());
    let records = reader.records().filter_map(Result::ok);
    let field = |record: &csv::StringRecord, at: usize| record.get(at).unwrap_or_default().to_owned();
    records
        .map(|record| (field(&record, 0), Requirement { level: field(&record, 3), text: field(&record, 5) }))
        .collect()
}

const LIST: &str = include_str!("../../tests/conformance/requirements.csv");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole() {
        assert_eq!(read().len(), LIST.lines().count() - 1);
        let first = requirement("5044-4.3-7").unwrap();
        assert_eq!(first.level, "MUST");
        assert!(first.text.contains("FPDUPTR"), "{}", first.text);
        assert_eq!(requirement("5044-4.3-777"), None);
    }
}
