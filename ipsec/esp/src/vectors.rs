//! The shared test vectors, which every language reads.
#![allow(clippy::unwrap_used)]

use serde_json::Value;

pub(crate) fn cases(group: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../../../tests/vectors/esp.json")).unwrap();
    all[group].as_array().unwrap().clone()
}

pub(crate) fn bytes(case: &Value, field: &str) -> Vec<u8> {
    let hex = case[field].as_str().unwrap();
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}
