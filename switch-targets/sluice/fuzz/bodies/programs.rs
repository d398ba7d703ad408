//! The programs that inputs are about.

use std::sync::{Arc, OnceLock};

use esp::{AllowedSuites, Kek, Suite};
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;
use sluice::dataplane::{esp_engine, packet_hash, payload_tail};
use sluice::proto::{DESCRIPTORS, info::P4Info};
use sluice_pipeline::{ExternRegistry, Program, Switch};

/// Cells of an array, and entries of a table: the gateway has many, and is made as often as there are inputs.
fn few(size: i64) -> i64 {
    if size == 1 << 16 { 256 } else { size }
}

pub const KEK: [u8; 32] = [7; 32];

macro_rules! source {
    ($path:literal) => {
        Source {
            json: include_str!(concat!("../../", $path, ".json")),
            p4info: include_str!(concat!("../../", $path, ".p4info.txtpb")),
            loaded: OnceLock::new(),
        }
    };
}

/// The programs in a fixed order: a corpus keeps its meaning when another program follows.
static SOURCES: [Source; 8] = [
    source!("../../p4/build/gateway"),
    source!("tests/programs/headers"),
    source!("tests/programs/copies"),
    source!("tests/programs/exchange"),
    source!("tests/programs/objects"),
    source!("tests/programs/selectors"),
    source!("tests/programs/meters"),
    source!("tests/programs/packet_hash"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Gateway,
    Headers,
    Copies,
    Exchange,
    Objects,
    Selectors,
    Meters,
    PacketHash,
}

pub const ALL: [Name; SOURCES.len()] = [
    Name::Gateway,
    Name::Headers,
    Name::Copies,
    Name::Exchange,
    Name::Objects,
    Name::Selectors,
    Name::Meters,
    Name::PacketHash,
];

struct Source {
    json: &'static str,
    p4info: &'static str,
    loaded: OnceLock<Loaded>,
}

pub struct Loaded {
    pub json: Value,
    pub info: P4Info,
    program: Program,
}

impl Name {
    pub fn loaded(self) -> &'static Loaded {
        let source = &SOURCES[self as usize];
        source.loaded.get_or_init(|| {
            let mut json = serde_json::from_str(source.json).unwrap();
            strip(&mut json);
            let program = Program::load(json.to_string().as_bytes()).unwrap();
            let info = message("p4.config.v1.P4Info");
            let info = DynamicMessage::parse_text_format(info, source.p4info).unwrap();
            let mut info: P4Info = info.transcode_to().unwrap();
            for register in &mut info.registers {
                register.size = few(register.size.into()) as i32;
            }
            for table in &mut info.tables {
                table.size = few(table.size);
            }
            Loaded {
                json,
                info,
                program,
            }
        })
    }

    pub fn switch(self) -> Switch {
        Switch::new(self.loaded().program.clone(), &registry()).unwrap()
    }
}

pub fn message(name: &str) -> prost_reflect::MessageDescriptor {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    let pool = POOL.get_or_init(|| DescriptorPool::decode(DESCRIPTORS).unwrap());
    pool.get_message_by_name(name).unwrap()
}

/// Removes unused members, and shrinks arrays so that they are made in no time.
fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(members) => {
            members.remove("source_info");
            members.values_mut().for_each(strip);
        }
        Value::Number(number) => {
            if let Some(size) = number.as_i64() {
                *value = few(size).into();
            }
        }
        _ => {}
    }
}

pub fn registry() -> ExternRegistry {
    let mut registry = ExternRegistry::new();
    let allowed = AllowedSuites::MODERN.with(Suite::NullHmacSha256);
    esp_engine::register(
        &mut registry,
        Arc::new(Kek::from_bytes(&KEK).into()),
        allowed,
    );
    payload_tail::register(&mut registry);
    packet_hash::register(&mut registry, Arc::new(Kek::from_bytes(&KEK).into()));
    registry
}
