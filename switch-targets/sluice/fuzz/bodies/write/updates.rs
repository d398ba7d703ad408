//! A client's updates, drawn from the P4Info: most are nearly right, and name what few other things there are.

use prost::bytes::Bytes;
use sluice::proto::info::{self, P4Info, match_field};
use sluice::proto::p4rt::{
    self, entity::Entity, field_match, field_match::FieldMatchType, replica::PortKind, table_action,
};

use super::super::input::Input;

pub struct Client<'a> {
    info: &'a P4Info,
    /// Ids of objects of every kind.
    ids: Vec<u32>,
}

impl<'a> Client<'a> {
    pub fn new(info: &'a P4Info) -> Self {
        let mut ids = vec![0, 1, u32::MAX];
        ids.extend(info.tables.iter().map(|it| id(&it.preamble)));
        ids.extend(info.actions.iter().map(|it| id(&it.preamble)));
        ids.extend(info.action_profiles.iter().map(|it| id(&it.preamble)));
        ids.extend(info.counters.iter().map(|it| id(&it.preamble)));
        ids.extend(info.registers.iter().map(|it| id(&it.preamble)));
        ids.extend(info.digests.iter().map(|it| id(&it.preamble)));
        Self { info, ids }
    }

    /// `state`: what there is now.
    pub fn update(&self, input: &mut Input, state: &[Entity]) -> p4rt::Update {
        let how = input.byte();
        let entity = match how >> 2 & 7 {
            0 if !state.is_empty() => state[input.below(state.len())].clone(),
            _ => self.entity(input),
        };
        let entity = (how < 250).then_some(entity);
        p4rt::Update {
            r#type: match how & 3 {
                0 => 1,
                kind if how < 240 => kind.into(),
                _ => i32::from(how & 7),
            },
            entity: (how < 253).then_some(p4rt::Entity { entity }),
        }
    }

    fn entity(&self, input: &mut Input) -> Entity {
        let info = self.info;
        match input.byte() % 20 {
            0..8 => Entity::TableEntry(self.table_entry(input)),
            8 | 9 => Entity::ActionProfileMember(self.member(input)),
            10 | 11 => Entity::ActionProfileGroup(self.group(input)),
            12 => Entity::CounterEntry(p4rt::CounterEntry {
                counter_id: self.id(input, info.counters.iter().map(|it| &it.preamble)),
                index: index(input),
                data: self.counter(input),
            }),
            13 => Entity::DirectCounterEntry(p4rt::DirectCounterEntry {
                table_entry: (!input.rarely(16)).then(|| self.key_only(input)),
                data: self.counter(input),
            }),
            14 => Entity::MeterEntry(p4rt::MeterEntry {
                meter_id: self.id(input, info.meters.iter().map(|it| &it.preamble)),
                index: index(input),
                config: meter_config(input),
                counter_data: counts(input),
            }),
            15 => Entity::DirectMeterEntry(p4rt::DirectMeterEntry {
                table_entry: (!input.rarely(16)).then(|| self.key_only(input)),
                config: meter_config(input),
                counter_data: counts(input),
            }),
            16 => Entity::RegisterEntry(p4rt::RegisterEntry {
                register_id: self.id(input, info.registers.iter().map(|it| &it.preamble)),
                index: index(input),
                data: (!input.rarely(16)).then(|| data(input, 2)),
            }),
            17 => self.value_set(input),
            18 => Entity::DigestEntry(p4rt::DigestEntry {
                digest_id: self.id(input, info.digests.iter().map(|it| &it.preamble)),
                config: (!input.rarely(4)).then(|| p4rt::digest_entry::Config {
                    max_timeout_ns: signed(input),
                    max_list_size: signed(input) as i32,
                    ack_timeout_ns: signed(input),
                }),
            }),
            _ => replication(input),
        }
    }

    fn id<'b>(
        &self,
        input: &mut Input,
        of: impl Iterator<Item = &'b Option<info::Preamble>>,
    ) -> u32 {
        let own: Vec<u32> = of.map(id).collect();
        match own.is_empty() || input.rarely(32) {
            true => *input.one(&self.ids),
            false => *input.one(&own),
        }
    }

    fn key_only(&self, input: &mut Input) -> p4rt::TableEntry {
        let entry = self.table_entry(input);
        match input.rarely(16) {
            true => entry,
            false => p4rt::TableEntry {
                table_id: entry.table_id,
                r#match: entry.r#match,
                priority: entry.priority,
                is_default_action: entry.is_default_action,
                ..Default::default()
            },
        }
    }

    fn table_entry(&self, input: &mut Input) -> p4rt::TableEntry {
        let tables = &self.info.tables;
        let table_id = self.id(input, tables.iter().map(|it| &it.preamble));
        let table = tables.iter().find(|it| id(&it.preamble) == table_id);
        let Some(table) = table else {
            return p4rt::TableEntry {
                table_id,
                ..Default::default()
            };
        };
        let extras = input.byte();
        let mut fields: Vec<_> = table
            .match_fields
            .iter()
            .filter_map(|field| self.field(input, field))
            .collect();
        if extras >= 0xfc && !fields.is_empty() {
            fields.push(fields[0].clone());
        }
        let prioritised = table.match_fields.iter().any(|it| {
            use match_field::MatchType;
            let kinds = [MatchType::Ternary, MatchType::Range, MatchType::Optional];
            kinds.contains(&match_type(it))
        });
        let is_default_action = extras & 0x0f == 0x0f;
        if is_default_action && extras & 0x10 == 0 {
            fields.clear();
        }
        let wrong = input.rarely(32);
        #[allow(deprecated)]
        p4rt::TableEntry {
            table_id,
            priority: match (prioritised && !is_default_action) != wrong {
                true => [1, 2, 3, i32::MAX][input.below(4)],
                false => 0,
            },
            r#match: fields,
            action: (!input.rarely(16)).then(|| self.table_action(input, table)),
            is_default_action,
            controller_metadata: u64::from(extras >> 5 == 1),
            metadata: match extras >> 5 {
                2 => input.bytes().to_vec(),
                3 if input.rarely(4) => vec![1; 1025],
                _ => Vec::new(),
            },
            counter_data: (extras >> 5 == 4).then(|| self.counter(input)).flatten(),
            meter_config: (extras >> 5 == 5).then(|| meter_config(input)).flatten(),
            idle_timeout_ns: if extras >> 5 == 6 { signed(input) } else { 0 },
            meter_counter_data: (extras == 0xe0).then(|| counts(input)).flatten(),
            time_since_last_hit: (extras == 0xe1).then(Default::default),
            is_const: extras == 0xe2,
        }
    }

    fn field(&self, input: &mut Input, field: &info::MatchField) -> Option<p4rt::FieldMatch> {
        use match_field::MatchType;
        let how = input.byte();
        let kind = match how >= 250 {
            true => [MatchType::Exact, MatchType::Lpm, MatchType::Ternary][usize::from(how % 3)],
            false => match_type(field),
        };
        if how & 3 == 3 && kind != MatchType::Exact || how == 249 {
            return None;
        }
        let width = field.bitwidth.unsigned_abs();
        let given = match kind {
            MatchType::Lpm => {
                let len = [width, 8, 1, width.saturating_sub(1), 0, how.into()];
                let len = len[input.below(6)];
                FieldMatchType::Lpm(field_match::Lpm {
                    value: match input.rarely(16) {
                        true => value(input, width),
                        false => masked(&[0xff; 70], width, len),
                    },
                    prefix_len: len as i32,
                })
            }
            MatchType::Ternary => {
                let (value, mask) = (value(input, width), value(input, width));
                let value = match input.rarely(16) || value.len() != mask.len() {
                    true => value,
                    false => value.iter().zip(&mask).map(|(a, b)| a & b).collect(),
                };
                FieldMatchType::Ternary(field_match::Ternary { value, mask })
            }
            MatchType::Range => {
                let (low, high) = (value(input, width), value(input, width));
                FieldMatchType::Range(field_match::Range { low, high })
            }
            MatchType::Optional => FieldMatchType::Optional(field_match::Optional {
                value: value(input, width),
            }),
            _ => FieldMatchType::Exact(field_match::Exact {
                value: value(input, width),
            }),
        };
        Some(p4rt::FieldMatch {
            field_id: if how == 248 { 77 } else { field.id },
            field_match_type: (how != 247).then_some(given),
        })
    }

    fn table_action(&self, input: &mut Input, table: &info::Table) -> p4rt::TableAction {
        use table_action::Type;
        let kind = match (table.implementation_id, input.byte()) {
            (0, 252..) | (1.., 0..252) => input.byte() % 4,
            _ => 3,
        };
        let refs: Vec<u32> = table.action_refs.iter().map(|it| it.id).collect();
        let r#type = match kind {
            0 => Type::ActionProfileMemberId(input.below(6) as u32),
            1 => Type::ActionProfileGroupId(input.below(6) as u32),
            2 => {
                let count = input.below(5);
                let one = |_| self.weighted(input, &refs);
                let set = p4rt::ActionProfileActionSet {
                    action_profile_actions: (0..count).map(one).collect(),
                    ..Default::default()
                };
                Type::ActionProfileActionSet(set)
            }
            _ => Type::Action(self.action(input, &refs)),
        };
        p4rt::TableAction {
            r#type: (!input.rarely(64)).then_some(r#type),
        }
    }

    fn weighted(&self, input: &mut Input, refs: &[u32]) -> p4rt::ActionProfileAction {
        p4rt::ActionProfileAction {
            action: (!input.rarely(32)).then(|| self.action(input, refs)),
            weight: weight(input),
            watch_kind: None,
        }
    }

    fn action(&self, input: &mut Input, refs: &[u32]) -> p4rt::Action {
        let action_id = match refs.is_empty() || input.rarely(32) {
            true => *input.one(&self.ids),
            false => *input.one(refs),
        };
        let action = self.info.actions.iter();
        let action = action.clone().find(|it| id(&it.preamble) == action_id);
        let mut params = Vec::new();
        for param in action.iter().flat_map(|it| &it.params) {
            let how = input.byte();
            if how < 250 {
                params.push(p4rt::action::Param {
                    param_id: if how == 249 { 99 } else { param.id },
                    value: value(input, param.bitwidth.unsigned_abs()),
                });
            }
        }
        p4rt::Action { action_id, params }
    }

    fn profile(&self, input: &mut Input) -> (u32, Vec<u32>) {
        let profiles = &self.info.action_profiles;
        let profile_id = self.id(input, profiles.iter().map(|it| &it.preamble));
        let tables = self.info.tables.iter();
        let users = tables.filter(|it| it.implementation_id == profile_id);
        let refs = users.flat_map(|it| it.action_refs.iter().map(|it| it.id));
        (profile_id, refs.collect())
    }

    fn member(&self, input: &mut Input) -> p4rt::ActionProfileMember {
        let (action_profile_id, refs) = self.profile(input);
        p4rt::ActionProfileMember {
            action_profile_id,
            member_id: small_id(input),
            action: (!input.rarely(16)).then(|| self.action(input, &refs)),
        }
    }

    fn group(&self, input: &mut Input) -> p4rt::ActionProfileGroup {
        use p4rt::action_profile_group::{Member, member::WatchKind};
        let (action_profile_id, _) = self.profile(input);
        let count = input.below(6);
        let member = |_| Member {
            member_id: small_id(input),
            weight: weight(input),
            watch_kind: input.rarely(32).then(|| WatchKind::WatchPort(vec![1])),
        };
        p4rt::ActionProfileGroup {
            action_profile_id,
            members: (0..count).map(member).collect(),
            group_id: small_id(input),
            max_size: [0, 0, 4, 8, 9, -1][input.below(6)],
        }
    }

    fn value_set(&self, input: &mut Input) -> Entity {
        let sets = &self.info.value_sets;
        let value_set_id = self.id(input, sets.iter().map(|it| &it.preamble));
        let set = sets.iter().find(|it| id(&it.preamble) == value_set_id);
        let fields = set.map_or(&[][..], |it| it.r#match.as_slice());
        let count = input.below(6);
        let member = |_| p4rt::ValueSetMember {
            r#match: (fields.iter())
                .filter_map(|field| self.field(input, field))
                .collect(),
        };
        Entity::ValueSetEntry(p4rt::ValueSetEntry {
            value_set_id,
            members: (0..count).map(member).collect(),
        })
    }

    fn counter(&self, input: &mut Input) -> Option<p4rt::CounterData> {
        (!input.rarely(8)).then(|| p4rt::CounterData {
            byte_count: signed(input),
            packet_count: signed(input),
        })
    }
}

fn id(preamble: &Option<info::Preamble>) -> u32 {
    preamble.as_ref().map_or(0, |it| it.id)
}

fn match_type(field: &info::MatchField) -> match_field::MatchType {
    match field.r#match {
        Some(match_field::Match::MatchType(number)) => number.try_into().unwrap(),
        _ => match_field::MatchType::Unspecified,
    }
}

fn small_id(input: &mut Input) -> u32 {
    match input.rarely(64) {
        true => input.number() as u32,
        false => input.below(6) as u32,
    }
}

fn weight(input: &mut Input) -> i32 {
    [1, 1, 1, 2, 3, 0, -1, i32::MAX][input.below(8)]
}

/// Mostly small.
fn signed(input: &mut Input) -> i64 {
    match input.byte() {
        253 => -1,
        254 => i64::MAX,
        255 => input.number() as i64,
        small => small.into(),
    }
}

/// A value of a type with so many bits, or a name of such a type.
fn value(input: &mut Input, width: u32) -> Bytes {
    let how = input.byte();
    let value = match how {
        0..200 => vec![how % 4],
        200..215 => masked(&[0xff; 70], width, width).to_vec(),
        215..225 => vec![0, 0, how],
        225 => Vec::new(),
        226..230 => vec![1; width.div_ceil(8) as usize + 1],
        230..240 => vec![how; width.div_ceil(8) as usize],
        240..245 => b"name".to_vec(),
        _ => input.bytes().to_vec(),
    };
    value.into()
}

/// The first `len` of the bits of a number with `width` bits, the others 0.
fn masked(bits: &[u8], width: u32, len: u32) -> Bytes {
    let bytes = width.div_ceil(8) as usize;
    let padding = bytes * 8 - width as usize;
    let kept = padding..padding + len as usize;
    let byte = |at: usize| {
        let bit = |bit: usize| match kept.contains(&(at * 8 + bit)) {
            true => bits[at % bits.len()] & 0x80 >> bit,
            false => 0,
        };
        (0..8).map(bit).fold(0, |byte, bit| byte | bit)
    };
    (0..bytes).map(byte).collect()
}

fn index(input: &mut Input) -> Option<p4rt::Index> {
    let index = match input.byte() {
        0..200 => input.below(4) as i64,
        200..220 => return None,
        _ => signed(input),
    };
    Some(p4rt::Index { index })
}

fn meter_config(input: &mut Input) -> Option<p4rt::MeterConfig> {
    let how = input.byte();
    let (cir, cburst) = (signed(input), signed(input));
    (how < 240).then(|| p4rt::MeterConfig {
        cir,
        cburst,
        pir: if how & 1 == 0 { cir } else { signed(input) },
        pburst: if how & 1 == 0 { cburst } else { signed(input) },
        eburst: if how & 2 == 0 { 0 } else { signed(input) },
    })
}

fn counts(input: &mut Input) -> Option<p4rt::MeterCounterData> {
    let how = input.byte();
    (how & 3 == 0).then(|| p4rt::MeterCounterData {
        green: (how & 4 == 0).then(|| p4rt::CounterData {
            packet_count: i64::from(how >> 7),
            byte_count: 0,
        }),
        ..Default::default()
    })
}

fn data(input: &mut Input, depth: u32) -> p4rt::P4Data {
    use p4rt::p4_data::Data;
    let data = match input.byte() {
        0..200 => Data::Bitstring(value(input, 48).to_vec()),
        200..210 => Data::Bool(true),
        210..220 => Data::Varbit(p4rt::P4Varbit {
            bitstring: value(input, 16).to_vec(),
            bitwidth: 16,
        }),
        220..230 => Data::Enum("a".into()),
        230..240 if depth > 0 => Data::Tuple(p4rt::P4StructLike {
            members: vec![data(input, depth - 1), data(input, depth - 1)],
        }),
        240..245 if depth > 0 => Data::Struct(p4rt::P4StructLike {
            members: vec![data(input, depth - 1)],
        }),
        _ => return p4rt::P4Data { data: None },
    };
    p4rt::P4Data { data: Some(data) }
}

fn replication(input: &mut Input) -> Entity {
    use p4rt::packet_replication_engine_entry::Type as Engine;
    let kind = input.byte();
    let count = match kind >= 250 {
        true => 1030,
        false => usize::from(kind >> 2 & 7),
    };
    let replica = |at: usize| {
        let port_kind = match input.byte() {
            255 => None,
            254 => Some(PortKind::Port(input.bytes().to_vec())),
            #[allow(deprecated)]
            253 => Some(PortKind::EgressPort(signed(input) as u32)),
            port => Some(PortKind::Port(vec![port % 8])),
        };
        p4rt::Replica {
            instance: if kind & 64 == 0 {
                at as u32
            } else {
                small_id(input)
            },
            port_kind,
            ..Default::default()
        }
    };
    let replicas = (0..count).map(replica).collect();
    let r#type = match kind & 3 {
        3 if kind > 128 => None,
        0 | 1 => Some(Engine::MulticastGroupEntry(p4rt::MulticastGroupEntry {
            multicast_group_id: small_id(input),
            replicas,
            metadata: if kind & 128 == 0 {
                Vec::new()
            } else {
                input.bytes().to_vec()
            },
        })),
        _ => Some(Engine::CloneSessionEntry(p4rt::CloneSessionEntry {
            session_id: small_id(input),
            replicas,
            class_of_service: u32::from(kind & 0x80 != 0) * small_id(input),
            packet_length_bytes: signed(input) as i32,
        })),
    };
    Entity::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry { r#type })
}
