//! Random batches on registers, value sets, idle timeouts and counts of misses: a batch has the effect of its updates one by one,
//! or none.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use sluice_pipeline::Program;

use super::*;
use crate::p4runtime::read;
use crate::proto::info::P4Info;
use crate::proto::p4rt::field_match::{Exact, FieldMatchType};
use crate::proto::p4rt::{p4_data, table_action};
use crate::schema::Schema;

const JSON: &[u8] = include_bytes!("../../../tests/programs/objects.json");
const TABLE: u32 = 1;
const UNKNOWN: u32 = 2;
const REGISTER: u32 = 3;
const MEMBERS: u32 = 4;

#[derive(Clone, Debug)]
enum Change {
    /// Writes a cell, or all without an index. The last indices are beyond the array.
    Register {
        index: Option<i64>,
        value: u8,
    },
    /// Members: up to as many as the set holds, and one more.
    Members(Vec<u8>),
    Entry {
        src: u8,
        timeout: i64,
    },
    Default {
        misses: Option<i64>,
    },
    Misses(i64),
}

fn change() -> impl Strategy<Value = (Type, Change)> {
    let index = prop::option::weighted(0.8, prop_oneof![9 => 0_i64..4, 1 => 1999_i64..2002]);
    let change = prop_oneof![
        3 => (index, any::<u8>()).prop_map(|(index, value)| Change::Register { index, value }),
        3 => prop::collection::vec(0_u8..20, 0..6).prop_map(Change::Members),
        3 => (0_u8..3, 0_i64..3).prop_map(|(src, timeout)| Change::Entry { src, timeout }),
        1 => prop::option::of(0_i64..9).prop_map(|misses| Change::Default { misses }),
        1 => (0_i64..9).prop_map(Change::Misses),
    ];
    let kind =
        prop_oneof![1 => Just(Type::Insert), 6 => Just(Type::Modify), 1 => Just(Type::Delete)];
    (kind, change).prop_map(|(kind, change)| match change {
        Change::Entry { timeout: 0, .. } if kind == Type::Modify => (Type::Insert, change),
        _ => (kind, change),
    })
}

fn exact(field_id: u32, value: u8) -> p4rt::FieldMatch {
    p4rt::FieldMatch {
        field_id,
        field_match_type: Some(FieldMatchType::Exact(Exact {
            value: vec![value].into(),
        })),
    }
}

fn packets(packet_count: i64) -> p4rt::CounterData {
    p4rt::CounterData {
        packet_count,
        byte_count: 0,
    }
}

fn update((kind, change): &(Type, Change)) -> p4rt::Update {
    let default = p4rt::TableEntry {
        table_id: TABLE,
        is_default_action: true,
        ..Default::default()
    };
    let entity = match change {
        Change::Register { index, value } => Entity::RegisterEntry(p4rt::RegisterEntry {
            register_id: REGISTER,
            index: index.map(|index| p4rt::Index { index }),
            data: Some(p4rt::P4Data {
                data: Some(p4_data::Data::Bitstring(vec![*value])),
            }),
        }),
        Change::Members(types) => Entity::ValueSetEntry(p4rt::ValueSetEntry {
            value_set_id: MEMBERS,
            members: types
                .iter()
                .map(|it| p4rt::ValueSetMember {
                    r#match: vec![exact(1, *it)],
                })
                .collect(),
        }),
        Change::Entry { src, timeout } => Entity::TableEntry(p4rt::TableEntry {
            table_id: TABLE,
            r#match: vec![exact(1, *src)],
            idle_timeout_ns: timeout * 1_000_000,
            action: Some(p4rt::TableAction {
                r#type: Some(table_action::Type::Action(p4rt::Action {
                    action_id: UNKNOWN,
                    params: Vec::new(),
                })),
            }),
            ..Default::default()
        }),
        // The action is taken back, and with it the counts unless they are given.
        Change::Default { misses } => Entity::TableEntry(p4rt::TableEntry {
            counter_data: misses.map(packets),
            ..default
        }),
        Change::Misses(count) => Entity::DirectCounterEntry(p4rt::DirectCounterEntry {
            table_entry: Some(default),
            data: Some(packets(*count)),
        }),
    };
    p4rt::Update {
        r#type: *kind as i32,
        entity: Some(p4rt::Entity {
            entity: Some(entity),
        }),
    }
}

struct Bench {
    device: Device,
    installed: Installed,
}

impl Bench {
    fn new() -> Self {
        let program = Program::load(JSON).unwrap();
        let schema = Schema::new(&p4info(), &program).unwrap();
        let (device, installed) = test_device::with(program, schema);
        Self { device, installed }
    }

    /// The state that a client can read.
    fn state(&self) -> Vec<Entity> {
        let of = |is_default_action| {
            Entity::TableEntry(everything_of(p4rt::TableEntry {
                table_id: TABLE,
                is_default_action,
                ..Default::default()
            }))
        };
        let asked = [
            of(false),
            of(true),
            Entity::RegisterEntry(p4rt::RegisterEntry::default()),
            Entity::ValueSetEntry(p4rt::ValueSetEntry::default()),
        ];
        let mut found = Vec::new();
        for asked in asked {
            read::one(&self.device, &self.installed, asked, &mut found).unwrap();
        }
        // The entries have no order.
        let rank = |entity: &Entity| match entity {
            Entity::TableEntry(entry) => Some(format!("{:?}", entry.r#match)),
            _ => None,
        };
        found.sort_by_key(|entity| (rank(entity).is_none(), rank(entity)));
        found
    }
}

fn p4info() -> P4Info {
    use crate::proto::info::*;
    let preamble = |id, name: &str| {
        Some(Preamble {
            id,
            name: name.into(),
            ..Default::default()
        })
    };
    let field = |id, name: &str, bitwidth, kind: match_field::MatchType| MatchField {
        id,
        name: name.into(),
        bitwidth,
        r#match: Some(match_field::Match::MatchType(kind as i32)),
        ..Default::default()
    };
    let bits = P4BitstringLikeTypeSpec {
        type_spec: Some(p4_bitstring_like_type_spec::TypeSpec::Bit(P4BitTypeSpec {
            bitwidth: 48,
        })),
        ..Default::default()
    };
    P4Info {
        tables: vec![Table {
            preamble: preamble(TABLE, "ObjectsIngress.flow"),
            match_fields: vec![field(1, "src", 48, match_field::MatchType::Exact)],
            action_refs: vec![ActionRef {
                id: UNKNOWN,
                ..Default::default()
            }],
            size: 1024,
            idle_timeout_behavior: table::IdleTimeoutBehavior::NotifyControl as i32,
            ..Default::default()
        }],
        actions: vec![Action {
            preamble: preamble(UNKNOWN, "ObjectsIngress.unknown"),
            params: Vec::new(),
        }],
        direct_counters: vec![DirectCounter {
            preamble: preamble(9, "ObjectsIngress.flow_counter"),
            direct_table_id: TABLE,
            ..Default::default()
        }],
        registers: vec![Register {
            preamble: preamble(REGISTER, "ObjectsIngress.seen"),
            type_spec: Some(P4DataTypeSpec {
                type_spec: Some(p4_data_type_spec::TypeSpec::Bitstring(bits)),
            }),
            size: 2000,
            ..Default::default()
        }],
        value_sets: vec![ValueSet {
            preamble: preamble(MEMBERS, "ObjectsParser.members"),
            r#match: vec![
                field(1, "type", 16, match_field::MatchType::Exact),
                field(2, "src", 48, match_field::MatchType::Ternary),
                field(3, "dst", 48, match_field::MatchType::Range),
            ],
            size: 4,
        }],
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_batch_is_its_updates_or_nothing(
        batches in prop::collection::vec(prop::collection::vec(change(), 0..6), 1..6)
    ) {
        let (mut together, mut alone) = (Bench::new(), Bench::new());
        let access = Access::default();
        for batch in batches {
            let updates: Vec<_> = batch.iter().map(update).collect();
            let before = together.state();
            let done = all_or_none(&together.device, &mut together.installed, &access, updates.clone());
            if done.iter().all(Result::is_ok) {
                for update in updates {
                    prop_assert!(apply(&alone.device, &mut alone.installed, &access, update).is_ok());
                }
            } else {
                prop_assert_eq!(together.state(), before);
            }
            prop_assert_eq!(together.state(), alone.state());
        }
    }
}
