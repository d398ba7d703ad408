//! Packet tests (`.stf`) of p4c's sample programs, compiled by p4c-bm2-ss beforehand: `NAME.json` beside `NAME.stf`
//! in the directory that `SLUICE_P4C_SAMPLES` names. Without it there is nothing to run.

#![allow(clippy::unwrap_used, clippy::panic)]

mod twins;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sluice_pipeline::{
    ActionCall, ActionId, Bits, Entry, ExternRegistry, KeySpec, MatchKind, MatchValue, Replica,
    TableId,
};
use twins::Twins;

#[test]
fn samples_forward_as_their_authors_say() {
    let Some(directory) = std::env::var_os("SLUICE_P4C_SAMPLES") else {
        println!("skipped: SLUICE_P4C_SAMPLES names no directory of compiled samples");
        return;
    };
    let mut failed = Vec::new();
    let mut passed = 0;
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    for stf in files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "stf"))
    {
        // The first run is as written; the second has each packet three times, which finds a difference between interpreter and traces.
        let json = stf.with_extension("json");
        match run(&json, stf, 1).and_then(|()| run(&json, stf, 3)) {
            Ok(()) => passed += 1,
            Err(cause) => failed.push(format!("{}: {cause}", stf.file_stem().unwrap().display())),
        }
    }
    println!(
        "{passed} samples passed, {} failed\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert!(
        passed > 0,
        "no samples in {}",
        Path::new(&directory).display()
    );
    let allowed = std::env::var("SLUICE_P4C_FAILURES").map_or(0, |count| count.parse().unwrap());
    assert!(failed.len() <= allowed, "{} samples failed", failed.len());
}

fn run(json: &Path, stf: &Path, times: usize) -> Result<(), String> {
    let json = std::fs::read(json).map_err(|error| error.to_string())?;
    let twins = Twins::new(&json, ExternRegistry::new).map_err(|error| error.to_string())?;
    let mut bench = Bench {
        twins,
        times,
        nodes: Vec::new(),
        groups: BTreeMap::new(),
        sent: BTreeMap::new(),
    };
    let mut expected: BTreeMap<u16, Vec<Option<String>>> = BTreeMap::new();
    for line in std::fs::read_to_string(stf)
        .map_err(|error| error.to_string())?
        .lines()
    {
        let line = line.split('#').next().unwrap_or_default().trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((command, args)) = words.split_first() else {
            continue;
        };
        match (command.to_lowercase().as_str(), args) {
            ("packet", [port, data @ ..]) => bench.packet(port, &data.concat())?,
            ("expect", [port, data @ ..]) => {
                let pattern = (!data.is_empty()).then(|| data.concat().to_uppercase());
                expected
                    .entry(number(port)? as u16)
                    .or_default()
                    .push(pattern);
            }
            ("add", args) => bench.add(args)?,
            ("setdefault", [table, action @ ..]) => bench.set_default(table, &action.concat())?,
            ("mirroring_add", [session, port]) => {
                let replica = Replica {
                    port: number(port)? as u16,
                    instance: 0,
                };
                let session = number(session)? as u16;
                bench
                    .twins
                    .both(|switch| switch.set_clone_session(session, vec![replica], None));
            }
            ("mc_mgrp_create", [group]) => {
                drop(bench.groups.insert(number(group)? as u16, Vec::new()))
            }
            ("mc_node_create", [instance, ports @ ..]) => {
                let ports: Result<Vec<u128>, String> =
                    ports.iter().map(|port| number(port)).collect();
                bench.nodes.push((number(instance)? as u16, ports?));
            }
            ("mc_node_associate", [group, node]) => {
                bench.associate(number(group)? as u16, number(node)? as usize)?
            }
            ("wait" | "no_packet", _) => {}
            (other, _) => return Err(format!("the runner does not know {other}")),
        }
    }
    bench.twins.compare(&[]);
    match times {
        1 => compare(expected, bench.sent),
        _ => Ok(()),
    }
}

fn compare(
    expected: BTreeMap<u16, Vec<Option<String>>>,
    sent: BTreeMap<u16, Vec<String>>,
) -> Result<(), String> {
    if let Some((port, packets)) = sent.iter().find(|(port, _)| !expected.contains_key(port)) {
        return Err(format!("unexpected packets at port {port}: {packets:?}"));
    }
    for (port, patterns) in expected {
        let packets = sent.get(&port).cloned().unwrap_or_default();
        if patterns == [None] && !packets.is_empty() {
            continue;
        }
        if packets.len() != patterns.len() {
            return Err(format!(
                "port {port}: expected {} packets, got {}: {packets:?}",
                patterns.len(),
                packets.len()
            ));
        }
        for (pattern, packet) in patterns.into_iter().zip(packets) {
            let Some(pattern) = pattern else { continue };
            let (digits, exact) = pattern
                .strip_suffix('$')
                .map_or((pattern.as_str(), false), |digits| (digits, true));
            let same = digits
                .chars()
                .zip(packet.chars())
                .all(|(digit, found)| digit == '*' || digit == found);
            if !same || packet.len() < digits.len() || exact && packet.len() != digits.len() {
                return Err(format!("port {port}: expected {pattern}, got {packet}"));
            }
        }
    }
    Ok(())
}

struct Bench {
    twins: Twins,
    times: usize,
    nodes: Vec<(u16, Vec<u128>)>,
    groups: BTreeMap<u16, Vec<Replica>>,
    sent: BTreeMap<u16, Vec<String>>,
}

impl Bench {
    fn packet(&mut self, port: &str, data: &str) -> Result<(), String> {
        let bytes = (0..data.len() / 2)
            .map(|at| u8::from_str_radix(&data[2 * at..2 * at + 2], 16).map_err(|e| e.to_string()));
        let (port, bytes) = (number(port)? as u16, bytes.collect::<Result<Vec<u8>, _>>()?);
        for _ in 1..self.times {
            self.twins.process(port, &bytes, Duration::ZERO);
        }
        for sent in &self.twins.process(port, &bytes, Duration::ZERO).sent {
            let hex: String = sent
                .bytes
                .iter()
                .map(|byte| format!("{byte:02X}"))
                .collect();
            self.sent.entry(sent.port).or_default().push(hex);
        }
        Ok(())
    }

    fn associate(&mut self, group: u16, node: usize) -> Result<(), String> {
        let (instance, ports) = self.nodes.get(node).ok_or("no such node")?;
        let replicas = self.groups.get_mut(&group).ok_or("no such group")?;
        replicas.extend(ports.iter().map(|port| Replica {
            port: *port as u16,
            instance: *instance,
        }));
        self.twins
            .both(|switch| switch.set_multicast_group(group, replicas.clone()));
        Ok(())
    }

    fn table(&self, name: &str) -> Result<TableId, String> {
        let tables = self.twins.plain.program().tables();
        let found = tables.iter().position(|table| table.name == name);
        let found = found.or_else(|| tables.iter().position(|table| table.name.ends_with(name)));
        found.map(TableId).ok_or_else(|| format!("no table {name}"))
    }

    /// `name(param:value, …)`, which may have been split at spaces.
    fn call(&self, table: TableId, text: &str) -> Result<ActionCall, String> {
        let (name, args) = text
            .trim_end_matches(')')
            .split_once('(')
            .ok_or("an action needs parentheses")?;
        let program = self.twins.plain.program();
        let listed = &program.tables()[table.0].actions;
        let of = |test: &dyn Fn(&str) -> bool| {
            listed
                .iter()
                .copied()
                .find(|id| test(&program.actions()[id.0].name))
        };
        let action: ActionId = of(&|known| known == name)
            .or_else(|| of(&|known| known.ends_with(name)))
            .ok_or(format!("no action {name}"))?;
        let mut values = BTreeMap::new();
        for arg in args.split(',').filter(|arg| !arg.is_empty()) {
            let (param, value) = arg.split_once(':').ok_or("an argument needs a name")?;
            values.insert(param.trim(), number(value.trim())?);
        }
        let params = &program.actions()[action.0].params;
        let args = params
            .iter()
            .map(|param| Bits::from_u128(param.width, values[param.name.as_str()]));
        Ok(ActionCall {
            action,
            args: args.collect(),
        })
    }

    fn set_default(&mut self, table: &str, action: &str) -> Result<(), String> {
        let table = self.table(table)?;
        let call = self.call(table, action)?;
        let mut result = Ok(());
        self.twins
            .both(|switch| result = switch.set_default(table, call.clone()));
        result.map_err(|error| error.to_string())
    }

    fn add(&mut self, args: &[&str]) -> Result<(), String> {
        let (table, mut rest) = args.split_first().ok_or("add needs a table")?;
        let table = self.table(table)?;
        let mut priority = 1;
        if let Some((first, others)) = rest
            .split_first()
            .filter(|(first, _)| first.chars().all(|c| c.is_ascii_digit()))
        {
            priority = 1 + number(first)? as i32;
            rest = others;
        }
        let split = rest
            .iter()
            .position(|word| word.contains('('))
            .ok_or("add needs an action")?;
        let (matches, action) = rest.split_at(split);
        let action = self.call(table, &action.concat())?;
        let spec = &self.twins.plain.program().tables()[table.0];
        let mut key: Vec<MatchValue> = spec.keys.iter().map(any).collect();
        for field in matches {
            let (name, value) = field.split_once(':').ok_or("a match needs a value")?;
            let name = name.replace("$0", "[0]");
            let at = spec.keys.iter().position(|key| key.name == name);
            let at = at.or_else(|| {
                spec.keys
                    .iter()
                    .position(|key| key.name.ends_with(&format!(".{name}")))
            });
            let at = at.ok_or_else(|| format!("no key field {name}"))?;
            key[at] = match_value(&spec.keys[at], value)?;
        }
        let entry = Entry {
            key,
            priority: if spec.prioritised { priority } else { 0 },
            action: action.into(),
        };
        let mut result = Ok(());
        self.twins
            .both(|switch| result = switch.insert(table, entry.clone()));
        result.map_err(|error| error.to_string())
    }
}

fn any(spec: &KeySpec) -> MatchValue {
    let zero = Bits::zero(spec.width);
    match spec.kind {
        MatchKind::Exact => MatchValue::Exact(zero),
        MatchKind::Lpm => MatchValue::Lpm {
            value: zero,
            len: 0,
        },
        MatchKind::Range => MatchValue::Range {
            low: zero,
            high: Bits::ones(spec.width),
        },
        MatchKind::Ternary | MatchKind::Optional => MatchValue::Ternary {
            value: zero.clone(),
            mask: zero,
        },
    }
}

fn match_value(spec: &KeySpec, text: &str) -> Result<MatchValue, String> {
    let bits = |value| Bits::from_u128(spec.width, value);
    Ok(match spec.kind {
        MatchKind::Exact => MatchValue::Exact(bits(number(text)?)),
        MatchKind::Lpm => {
            let (value, len) = text
                .split_once('/')
                .map_or((text, None), |(value, len)| (value, Some(len)));
            let len = len.map_or(Ok(u128::from(spec.width)), number)? as u16;
            MatchValue::Lpm {
                value: bits(number(value)?),
                len,
            }
        }
        MatchKind::Range => MatchValue::Range {
            low: bits(number(text)?),
            high: bits(number(text)?),
        },
        MatchKind::Ternary | MatchKind::Optional => {
            let digits = text
                .strip_prefix("0x")
                .ok_or("a ternary value is hexadecimal")?;
            let mask: String = digits
                .chars()
                .map(|digit| if digit == '*' { '0' } else { 'f' })
                .collect();
            let value = u128::from_str_radix(&digits.replace('*', "0"), 16)
                .map_err(|error| error.to_string())?;
            let mask = u128::from_str_radix(&mask, 16).map_err(|error| error.to_string())?;
            MatchValue::Ternary {
                value: bits(value),
                mask: bits(mask),
            }
        }
    })
}

fn number(text: &str) -> Result<u128, String> {
    let (digits, radix) = match text.get(..2) {
        Some("0x") => (&text[2..], 16),
        Some("0b") => (&text[2..], 2),
        _ => (text, 10),
    };
    u128::from_str_radix(digits, radix).map_err(|_| format!("{text} is not a number"))
}
