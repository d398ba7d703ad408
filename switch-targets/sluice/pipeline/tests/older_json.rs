//! JSON as p4c and bmv2's other compilers have written it: what bmv2 still takes runs.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use sluice_pipeline::{ExternRegistry, Outcome, Program, Switch};

/// Sends what has ethernet type 0x0800 to port 3 and all else to port 1, by a parser whose transitions have no type. There is
/// neither a version nor an `is_direct`.
fn program() -> Value {
    let field = |header: &str, field: &str| json!({"type": "field", "value": [header, field]});
    let number = |value: &str| json!({"type": "hexstr", "value": value});
    let egress = field("standard_metadata", "egress_spec");
    json!({
        "header_types": [
            {"name": "ethernet_t", "id": 0, "fields": [["dst", 48, false], ["src", 48, false], ["type", 16, false]]},
            {"name": "standard_metadata", "id": 1, "fields": [["ingress_port", 9, false], ["egress_spec", 9, false],
                ["egress_port", 9, false], ["parser_error", 32, false], ["_padding", 5, false]]},
        ],
        "headers": [
            {"name": "ethernet", "id": 0, "header_type": "ethernet_t", "metadata": false},
            {"name": "copy", "id": 2, "header_type": "ethernet_t", "metadata": false},
            {"name": "standard_metadata", "id": 1, "header_type": "standard_metadata", "metadata": true},
        ],
        "counter_arrays": [{"name": "seen", "id": 0, "size": 4}],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
            {"name": "start", "id": 0,
             "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "ethernet"}]}],
             "transition_key": [field("ethernet", "type")],
             "transitions": [
                 {"value": "0x0800", "mask": null, "next_state": "known"},
                 {"value": "0x1200", "mask": "0xff00", "next_state": "bad"},
                 {"value": "default", "mask": null, "next_state": null},
             ]},
            {"name": "known", "id": 1, "parser_ops": [
                {"op": "set", "parameters": [egress.clone(), number("0x2")]}], "transition_key": [], "transitions": []},
            {"name": "bad", "id": 2, "parser_ops": [
                {"op": "verify", "parameters": [{"type": "bool", "value": false}, 5]}], "transition_key": [], "transitions": []},
        ]}],
        "actions": [{"name": "forward", "id": 0, "runtime_data": [], "primitives": [
            {"op": "add_to_field", "parameters": [egress.clone(), number("0x1")]},
            {"op": "add_header_fast", "parameters": [{"type": "header", "value": "copy"}]},
            {"op": "copy_header", "parameters": [{"type": "header", "value": "copy"}, {"type": "header", "value": "ethernet"}]},
            {"op": "subtract", "parameters": [field("copy", "dst"), field("ethernet", "src"), field("ethernet", "dst")]},
            {"op": "bit_xor", "parameters": [field("copy", "src"), field("ethernet", "src"), number("0xff")]},
            {"op": "modify_field", "parameters": [field("copy", "type"), field("standard_metadata", "parser_error")]},
            {"op": "shift_left", "parameters": [field("copy", "type"), field("copy", "type"), number("0x4")]},
        ]}],
        "pipelines": [
            {"name": "ingress", "id": 0, "init_table": "all", "tables": [
                {"name": "all", "id": 0, "key": [], "match_type": "exact", "type": "simple", "max_size": 1, "action_ids": [0],
                 "next_tables": {"forward": null},
                 "default_entry": {"action_id": 0, "action_data": []}},
            ]},
            {"name": "egress", "id": 1, "init_table": null, "tables": []},
        ],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["ethernet", "copy"]}],
    })
}

fn sent(ethernet_type: [u8; 2]) -> (u16, Vec<u8>) {
    let json = program().to_string();
    let switch = Switch::new(
        Program::load(json.as_bytes()).unwrap(),
        &ExternRegistry::new(),
    );
    let mut frame = vec![0; 60];
    frame[5] = 1;
    frame[11] = 3;
    frame[12..14].copy_from_slice(&ethernet_type);
    let mut out = Outcome::new();
    switch.unwrap().process(0, &frame, Duration::ZERO, &mut out);
    (out.sent[0].port, out.sent[0].bytes[14..28].to_vec())
}

#[test]
fn transitions_without_a_type_are_numbers_or_the_word_default() {
    assert_eq!(sent([0x08, 0x00]).0, 3);
    assert_eq!(sent([0x08, 0x01]).0, 1);
}

#[test]
fn a_verification_may_name_its_error_by_number() {
    assert_eq!(sent([0x12, 0x34]).1[12..], [0, 0x50]);
    assert_eq!(sent([0x08, 0x00]).1[12..], [0, 0]);
}

#[test]
fn primitives_of_p4_14_compute() {
    let (_, copy) = sent([0x08, 0x00]);
    assert_eq!(copy[..6], [0, 0, 0, 0, 0, 2], "subtract");
    assert_eq!(copy[6..12], [0, 0, 0, 0, 0, 0xfc], "bit_xor");
}

#[test]
fn what_bmv2_refuses_or_what_would_be_wrong_is_refused() {
    type Bend = fn(&mut Value);
    let cases: [(Bend, &str); 5] = [
        (
            |json| json["__meta__"] = json!({"version": [3, 0]}),
            "__meta__.version: expected format version 2",
        ),
        (
            |json| json["__meta__"] = json!({"version": [2]}),
            "__meta__.version: expected 2 elements",
        ),
        (
            |json| json["header_types"][0]["fields"][0] = json!(["dst", 48, false, true]),
            "header_types[0].fields[0]: a field that saturates is not supported",
        ),
        (
            |json| json["parsers"][0]["parse_states"][0]["transitions"][0]["value"] = json!("else"),
            "transitions[0].value: else is not a hexadecimal number",
        ),
        (
            |json| json["parsers"][0]["parse_states"][0]["transitions"][0]["type"] = json!("guess"),
            "transitions[0]: transition type guess is not supported",
        ),
    ];
    for (bend, cause) in cases {
        let mut json = program();
        bend(&mut json);
        let error = Program::load(json.to_string().as_bytes()).unwrap_err();
        assert!(error.to_string().contains(cause), "{error}");
    }
}
