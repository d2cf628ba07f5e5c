//! Reads the computed vectors of `tests/data/vectors.json`.

use serde_json::Value;

pub(crate) fn load() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/vectors.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the names of all vectors that consist of FPDUs.
pub(crate) fn fpdu_names(file: &Value) -> Vec<String> {
    let is_fpdus = |value: &Value| {
        let hex = value["hex"].as_str().unwrap_or_default();
        !hex.is_empty() && !hex.starts_with("4d504120")
    };
    let vectors = file.as_object().unwrap().iter();
    vectors.filter(|(_, value)| is_fpdus(value)).map(|(name, _)| name.clone()).collect()
}

/// Returns the ULPDUs of one vector: FPDUs without Markers, length, pad and CRC.
pub(crate) fn ulpdus(file: &Value, name: &str) -> Vec<Vec<u8>> {
    let vector = &file[name];
    let mut stream = octets(vector["hex"].as_str().unwrap());
    let fpdus = vector["fpdus"].as_array().into_iter().flatten();
    let markers = fpdus.flat_map(|fpdu| fpdu["markers"].as_array().unwrap());
    let mut positions: Vec<usize> =
        markers.map(|marker| usize::try_from(marker[0].as_u64().unwrap()).unwrap()).collect();
    positions.sort_unstable();
    // From the back, so that the earlier positions stay valid.
    for position in positions.into_iter().rev() {
        stream.drain(position..position + 4);
    }
    let mut ulpdus = Vec::new();
    let mut rest = &stream[..];
    while let [high, low, ..] = *rest {
        let len = usize::from(u16::from_be_bytes([high, low]));
        ulpdus.push(rest[2..2 + len].to_vec());
        rest = &rest[(2 + len).next_multiple_of(4) + 4..];
    }
    ulpdus
}

pub(crate) fn octets(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}
