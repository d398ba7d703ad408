//! `RECONCILE_AND_COMMIT` (section 14) gives the next program the entries of the running one, as updates.
//!
//! ```text
//!   read everything ─► ids of the same names ─► write into the program beside ─► swap, counters and registers come along
//!                          │ differs, or is gone        │ refused
//!                          └────────────────────────────┴──► nothing has changed
//! ```
//! Objects are the same when their kind and name are, and tables their match fields, actions their parameters. Entries that no client
//! wrote (constant entries, defaults as the old program set them) are the new program's.

use std::collections::BTreeMap;

use tonic::Code;

use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed, Saved};
use crate::p4runtime::write::{everything_of, perform};
use crate::p4runtime::{read, translate};
use crate::proto::info::{MatchField, P4Info, Preamble, match_field};
use crate::proto::p4rt::{self, entity::Entity, table_action, update::Type};

/// The entities to keep, in the order in which they can be written. An entity of another kind is kept once it is here.
fn entities_to_keep(old: &Installed) -> Vec<Entity> {
    let mut asked = vec![
        Entity::ActionProfileMember(p4rt::ActionProfileMember::default()),
        Entity::ActionProfileGroup(p4rt::ActionProfileGroup::default()),
    ];
    for table_id in old.schema.tables.keys().copied() {
        let of = |is_default_action| {
            let key = p4rt::TableEntry {
                table_id,
                is_default_action,
                ..Default::default()
            };
            Entity::TableEntry(everything_of(key))
        };
        asked.extend([of(false), of(true)]);
    }
    asked.extend([
        Entity::MeterEntry(p4rt::MeterEntry::default()),
        Entity::ValueSetEntry(p4rt::ValueSetEntry::default()),
        Entity::DigestEntry(p4rt::DigestEntry::default()),
        Entity::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry::default()),
    ]);
    asked
}

/// Writes what the running program holds into the one beside it.
///
/// # Errors
/// `INVALID_ARGUMENT` with the first entity that does not fit. The running program is then unchanged; discard the new one.
pub fn carry_entities(device: &Device, old: &Installed, new: &mut Saved) -> Result<(), Fault> {
    let renaming = Renaming::new(old, &new.installed);
    new.installed.schema.types.adopt(&old.schema.types);
    for asked in entities_to_keep(old) {
        for entity in written(device, old, asked)? {
            let misfit = |fault: Fault| {
                let text = format!(
                    "the running program's entries do not fit: {}",
                    fault.message
                );
                Fault::invalid(text)
            };
            let entity = renaming.entity(entity).map_err(misfit)?;
            write(new, entity).map_err(misfit)?;
        }
    }
    Ok(())
}

/// All that clients have written, in the order in which [`write()`] takes it.
///
/// # Errors
/// The program is gone.
pub fn all_written(device: &Device, installed: &Installed) -> Result<Vec<Entity>, Fault> {
    let kinds = entities_to_keep(installed).into_iter();
    let found: Result<Vec<_>, _> = kinds
        .map(|asked| written(device, installed, asked))
        .collect();
    Ok(found?.into_iter().flatten().collect())
}

fn written(device: &Device, installed: &Installed, asked: Entity) -> Result<Vec<Entity>, Fault> {
    let mut found = Vec::new();
    read::one(device, installed, asked, &mut found)?;
    found.retain(|entity| !is_of_program(device, installed, entity));
    Ok(found)
}

/// Writes an entity that has been read from another program or process.
///
/// # Errors
/// As for a client's write.
pub fn write(new: &mut Saved, entity: Entity) -> Result<(), Fault> {
    let update = |kind: Type| p4rt::Update {
        r#type: kind as i32,
        entity: Some(p4rt::Entity {
            entity: Some(entity.clone()),
        }),
    };
    let kind = match &entity {
        Entity::TableEntry(entry) if entry.is_default_action => Type::Modify,
        Entity::MeterEntry(_) | Entity::ValueSetEntry(_) => Type::Modify,
        _ => Type::Insert,
    };
    match perform(&new.device, &mut new.installed, update(kind)) {
        // The new program brings an entry of the same key.
        Err(fault) if fault.code == Code::AlreadyExists => {
            perform(&new.device, &mut new.installed, update(Type::Modify))
        }
        done => done,
    }
}

/// An entity that no client has written.
fn is_of_program(device: &Device, old: &Installed, entity: &Entity) -> bool {
    let entry = match entity {
        Entity::TableEntry(entry) => entry,
        Entity::ValueSetEntry(set) => return set.members.is_empty(),
        _ => return false,
    };
    if entry.is_const || !entry.is_default_action {
        return entry.is_const;
    }
    let (running, table) = (device.plane.lock(), old.schema.table(entry.table_id));
    let (Some(running), Ok(table)) = (running.as_ref(), table) else {
        return false;
    };
    let program = running.switch.program().tables()[table.index.0]
        .default
        .as_ref();
    let own = program.and_then(|default| {
        let (action, args) = (default.action, default.args.clone());
        translate::table_action(table, &sluice_pipeline::ActionCall { action, args })
    });
    #[allow(deprecated, reason = "older clients use controller_metadata")]
    let has_metadata = entry.controller_metadata != 0 || !entry.metadata.is_empty();
    own == entry.action && !has_metadata
}

/// Ids of one P4Info to those of another.
struct Renaming {
    /// The other P4Info's id, or the reason why there is none.
    ids: BTreeMap<u32, Result<u32, String>>,
    /// Match fields by table, parameters by action.
    parts: BTreeMap<(u32, u32), u32>,
}

/// The parts of an object that must be equal for two objects to be the same.
#[derive(Default)]
struct Object {
    id: u32,
    /// Match fields or parameters: name, and shape.
    parts: BTreeMap<String, (FieldShape, u32)>,
    /// Widths of a digest's data.
    widths: Vec<u32>,
}

/// Bits, and how it is matched.
type FieldShape = (i32, Option<match_field::Match>);

impl Renaming {
    fn new(old: &Installed, new: &Installed) -> Self {
        let (mut ids, mut parts) = (BTreeMap::new(), BTreeMap::new());
        let mut others = objects(new);
        for ((kind, name), old) in objects(old) {
            let to = others.remove(&(kind, name.clone()));
            let to = to.ok_or_else(|| format!("the new program has no {kind} '{name}'"));
            let same = to.and_then(|new| match difference(&old, &new) {
                Some(difference) => Err(format!("{kind} '{name}': {difference}")),
                None => Ok(new),
            });
            if let Ok(new) = &same {
                for (part, (_, id)) in &old.parts {
                    if let Some((_, to)) = new.parts.get(part) {
                        parts.insert((old.id, *id), *to);
                    }
                }
            }
            ids.insert(old.id, same.map(|new| new.id));
        }
        Self { ids, parts }
    }

    fn id(&self, id: &mut u32) -> Result<(), Fault> {
        *id = match self.ids.get(id) {
            Some(Ok(to)) => *to,
            Some(Err(why)) => return Err(Fault::invalid(why)),
            None => return Err(Fault::invalid(format!("id {id} is not in the P4Info"))),
        };
        Ok(())
    }

    fn part(&self, of: u32, id: &mut u32) {
        if let Some(to) = self.parts.get(&(of, *id)) {
            *id = *to;
        }
    }

    fn action(&self, action: &mut p4rt::Action) -> Result<(), Fault> {
        let of = action.action_id;
        let params = action.params.iter_mut();
        params.for_each(|param| self.part(of, &mut param.param_id));
        self.id(&mut action.action_id)
    }

    fn table_action(&self, action: &mut p4rt::TableAction) -> Result<(), Fault> {
        match &mut action.r#type {
            Some(table_action::Type::Action(action)) => self.action(action),
            Some(table_action::Type::ActionProfileActionSet(set)) => {
                let actions = set.action_profile_actions.iter_mut();
                let mut actions = actions.filter_map(|it| it.action.as_mut());
                actions.try_for_each(|action| self.action(action))
            }
            _ => Ok(()),
        }
    }

    fn entity(&self, mut entity: Entity) -> Result<Entity, Fault> {
        match &mut entity {
            Entity::TableEntry(it) => {
                let of = it.table_id;
                let fields = it.r#match.iter_mut();
                fields.for_each(|field| self.part(of, &mut field.field_id));
                self.id(&mut it.table_id)?;
                if let Some(action) = &mut it.action {
                    self.table_action(action)?;
                }
                it.time_since_last_hit = None;
            }
            Entity::ActionProfileMember(it) => {
                self.id(&mut it.action_profile_id)?;
                if let Some(action) = &mut it.action {
                    self.action(action)?;
                }
            }
            Entity::ActionProfileGroup(it) => self.id(&mut it.action_profile_id)?,
            Entity::MeterEntry(it) => self.id(&mut it.meter_id)?,
            Entity::ValueSetEntry(it) => {
                let fields = it.members.iter_mut().flat_map(|it| &mut it.r#match);
                fields.for_each(|field| self.part(it.value_set_id, &mut field.field_id));
                self.id(&mut it.value_set_id)?;
            }
            Entity::DigestEntry(it) => self.id(&mut it.digest_id)?,
            _ => {}
        }
        Ok(entity)
    }
}

fn difference(old: &Object, new: &Object) -> Option<String> {
    for (name, (shape, _)) in &old.parts {
        match new.parts.get(name) {
            Some((other, _)) if other == shape => {}
            Some(_) => return Some(format!("'{name}' has another width or match kind")),
            None => return Some(format!("the new one has no '{name}'")),
        }
    }
    if let Some(name) = new.parts.keys().find(|name| !old.parts.contains_key(*name)) {
        return Some(format!("the old one has no '{name}'"));
    }
    (old.widths != new.widths).then(|| "its data has another shape".to_owned())
}

/// The objects of the P4Info, by kind and name.
fn objects(installed: &Installed) -> BTreeMap<(&'static str, String), Object> {
    let empty = P4Info::default();
    let info = installed.config.p4info.as_ref().unwrap_or(&empty);
    let mut objects = BTreeMap::new();
    let fields = |fields: &[MatchField]| {
        let fields = fields.iter();
        fields
            .map(|it| (it.name.clone(), ((it.bitwidth, it.r#match.clone()), it.id)))
            .collect()
    };
    let mut add = |kind, preamble: &Option<Preamble>, object: Object| {
        if let Some(Preamble { id, name, .. }) = preamble {
            objects.insert((kind, name.clone()), Object { id: *id, ..object });
        }
    };
    for table in &info.tables {
        let object = Object {
            parts: fields(&table.match_fields),
            ..Object::default()
        };
        add("table", &table.preamble, object);
    }
    for action in &info.actions {
        let params = action.params.iter();
        let parts = params
            .map(|it| (it.name.clone(), ((it.bitwidth, None), it.id)))
            .collect();
        let object = Object {
            parts,
            ..Object::default()
        };
        add("action", &action.preamble, object);
    }
    for digest in &info.digests {
        let id = digest.preamble.as_ref().map_or(0, |it| it.id);
        let known = installed.schema.digests.get(&id);
        let object = Object {
            widths: known.map_or_else(Vec::new, |it| it.shape.widths()),
            ..Object::default()
        };
        add("digest", &digest.preamble, object);
    }
    for it in &info.action_profiles {
        add("action profile", &it.preamble, Object::default());
    }
    for it in &info.meters {
        add("meter", &it.preamble, Object::default());
    }
    for it in &info.value_sets {
        let object = Object {
            parts: fields(&it.r#match),
            ..Object::default()
        };
        add("value set", &it.preamble, object);
    }
    objects
}
