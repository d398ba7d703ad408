//! Fields of an invalid header hold the packet's own earlier values, whether it is interpreted or replayed.

#![allow(clippy::unwrap_used)]

mod twins;

use std::time::Duration;

use serde_json::{Value, json};
use sluice_pipeline::ExternRegistry;
use twins::Twins;

const TAGGED: [u8; 2] = [0x81, 0x00];

/// Parses a tag behind Ethernet type 0x8100, does `first`, and puts out what `then` or `other` gives: one header of 16 bits.
fn program(first: &[Value], cond: Value, then: Value, other: Value) -> Value {
    let put_out = |value: Value| {
        json!([
            {"op": "add_header", "parameters": [header("out")]},
            {"op": "assign", "parameters": [field("out", "value"), value]},
            {"op": "assign", "parameters": [field("standard_metadata", "egress_spec"), number(1)]},
        ])
    };
    let table = |name: &str, action: u32, next: Value| {
        json!({"name": name, "id": action, "key": [], "match_type": "exact", "type": "simple", "max_size": 1, "action_ids": [action],
            "next_tables": {name: next}, "default_entry": {"action_id": action, "action_data": []}})
    };
    json!({
        "header_types": [
            {"name": "ethernet_t", "id": 0, "fields": [["dst", 48, false], ["src", 48, false], ["type", 16, false]]},
            {"name": "tag_t", "id": 1, "fields": [["value", 16, false]]},
            {"name": "meta_t", "id": 2, "fields": [["seen", 16, false]]},
            {"name": "standard_metadata", "id": 3, "fields": [["ingress_port", 9, false], ["egress_spec", 9, false],
                ["egress_port", 9, false], ["_padding", 5, false]]},
        ],
        "headers": [
            {"name": "ethernet", "id": 0, "header_type": "ethernet_t", "metadata": false},
            {"name": "tag", "id": 1, "header_type": "tag_t", "metadata": false},
            {"name": "other", "id": 2, "header_type": "tag_t", "metadata": false},
            {"name": "out", "id": 3, "header_type": "tag_t", "metadata": false},
            {"name": "meta", "id": 4, "header_type": "meta_t", "metadata": true},
            {"name": "standard_metadata", "id": 5, "header_type": "standard_metadata", "metadata": true},
        ],
        "register_arrays": [{"name": "seen", "id": 0, "bitwidth": 16, "size": 1}],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
            {"name": "start", "id": 0,
             "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "ethernet"}]}],
             "transition_key": [field("ethernet", "type")],
             "transitions": [
                 {"value": "0x8100", "mask": null, "next_state": "tagged"},
                 {"value": "default", "mask": null, "next_state": null},
             ]},
            {"name": "tagged", "id": 1, "transition_key": [], "transitions": [],
             "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "tag"}]}]},
        ]}],
        "actions": [
            {"name": "first", "id": 0, "runtime_data": [], "primitives": first},
            {"name": "then", "id": 1, "runtime_data": [], "primitives": put_out(then)},
            {"name": "other", "id": 2, "runtime_data": [], "primitives": put_out(other)},
        ],
        "pipelines": [
            {"name": "ingress", "id": 0, "init_table": "first",
             "tables": [table("first", 0, json!("if")), table("then", 1, json!(null)), table("other", 2, json!(null))],
             "conditionals": [{"name": "if", "id": 0, "expression": cond, "true_next": "then", "false_next": "other"}]},
            {"name": "egress", "id": 1, "init_table": null, "tables": []},
        ],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["out", "tag"]}],
    })
}

fn field(header: &str, field: &str) -> Value {
    json!({"type": "field", "value": [header, field]})
}

fn header(name: &str) -> Value {
    json!({"type": "header", "value": name})
}

fn number(value: u16) -> Value {
    json!({"type": "hexstr", "value": format!("{value:#x}")})
}

fn compare(op: &str, left: Value, right: Value) -> Value {
    json!({"type": "expression", "value": {"op": op, "left": left, "right": right}})
}

fn op(op: &str, parameters: &[Value]) -> Value {
    json!({"op": op, "parameters": parameters})
}

/// The 16 bits that the program puts out for each of these tags; `None` is a packet without one.
fn put_out(program: &Value, tags: &[Option<u16>]) -> Vec<u16> {
    let json = program.to_string();
    let mut twins = Twins::new(json.as_bytes(), ExternRegistry::new).unwrap();
    let mut one = |tag: &Option<u16>| {
        let mut frame = vec![0; 12];
        frame.extend(tag.map_or([0x08, 0x00], |_| TAGGED));
        frame.extend(tag.unwrap_or(0xffff).to_be_bytes());
        let sent = &twins.process(0, &frame, Duration::ZERO).sent;
        u16::from_be_bytes([sent[0].bytes[0], sent[0].bytes[1]])
    };
    tags.iter().map(&mut one).collect()
}

fn always(first: &[Value]) -> Value {
    let (yes, tag) = (
        json!({"type": "bool", "value": true}),
        field("tag", "value"),
    );
    program(first, yes, tag.clone(), tag)
}

#[test]
fn a_removed_header_keeps_its_values_for_its_own_packet() {
    let program = always(&[op("remove_header", &[header("tag")])]);
    let tags = [Some(7), None, Some(9), None, Some(11), None];
    assert_eq!(put_out(&program, &tags), [7, 0, 9, 0, 11, 0]);
}

#[test]
fn what_is_written_to_an_invalid_header_is_read_again() {
    let write = op("assign", &[field("tag", "value"), number(5)]);
    let only = op("assign", &[field("other", "value"), number(5)]);
    assert_eq!(put_out(&always(&[write]), &[None; 4]), [5; 4]);
    assert_eq!(put_out(&always(&[only]), &[None, Some(3), None]), [0, 3, 0]);
}

#[test]
fn a_header_that_becomes_valid_again_starts_with_zeros() {
    let (remove, add) = (
        op("remove_header", &[header("tag")]),
        op("add_header", &[header("tag")]),
    );
    assert_eq!(put_out(&always(&[remove, add]), &[Some(7); 4]), [0; 4]);
}

#[test]
fn a_copy_of_an_invalid_header_leaves_the_values_of_the_copy() {
    let copy = op("assign_header", &[header("tag"), header("other")]);
    assert_eq!(
        put_out(&always(&[copy]), &[Some(7), None, Some(8)]),
        [7, 0, 8]
    );
}

#[test]
fn two_invalid_headers_are_equal_whatever_they_held() {
    let remove = op("remove_header", &[header("tag")]);
    let same = compare("==", header("tag"), header("other"));
    let program = program(&[remove], same, number(1), number(2));
    assert_eq!(put_out(&program, &[Some(7), None, Some(8)]), [1; 3]);
}

/// A trace that exits in the middle hands the values on to the interpreter, and no later packet sees them.
#[test]
fn the_values_are_there_where_a_path_is_left() {
    let seen = || field("meta", "seen");
    let array = || json!({"type": "register_array", "value": "seen"});
    let first = [
        op("remove_header", &[header("tag")]),
        op("register_read", &[seen(), array(), number(0)]),
        op("add_to_field", &[seen(), number(1)]),
        op("register_write", &[array(), number(0), seen()]),
    ];
    let late = compare(">", seen(), number(4));
    let tag = field("tag", "value");
    let more = json!({"type": "expression", "value": {"op": "+", "left": tag.clone(), "right": number(0x100)}});
    let program = program(&first, late, more, tag);
    let tags = [
        Some(1),
        Some(2),
        Some(3),
        Some(4),
        Some(5),
        None,
        Some(6),
        None,
    ];
    assert_eq!(
        put_out(&program, &tags),
        [1, 2, 3, 4, 0x105, 0x100, 0x106, 0x100]
    );
}
