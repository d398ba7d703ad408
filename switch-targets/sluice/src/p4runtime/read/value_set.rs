//! Parser value sets, each with all its members (section 9.6).

use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed, no_program};
use crate::p4runtime::translate::shown_matches;
use crate::proto::p4rt::{self, entity::Entity};

pub fn value_sets(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::ValueSetEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let schema = &installed.schema;
    let sets: Vec<_> = match asked.value_set_id {
        0 => schema.value_sets.iter().map(|(id, it)| (*id, it)).collect(),
        id => vec![(id, schema.value_set(id)?)],
    };
    for (value_set_id, set) in sets {
        let running = device.plane.lock();
        let switch = &running.as_ref().ok_or_else(no_program)?.switch;
        let members = switch.value_set(set.index).to_vec();
        drop(running);
        let shown = |member: &Vec<_>| p4rt::ValueSetMember {
            r#match: shown_matches(&set.fields, member),
        };
        found.push(Entity::ValueSetEntry(p4rt::ValueSetEntry {
            value_set_id,
            members: members.iter().map(shown).collect(),
        }));
    }
    Ok(())
}
