//! The loader of programs: whatever it is given, it refuses it with a place and a cause, or packets can run through it.

use std::time::Duration;

use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _};
use serde_json::{Value, json};
use sluice::proto::info::P4Info;
use sluice::schema::Schema;
use sluice_pipeline::{Outcome, Program, Switch};

use super::input::Input;
use super::programs::{ALL, Name, message, registry};

/// Words that mean something somewhere in the JSON.
const WORDS: [&str; 24] = [
    "",
    "0x",
    "0x00",
    "-0x01",
    "0xffffffffffffffffffffffffffffffffffffffffff",
    "field",
    "header",
    "header_stack",
    "header_union",
    "expression",
    "runtime_data",
    "hexstr",
    "bool",
    "local",
    "lookahead",
    "stack_field",
    "exit",
    "push",
    "exact",
    "ternary",
    "range",
    "parse_vset",
    "action_selector",
    "standard_metadata",
];

pub fn program(input: &[u8]) {
    let mut input = Input::new(input);
    let selector = input.byte();
    if selector == 255 {
        let json = input.rest();
        return run(json, &Name::Headers.loaded().info, &mut Input::new(&[]));
    }
    // The gateway takes as long as all others together.
    let name = match selector % 32 {
        0 => Name::Gateway,
        other => ALL[1 + usize::from(other) % (ALL.len() - 1)],
    };
    if selector >= 128 {
        let bytes = input.bytes();
        let mut encoded = name.loaded().info.encode_to_vec();
        damage(&mut encoded, bytes);
        let info = P4Info::decode(encoded.as_slice());
        return run(&document(name), &info.unwrap_or_default(), &mut input);
    }
    let loaded = name.loaded();
    let mut json = loaded.json.clone();
    let mut info = None;
    for _ in 0..1 + input.below(4) {
        if input.rarely(4) {
            let info = info.get_or_insert_with(|| dynamic(&loaded.info));
            mutate_info(info, &mut input);
        } else {
            mutate(&mut json, &mut input);
        }
    }
    let info = info.map_or_else(|| loaded.info.clone(), |info| info.transcode_to().unwrap());
    run(json.to_string().as_bytes(), &info, &mut input);
}

fn document(name: Name) -> Vec<u8> {
    name.loaded().json.to_string().into_bytes()
}

/// Loads JSON, P4Info and externs as a push does, then runs packets.
fn run(json: &[u8], info: &P4Info, input: &mut Input) {
    let program = match Program::load(json) {
        Ok(program) => program,
        Err(error) => {
            assert!(
                !error.place.is_empty() && !error.cause.is_empty(),
                "{error}"
            );
            return;
        }
    };
    let schema = Schema::new(info, &program);
    if let Err(fault) = &schema {
        assert!(fault.message.len() > 8, "{}", fault.message);
    }
    let mut switch = match Switch::new(program, &registry()) {
        Ok(switch) => switch,
        Err(error) => {
            assert!(
                !error.place.is_empty() && !error.cause.is_empty(),
                "{error}"
            );
            return;
        }
    };
    if let Ok(schema) = schema {
        schema.limit_profiles(&mut switch).unwrap();
    }
    switch.record_paths(1);
    let mut out = Outcome::new();
    let mut frame = vec![0x45; 100];
    frame[..18].copy_from_slice(&[1, 0, 0, 0, 1, 1, 0, 2, 0, 0, 1, 2, 8, 0, 0x45, 0, 0, 86]);
    for round in 0..4 {
        let given = input.bytes();
        frame[..given.len().min(100)].copy_from_slice(&given[..given.len().min(100)]);
        for port in [1, 2, 510] {
            let now = Duration::from_millis(700 * round);
            switch.process(port, &frame, now, &mut out);
            assert!(out.sent.len() <= 2048, "{} packets", out.sent.len());
        }
    }
    switch.process(0, &[], Duration::MAX, &mut out);
}

fn mutate(root: &mut Value, input: &mut Input) {
    let size = count(root);
    let kind = input.byte();
    let mut at = usize::from(input.word()) * size / (1 << 16);
    match kind % 8 {
        0 | 1 => {
            let other = nth(root, &mut (usize::from(input.word()) * size / (1 << 16)));
            let other = other.unwrap().clone();
            *nth(root, &mut at).unwrap() = other;
        }
        2 => drop(parent_of(root, &mut at, &mut |parent| match parent {
            Parent::Array(items, at) => drop(items.remove(at)),
            Parent::Object(members, key) => drop(members.remove(&key)),
        })),
        3 => drop(parent_of(root, &mut at, &mut |parent| match parent {
            Parent::Array(items, at) => items.push(items[at].clone()),
            Parent::Object(members, key) => {
                let (new, value) = (*input.one(&WORDS), members[&key].clone());
                members.insert(new.to_owned(), value);
            }
        })),
        4 => {
            let other = usize::from(input.word()) * size / (1 << 16);
            let (one, two) = (at, other);
            let first = nth(root, &mut at).unwrap().take();
            let second = nth(root, &mut two.min(count(root) - 1)).unwrap().clone();
            *nth(root, &mut one.min(count(root) - 1)).unwrap() = second;
            *nth(root, &mut two.min(count(root) - 1)).unwrap() = first;
        }
        5 => *nth(root, &mut at).unwrap() = Value::from(*input.one(&WORDS)),
        6 => {
            let value = nth(root, &mut at).unwrap();
            *value = match input.byte() % 8 {
                0 => Value::Null,
                1 => true.into(),
                2 => json!([]),
                3 => json!({}),
                4 => input.byte().into(),
                5 => input.number().into(),
                6 => json!(-1.5),
                _ => json!({"type": "runtime_data", "value": input.byte()}),
            };
        }
        _ => match nth(root, &mut at).unwrap() {
            Value::Number(number) => {
                let now = number.as_u64().unwrap_or(0);
                let other = match input.byte() % 4 {
                    0 => now.wrapping_add(1),
                    1 => now.wrapping_sub(1),
                    2 => now << (input.byte() % 32),
                    _ => u64::from(input.word()),
                };
                *number = other.into();
            }
            Value::String(text) => {
                let at = input.below(text.len() + 1);
                if text.is_char_boundary(at) {
                    text.insert(at, char::from(b'0' + input.byte() % 64));
                }
            }
            Value::Bool(it) => *it = !*it,
            Value::Array(items) => items.reverse(),
            other => *other = Value::Null,
        },
    }
}

/// The `at`-th value of the document, counted depth first.
fn nth<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, at)),
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, at)),
        _ => None,
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

enum Parent<'a> {
    Array(&'a mut Vec<Value>, usize),
    Object(&'a mut serde_json::Map<String, Value>, String),
}

/// Does something to where the `at`-th value is.
fn parent_of(value: &mut Value, at: &mut usize, change: &mut impl FnMut(Parent)) -> Option<()> {
    match value {
        Value::Array(items) => {
            for index in 0..items.len() {
                if *at <= 1 {
                    change(Parent::Array(items, index));
                    return Some(());
                }
                *at -= 1;
                if parent_of(&mut items[index], at, change).is_some() {
                    return Some(());
                }
            }
        }
        Value::Object(members) => {
            let keys: Vec<String> = members.keys().cloned().collect();
            for key in keys {
                if *at <= 1 {
                    change(Parent::Object(members, key));
                    return Some(());
                }
                *at -= 1;
                if parent_of(&mut members[&key], at, change).is_some() {
                    return Some(());
                }
            }
        }
        _ => {}
    }
    None
}

pub fn damage(bytes: &mut Vec<u8>, how: &[u8]) {
    for step in how.chunks_exact(4) {
        if bytes.is_empty() {
            return;
        }
        let at = usize::from(u16::from_be_bytes([step[1], step[2]])) * bytes.len() / (1 << 16);
        match step[0] % 4 {
            0 => bytes[at] = step[3],
            1 => bytes.insert(at, step[3]),
            2 => drop(bytes.drain(at..bytes.len().min(at + usize::from(step[3])))),
            _ => bytes[at] ^= 1 << (step[3] % 8),
        }
    }
}

fn dynamic(info: &P4Info) -> DynamicMessage {
    DynamicMessage::decode(
        message("p4.config.v1.P4Info"),
        info.encode_to_vec().as_slice(),
    )
    .unwrap()
}

/// Changes one field somewhere in the message.
fn mutate_info(info: &mut DynamicMessage, input: &mut Input) {
    use prost_reflect::Value;
    let mut found = Vec::new();
    fields(info, &mut Vec::new(), &mut found);
    let path = found.swap_remove(usize::from(input.word()) * found.len() / (1 << 16));
    let how = input.byte();
    let (number, word) = (input.number(), input.word());
    at_path(info, &path, &mut |message, field| {
        let descriptor = message.descriptor().get_field(field).unwrap();
        if how.is_multiple_of(4) {
            return message.clear_field(&descriptor);
        }
        let value = message.get_field_mut(&descriptor);
        let items: &mut [Value] = match value {
            Value::List(items) if how % 4 == 1 => {
                let again = items[usize::from(word) % items.len()].clone();
                return items.push(again);
            }
            Value::List(items) if how % 4 == 2 => {
                return drop(items.remove(usize::from(word) % items.len()));
            }
            Value::List(items) => items.as_mut_slice(),
            other => std::slice::from_mut(other),
        };
        let at = usize::from(word) % items.len().max(1);
        match items.get_mut(at) {
            Some(Value::I32(it)) => *it = small_or(*it as u32, how, number) as i32,
            Some(Value::U32(it)) => *it = small_or(*it, how, number),
            Some(Value::EnumNumber(it)) => *it = i32::from(how / 4 % 8) - 1,
            Some(Value::I64(it)) => *it = number as i64 >> (how % 64),
            Some(Value::U64(it)) => *it = number,
            Some(Value::Bool(it)) => *it = !*it,
            Some(Value::String(it)) => it.push('x'),
            _ => {}
        }
    });
}

fn small_or(it: u32, how: u8, number: u64) -> u32 {
    match how / 4 % 4 {
        0 => it.wrapping_add(1),
        1 => it.wrapping_sub(1),
        2 => it ^ 1 << (number % 32),
        _ => number as u32,
    }
}

/// A field of the message, and where in a list or map the message is that goes on with the path.
type Path = Vec<(u32, usize)>;

fn fields(message: &DynamicMessage, prefix: &mut Path, found: &mut Vec<Path>) {
    use prost_reflect::Value;
    for (field, value) in message.fields() {
        let inner: Vec<&DynamicMessage> = match value {
            Value::Message(inner) => vec![inner],
            Value::List(items) => items.iter().filter_map(Value::as_message).collect(),
            _ => Vec::new(),
        };
        prefix.push((field.number(), 0));
        found.push(prefix.clone());
        for (at, inner) in inner.into_iter().enumerate() {
            prefix.last_mut().unwrap().1 = at;
            fields(inner, prefix, found);
        }
        prefix.pop();
    }
}

fn at_path(
    message: &mut DynamicMessage,
    path: &[(u32, usize)],
    change: &mut impl FnMut(&mut DynamicMessage, u32),
) {
    use prost_reflect::Value;
    let [(field, at), rest @ ..] = path else {
        return;
    };
    if rest.is_empty() {
        return change(message, *field);
    }
    let descriptor = message.descriptor().get_field(*field).unwrap();
    match message.get_field_mut(&descriptor) {
        Value::Message(inner) => at_path(inner, rest, change),
        Value::List(items) => at_path(items[*at].as_message_mut().unwrap(), rest, change),
        _ => {}
    }
}
