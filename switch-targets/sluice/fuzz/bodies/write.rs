//! `Write`: what is refused leaves all that `Read` gives as it was, what is accepted is there, and a batch that must be undone is.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prost::Message as _;
use sluice::dataplane::cpu_port::PacketIo;
use sluice::dataplane::plane::{DataPlane, Running};
use sluice::fault::Fault;
use sluice::p4runtime::read;
use sluice::p4runtime::replication::Replication;
use sluice::p4runtime::state::{Device, Installed};
use sluice::p4runtime::write::{batch, everything_of};
use sluice::proto::p4rt::write_request::Atomicity;
use sluice::proto::p4rt::{self, entity::Entity, field_match, table_action, update::Type};
use sluice::schema::Schema;
use sluice::schema::role::Access;
use sluice_pipeline::{ExternRegistry, Outcome};
use tokio::sync::mpsc;

use super::input::Input;
use super::program::damage;
use super::programs::{ALL, Name};
use updates::Client;

mod updates;

const BATCHES: usize = 24;
const BATCH: usize = 6;
/// Cells of a register.
const MANY_CELLS: usize = 64;
const FEW_CELLS: usize = 4;

pub fn write(input: &[u8]) {
    let mut input = Input::new(input);
    let selector = input.byte();
    let name = ALL[usize::from(selector) % ALL.len()];
    let mut bench = Bench::new(name);
    if selector >= 240 {
        if let Ok(request) = p4rt::WriteRequest::decode(input.rest()) {
            bench.batch(request);
        }
        return bench.finish();
    }
    let client = Client::new(&name.loaded().info);
    for _ in 0..BATCHES {
        if input.is_empty() {
            break;
        }
        let how = input.byte();
        let count = match how & 1 {
            0 => 1,
            _ => 1 + input.below(BATCH),
        };
        let state = bench.state(false);
        let updates = (0..count).map(|_| client.update(&mut input, &state));
        let mut request = p4rt::WriteRequest {
            updates: updates.collect(),
            atomicity: i32::from(how >> 1 & 3),
            ..Default::default()
        };
        if how >= 240 {
            let mut encoded = request.encode_to_vec();
            damage(&mut encoded, input.bytes());
            request = match p4rt::WriteRequest::decode(encoded.as_slice()) {
                Ok(request) => request,
                Err(_) => continue,
            };
        }
        bench.batch(request);
    }
    bench.finish();
}

struct Bench {
    device: Device,
    installed: Installed,
}

impl Bench {
    fn new(name: Name) -> Self {
        static IO: OnceLock<Arc<PacketIo>> = OnceLock::new();
        let io = IO.get_or_init(|| Arc::new(PacketIo::new(None).unwrap().0));
        let mut switch = name.switch();
        let schema = Schema::new(&name.loaded().info, switch.program()).unwrap();
        schema.limit_profiles(&mut switch).unwrap();
        let plane = DataPlane::new(mpsc::channel(1).0, Arc::clone(io), 1);
        let running = Running {
            switch,
            digest_ids: schema.digest_ids.clone(),
            packet_in: schema.packet_in.clone(),
        };
        plane.install(running, |_, _| {});
        let installed = Installed {
            schema,
            config: p4rt::ForwardingPipelineConfig::default(),
            notes: Default::default(),
            replication: Replication::default(),
        };
        let device = Device::new(1, Arc::new(plane), ExternRegistry::new());
        Self { device, installed }
    }

    /// Does it, and compares what can be read before and after.
    fn batch(&mut self, request: p4rt::WriteRequest) {
        let p4rt::WriteRequest {
            updates, atomicity, ..
        } = request;
        let is_atomic = atomicity != Atomicity::ContinueOnError as i32;
        let before = self.state(is_atomic);
        let given = updates.clone();
        let access = Access::default();
        let done = batch(
            &self.device,
            &mut self.installed,
            &access,
            atomicity,
            updates,
        );
        let after = self.state(is_atomic);
        let results = match done {
            Ok(results) => results,
            Err(fault) => {
                said(&fault);
                return assert_eq!(before, after, "refused as a whole");
            }
        };
        assert_eq!(results.len(), given.len());
        results
            .iter()
            .filter_map(|it| it.as_ref().err())
            .for_each(said);
        let failed = results.iter().any(Result::is_err);
        if failed && (is_atomic || results.len() == 1) {
            assert_eq!(before, after, "{given:#?}\n{results:#?}");
        }
        if let ([Ok(())], [update]) = (results.as_slice(), given.as_slice()) {
            accepted(update, &before, &after);
        }
    }

    /// The state that a client can read. Without `whole`, it has only the first cells of a register.
    fn state(&self, whole: bool) -> Vec<Entity> {
        let mut asked = vec![
            Entity::TableEntry(everything_of(p4rt::TableEntry::default())),
            Entity::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry::default()),
            Entity::ActionProfileMember(p4rt::ActionProfileMember::default()),
            Entity::ActionProfileGroup(p4rt::ActionProfileGroup::default()),
            Entity::ValueSetEntry(p4rt::ValueSetEntry::default()),
            Entity::DigestEntry(p4rt::DigestEntry::default()),
            Entity::CounterEntry(p4rt::CounterEntry::default()),
            Entity::MeterEntry(p4rt::MeterEntry {
                counter_data: Some(p4rt::MeterCounterData::default()),
                ..Default::default()
            }),
        ];
        for table_id in self.installed.schema.tables.keys() {
            let key = p4rt::TableEntry {
                table_id: *table_id,
                is_default_action: true,
                ..Default::default()
            };
            asked.push(Entity::TableEntry(everything_of(key)));
        }
        for (register_id, register) in &self.installed.schema.registers {
            let most = if whole { MANY_CELLS } else { FEW_CELLS };
            asked.extend((0..register.size.min(most)).map(|cell| {
                let index = Some(p4rt::Index { index: cell as i64 });
                Entity::RegisterEntry(p4rt::RegisterEntry {
                    register_id: *register_id,
                    index,
                    data: None,
                })
            }));
        }
        let mut found = Vec::new();
        for asked in asked {
            let answer = read::one(&self.device, &self.installed, asked, &mut found);
            answer.unwrap();
        }
        found
    }

    /// Checks that writing the state that was read changes nothing, and runs packets.
    fn finish(mut self) {
        let state = self.state(true);
        let updates: Vec<_> = state.iter().filter(|it| is_writable(it)).collect();
        let updates = updates.into_iter().map(|entity| p4rt::Update {
            r#type: Type::Modify as i32,
            entity: Some(p4rt::Entity {
                entity: Some(entity.clone()),
            }),
        });
        let (updates, access) = (updates.collect::<Vec<_>>(), Access::default());
        let atomicity = Atomicity::ContinueOnError as i32;
        let given = updates.clone();
        let done = batch(
            &self.device,
            &mut self.installed,
            &access,
            atomicity,
            updates,
        );
        for (result, update) in done.unwrap().into_iter().zip(given) {
            assert_eq!(result, Ok(()), "{update:#?}");
        }
        assert_eq!(self.state(true), state, "what is read was written");
        let mut running = self.device.plane.lock();
        let switch = &mut running.as_mut().unwrap().switch;
        switch.record_paths(1);
        let mut out = Outcome::new();
        for byte in [0, 1, 2] {
            let frame = [byte; 80];
            for port in [0, 1, 510] {
                switch.process(port, &frame, Duration::from_secs(1), &mut out);
            }
        }
    }
}

fn said(fault: &Fault) {
    assert!(fault.message.len() > 8, "{fault:?}");
    let code = fault.code;
    assert!(
        code != tonic::Code::Ok && code != tonic::Code::Internal && code != tonic::Code::Unknown
    );
}

fn is_writable(entity: &Entity) -> bool {
    match entity {
        Entity::TableEntry(entry) => !entry.is_const,
        _ => true,
    }
}

/// Checks that the change is the one that was asked for.
fn accepted(update: &p4rt::Update, before: &[Entity], after: &[Entity]) {
    let entity = update.entity.as_ref().unwrap().entity.as_ref().unwrap();
    let more = match update.r#type() {
        Type::Insert => 1,
        Type::Delete => -1,
        _ => 0,
    };
    let grown = after.len() as i64 - before.len() as i64;
    assert_eq!(grown, more, "{update:#?}");
    if more == 0 {
        return;
    }
    let (less, more) = if more > 0 {
        (before, after)
    } else {
        (after, before)
    };
    let mut rest = less.iter().peekable();
    let mut found = Vec::new();
    for one in more {
        match rest.next_if_eq(&one) {
            Some(_) => {}
            None => found.push(one),
        }
    }
    // A table's order may change with it.
    found.retain(|it| !less.contains(it));
    let [found] = found.as_slice() else {
        panic!("{update:#?} changed {found:#?}");
    };
    assert_eq!(key(found), key(entity));
    if let (Entity::TableEntry(found), Entity::TableEntry(entry), Type::Insert) =
        (found, entity, update.r#type())
    {
        assert_eq!(action(found), action(entry));
        assert_eq!(found.metadata, entry.metadata);
        assert_eq!(found.idle_timeout_ns, entry.idle_timeout_ns);
        assert_eq!(found.meter_config, entry.meter_config);
        if entry.counter_data.is_some() {
            assert_eq!(found.counter_data, entry.counter_data);
        }
    }
}

/// The entity's key, with values in their shortest form.
fn key(entity: &Entity) -> Entity {
    use p4rt::packet_replication_engine_entry::Type as Engine;
    match entity.clone() {
        Entity::TableEntry(entry) => {
            let mut fields: Vec<_> = entry.r#match.into_iter().map(canonical).collect();
            fields.sort_by_key(|it| it.field_id);
            Entity::TableEntry(p4rt::TableEntry {
                table_id: entry.table_id,
                priority: entry.priority,
                r#match: fields,
                ..Default::default()
            })
        }
        Entity::ActionProfileMember(mut it) => {
            it.action = None;
            Entity::ActionProfileMember(it)
        }
        Entity::ActionProfileGroup(mut it) => {
            (it.members, it.max_size) = Default::default();
            Entity::ActionProfileGroup(it)
        }
        Entity::DigestEntry(mut it) => {
            it.config = None;
            Entity::DigestEntry(it)
        }
        Entity::PacketReplicationEngineEntry(it) => {
            let r#type = it.r#type.map(|engine| match engine {
                Engine::MulticastGroupEntry(it) => {
                    Engine::MulticastGroupEntry(p4rt::MulticastGroupEntry {
                        multicast_group_id: it.multicast_group_id,
                        ..Default::default()
                    })
                }
                Engine::CloneSessionEntry(it) => {
                    Engine::CloneSessionEntry(p4rt::CloneSessionEntry {
                        session_id: it.session_id,
                        ..Default::default()
                    })
                }
            });
            Entity::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry { r#type })
        }
        other => other,
    }
}

fn canonical(field: p4rt::FieldMatch) -> p4rt::FieldMatch {
    use field_match::FieldMatchType as Match;
    let field_match_type = field.field_match_type.map(|it| match it {
        Match::Exact(it) => Match::Exact(field_match::Exact {
            value: shortest(&it.value),
        }),
        Match::Lpm(it) => Match::Lpm(field_match::Lpm {
            value: shortest(&it.value),
            ..it
        }),
        Match::Ternary(it) => Match::Ternary(field_match::Ternary {
            value: shortest(&it.value),
            mask: shortest(&it.mask),
        }),
        Match::Range(it) => Match::Range(field_match::Range {
            low: shortest(&it.low),
            high: shortest(&it.high),
        }),
        Match::Optional(it) => Match::Optional(field_match::Optional {
            value: shortest(&it.value),
        }),
        other => other,
    });
    p4rt::FieldMatch {
        field_match_type,
        ..field
    }
}

fn shortest(value: &[u8]) -> prost::bytes::Bytes {
    let zeros = value.iter().take_while(|byte| **byte == 0).count();
    value[zeros..].to_vec().into()
}

/// The actions of an entry, with values in their shortest form.
fn action(entry: &p4rt::TableEntry) -> Vec<p4rt::Action> {
    let actions = match entry.action.as_ref().and_then(|it| it.r#type.as_ref()) {
        Some(table_action::Type::Action(action)) => vec![action.clone()],
        Some(table_action::Type::ActionProfileActionSet(set)) => {
            let actions = set.action_profile_actions.iter();
            actions.filter_map(|it| it.action.clone()).collect()
        }
        Some(
            table_action::Type::ActionProfileMemberId(id)
            | table_action::Type::ActionProfileGroupId(id),
        ) => {
            let action_id = *id;
            vec![p4rt::Action {
                action_id,
                params: Vec::new(),
            }]
        }
        None => Vec::new(),
    };
    let shown = actions.into_iter().map(|mut action| {
        action.params.sort_by_key(|it| it.param_id);
        for param in &mut action.params {
            param.value = shortest(&param.value);
        }
        action
    });
    shown.collect()
}
