//! Random batches with each atomicity lead where a model of the tables leads.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use sluice_pipeline::Program;
use std::collections::BTreeMap;

use super::*;
use crate::p4runtime::read;
use crate::proto::info::P4Info;
use crate::proto::p4rt::packet_replication_engine_entry::Type as Engine;
use crate::proto::p4rt::{field_match, table_action};
use crate::schema::Schema;

const JSON: &[u8] = include_bytes!("../../../tests/programs/exchange.json");
/// Cells of the counter array.
const CELLS: i64 = 8;
/// Entries of the table.
const ROOM: usize = 64;

/// An entity that a client can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Entry(u8),
    Default,
    Group(u32),
    Cell(i64),
    Digest,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    kind: Type,
    key: Key,
    value: u8,
}

type Model = BTreeMap<Key, u8>;

/// Ids in `exchange.p4`'s P4Info.
struct Ids {
    table: u32,
    to_port: u32,
    received: u32,
    seen: u32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![Just(Type::Insert), Just(Type::Modify), Just(Type::Delete)];
    let key = prop_oneof![
        4 => (1_u8..5).prop_map(Key::Entry),
        1 => Just(Key::Default),
        2 => (0_u32..3).prop_map(Key::Group),
        1 => (CELLS - 2..CELLS + 1).prop_map(Key::Cell),
        1 => Just(Key::Digest),
    ];
    let step = (kind, key, 1_u8..9).prop_map(|(kind, key, value)| Step { kind, key, value });
    prop::collection::vec(step, 0..12)
}

/// The specification's answer to one update.
fn expected(model: &mut Model, step: Step) -> Code {
    let Step { kind, key, value } = step;
    let is_there = model.contains_key(&key);
    match (key, kind) {
        (Key::Group(0), _) => return Code::InvalidArgument,
        (Key::Default | Key::Cell(_), Type::Insert | Type::Delete) => return Code::InvalidArgument,
        (Key::Cell(cell), Type::Modify) if cell >= CELLS => return Code::OutOfRange,
        (Key::Cell(_) | Key::Default, _) => {}
        (_, Type::Insert) if is_there => return Code::AlreadyExists,
        (_, Type::Modify | Type::Delete) if !is_there => return Code::NotFound,
        _ => {}
    }
    match kind {
        Type::Delete => model.remove(&key),
        _ => model.insert(key, value),
    };
    Code::Ok
}

struct Bench {
    device: Device,
    installed: Installed,
    ids: Ids,
}

impl Bench {
    fn new() -> Self {
        let program = Program::load(JSON).unwrap();
        let ids = Ids {
            table: 1,
            to_port: 2,
            received: 3,
            seen: 4,
        };
        let p4info = p4info(&ids);
        let schema = Schema::new(&p4info, &program).unwrap();
        let (device, installed) = test_device::with(program, schema);
        Self {
            device,
            installed,
            ids,
        }
    }

    fn action(&self, port: u8) -> Option<p4rt::TableAction> {
        let param = p4rt::action::Param {
            param_id: 1,
            value: vec![port].into(),
        };
        let action = p4rt::Action {
            action_id: self.ids.to_port,
            params: vec![param],
        };
        let r#type = Some(table_action::Type::Action(action));
        Some(p4rt::TableAction { r#type })
    }

    fn update(&self, step: Step) -> p4rt::Update {
        let Step { kind, key, value } = step;
        let count = i64::from(value);
        let data = Some(p4rt::CounterData {
            packet_count: count,
            byte_count: count,
        });
        let entity = match key {
            Key::Entry(dst) => Entity::TableEntry(p4rt::TableEntry {
                table_id: self.ids.table,
                r#match: vec![p4rt::FieldMatch {
                    field_id: 1,
                    field_match_type: Some(field_match::FieldMatchType::Exact(
                        field_match::Exact {
                            value: vec![dst].into(),
                        },
                    )),
                }],
                action: self.action(value),
                counter_data: data,
                metadata: vec![value],
                ..Default::default()
            }),
            Key::Default => Entity::TableEntry(p4rt::TableEntry {
                table_id: self.ids.table,
                is_default_action: true,
                action: self.action(value),
                ..Default::default()
            }),
            Key::Group(group) => {
                let replicas = vec![p4rt::Replica {
                    instance: u32::from(value),
                    port_kind: Some(p4rt::replica::PortKind::Port(vec![1])),
                    ..Default::default()
                }];
                let group = p4rt::MulticastGroupEntry {
                    multicast_group_id: group,
                    replicas,
                    ..Default::default()
                };
                let r#type = Some(Engine::MulticastGroupEntry(group));
                Entity::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry { r#type })
            }
            Key::Cell(index) => Entity::CounterEntry(p4rt::CounterEntry {
                counter_id: self.ids.received,
                index: Some(p4rt::Index { index }),
                data,
            }),
            Key::Digest => Entity::DigestEntry(p4rt::DigestEntry {
                digest_id: self.ids.seen,
                config: Some(p4rt::digest_entry::Config {
                    max_list_size: i32::from(value),
                    ..Default::default()
                }),
            }),
        };
        p4rt::Update {
            r#type: kind as i32,
            entity: Some(p4rt::Entity {
                entity: Some(entity),
            }),
        }
    }

    /// The state that a client can read.
    fn state(&self) -> Model {
        let asked = [
            Entity::TableEntry(everything_of(p4rt::TableEntry::default())),
            Entity::TableEntry(p4rt::TableEntry {
                table_id: self.ids.table,
                is_default_action: true,
                ..Default::default()
            }),
            Entity::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry::default()),
            Entity::CounterEntry(p4rt::CounterEntry::default()),
            Entity::DigestEntry(p4rt::DigestEntry::default()),
        ];
        let mut found = Vec::new();
        for asked in asked {
            read::one(&self.device, &self.installed, asked, &mut found).unwrap();
        }
        found.iter().filter_map(seen).collect()
    }
}

fn seen(entity: &Entity) -> Option<(Key, u8)> {
    let port = |entry: &p4rt::TableEntry| match &entry.action.as_ref()?.r#type {
        Some(table_action::Type::Action(action)) => Some(action.params.first()?.value[0]),
        _ => None,
    };
    match entity {
        Entity::TableEntry(entry) if entry.is_default_action => Some((Key::Default, port(entry)?)),
        Entity::TableEntry(entry) => {
            let Some(field_match::FieldMatchType::Exact(exact)) =
                &entry.r#match[0].field_match_type
            else {
                return None;
            };
            let value = port(entry)?;
            assert_eq!(entry.counter_data.unwrap().packet_count, i64::from(value));
            assert_eq!(entry.metadata, [value]);
            Some((Key::Entry(exact.value[0]), value))
        }
        Entity::PacketReplicationEngineEntry(entry) => match &entry.r#type {
            Some(Engine::MulticastGroupEntry(group)) => Some((
                Key::Group(group.multicast_group_id),
                group.replicas[0].instance as u8,
            )),
            _ => None,
        },
        Entity::CounterEntry(entry) => {
            let (index, count) = (entry.index?.index, entry.data?.packet_count as u8);
            (count > 0).then_some((Key::Cell(index), count))
        }
        Entity::DigestEntry(entry) => Some((Key::Digest, entry.config?.max_list_size as u8)),
        _ => None,
    }
}

/// The part of the program's P4Info that the test is about.
fn p4info(ids: &Ids) -> P4Info {
    use crate::proto::info::*;
    let preamble = |id, name: &str| {
        Some(Preamble {
            id,
            name: name.into(),
            ..Default::default()
        })
    };
    let bits = |bitwidth| P4DataTypeSpec {
        type_spec: Some(p4_data_type_spec::TypeSpec::Bitstring(
            P4BitstringLikeTypeSpec {
                type_spec: Some(p4_bitstring_like_type_spec::TypeSpec::Bit(P4BitTypeSpec {
                    bitwidth,
                })),
                ..Default::default()
            },
        )),
    };
    P4Info {
        tables: vec![Table {
            preamble: preamble(ids.table, "Forward.forward"),
            match_fields: vec![MatchField {
                id: 1,
                name: "h.ethernet.dst".into(),
                bitwidth: 48,
                r#match: Some(match_field::Match::MatchType(
                    match_field::MatchType::Exact as i32,
                )),
                ..Default::default()
            }],
            action_refs: vec![ActionRef {
                id: ids.to_port,
                ..Default::default()
            }],
            size: ROOM as i64,
            ..Default::default()
        }],
        actions: vec![Action {
            preamble: preamble(ids.to_port, "Forward.to_port"),
            params: vec![action::Param {
                id: 1,
                name: "port".into(),
                bitwidth: 9,
                ..Default::default()
            }],
        }],
        counters: vec![Counter {
            preamble: preamble(ids.received, "Forward.received"),
            size: CELLS,
            ..Default::default()
        }],
        direct_counters: vec![DirectCounter {
            preamble: preamble(9, "Forward.forwarded"),
            direct_table_id: ids.table,
            ..Default::default()
        }],
        digests: vec![Digest {
            preamble: preamble(ids.seen, "seen_t"),
            type_spec: Some(P4DataTypeSpec {
                type_spec: Some(p4_data_type_spec::TypeSpec::Tuple(P4TupleTypeSpec {
                    members: vec![bits(48), bits(9)],
                })),
            }),
        }],
        ..Default::default()
    }
}

fn code(result: &Result<(), Fault>) -> Code {
    result
        .as_ref()
        .map_or_else(|fault| fault.code, |()| Code::Ok)
}

proptest! {
    #[test]
    fn batches_lead_where_the_model_leads(
        batches in prop::collection::vec((any::<bool>(), steps()), 1..12)
    ) {
        let mut bench = Bench::new();
        let (mut model, access) = (Model::new(), Access::default());
        for (atomic, steps) in batches {
            let updates: Vec<_> = steps.iter().map(|step| bench.update(*step)).collect();
            let mut next = model.clone();
            let mut codes = Vec::new();
            for step in &steps {
                codes.push(expected(&mut next, *step));
            }
            let results: Vec<_> = if atomic {
                if codes.iter().any(|code| *code != Code::Ok) {
                    next.clone_from(&model);
                    // The first failure has its own code.
                    let at = codes.iter().position(|code| *code != Code::Ok).unwrap();
                    let own = codes[at];
                    codes.fill(Code::Aborted);
                    codes[at] = own;
                }
                all_or_none(&bench.device, &mut bench.installed, &access, updates)
            } else {
                let each = updates.into_iter();
                each.map(|it| apply(&bench.device, &mut bench.installed, &access, it)).collect()
            };
            prop_assert_eq!(results.iter().map(code).collect::<Vec<_>>(), codes);
            model = next;
            prop_assert_eq!(bench.state(), model.clone());
        }
    }
}
