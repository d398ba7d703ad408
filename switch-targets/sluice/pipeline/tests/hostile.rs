//! No JSON and no packet makes the pipeline panic, overflow or run for ever.

#![allow(clippy::unwrap_used, clippy::panic)]

mod gateway_lab;
mod twins;

use std::sync::OnceLock;
use std::time::Duration;

use gateway_lab::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_pipeline::{ExternRegistry, Program};

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

fn without_sources(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_sources),
        Value::Object(members) => {
            members.remove("source_info");
            members.values_mut().for_each(without_sources);
        }
        _ => {}
    }
}

#[derive(Clone, Debug)]
enum With {
    Value(Value),
    /// A value from elsewhere in the document.
    Other(prop::sample::Index),
}

fn replacement() -> impl Strategy<Value = With> {
    let words = [
        "",
        "field",
        "expression",
        "exit",
        "push",
        "0x",
        "0xffffffffffffffffff",
        "-0x1",
    ];
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![0..20_u64, any::<u64>()].prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!({"type": "runtime_data", "value": 0})),
    ];
    prop_oneof![
        value.prop_map(With::Value),
        any::<prop::sample::Index>().prop_map(With::Other)
    ]
}

/// The gateway program, those of meters and selectors, and p4c's samples when `SLUICE_P4C_SAMPLES` names a directory of them.
fn documents() -> &'static [Value] {
    static DOCUMENTS: OnceLock<Vec<Value>> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let mut documents = vec![
            json(),
            include_bytes!("../../tests/programs/meters.json").to_vec(),
            include_bytes!("../../tests/programs/selectors.json").to_vec(),
        ];
        if let Some(directory) = std::env::var_os("SLUICE_P4C_SAMPLES") {
            let files = std::fs::read_dir(directory)
                .unwrap()
                .map(|file| file.unwrap().path());
            let json = files.filter(|file| {
                file.extension()
                    .is_some_and(|extension| extension == "json")
            });
            documents.extend(json.map(|file| std::fs::read(file).unwrap()));
        }
        let parsed = documents.iter().map(|json| {
            let mut value = serde_json::from_slice(json).unwrap();
            without_sources(&mut value);
            value
        });
        parsed.collect()
    })
}

fn run_some_packets(json: &[u8]) {
    let Ok(mut twins) = twins::Twins::new(json, registry_without_checks) else {
        return;
    };
    let inner = ipv4(INNER, WEB, 6, 64, &[0; 40]);
    for packet in [
        esp_in_udp(&esp(SPI, 0, &inner)),
        from_web(INNER, 64, &[0; 30]),
        vec![],
        vec![0xff; 70],
    ] {
        for port in [WAN, LAN, u16::MAX] {
            for _ in 0..3 {
                twins.process(port, &packet, Duration::MAX);
            }
        }
    }
    twins.compare(&[]);
}

/// Like the lab's, but for a program that calls it with anything.
fn registry_without_checks() -> ExternRegistry {
    struct Any;
    impl sluice_pipeline::Extern for Any {
        fn method(&self, _name: &str, _arity: usize) -> Option<usize> {
            Some(0)
        }

        fn call(
            &self,
            _: usize,
            args: &mut [sluice_pipeline::ExternArg],
            packet: &mut sluice_pipeline::Packet<'_>,
            _: Duration,
        ) {
            args.iter_mut().for_each(|arg| arg.set(u128::MAX));
            packet.payload.trim_front(3);
            packet.payload.grow_back(2).fill(0);
        }
    }
    let mut registry = ExternRegistry::new();
    registry.register("EspEngine", |_, _| Ok(Box::new(Any)));
    registry
}

proptest! {
    #[test]
    fn mutated_programs_load_or_are_refused(
        document in any::<prop::sample::Index>(),
        places in prop::collection::vec((any::<prop::sample::Index>(), replacement()), 1..4),
    ) {
        let documents = documents();
        let mut value = documents[document.index(documents.len())].clone();
        for (place, with) in places {
            let size = count(&value);
            let with = match with {
                With::Value(value) => value,
                With::Other(other) => nth(&mut value, &mut other.index(size)).unwrap().clone(),
            };
            *nth(&mut value, &mut place.index(size)).unwrap() = with;
        }
        run_some_packets(&serde_json::to_vec(&value).unwrap());
    }

    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        assert!(Program::load(&bytes).is_err());
    }
}

#[test]
fn any_packet_ends() {
    let mut gateway = gateway();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2000));
    let inner = ipv4(INNER, WEB, 6, 64, &[0; 40]);
    let templates = vec![
        esp_in_udp(&esp(SPI, 0, &inner)),
        from_web(INNER, 64, &[0; 30]),
        vec![0; 60],
    ];
    let strategy = (
        prop::sample::select(templates),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        any::<prop::sample::Index>(),
        any::<u16>(),
    );
    let gateway = std::cell::RefCell::new(&mut gateway);
    let check = |(mut packet, changes, cut, port): (
        Vec<u8>,
        Vec<(prop::sample::Index, u8)>,
        prop::sample::Index,
        u16,
    )| {
        for (place, byte) in changes {
            let at = place.index(packet.len());
            packet[at] = byte;
        }
        packet.truncate(cut.index(packet.len() + 1));
        let out = gateway.borrow_mut().process(port % 4, &packet);
        prop_assert_eq!(out.dropped, out.sent.is_empty());
        Ok(())
    };
    runner.run(&strategy, check).unwrap();
}
