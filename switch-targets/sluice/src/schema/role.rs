//! Rights of a role (section 5.2): P4Runtime leaves them to client and server, which agree upon these.
//!
//! | who | writes, reads with its role, hears of |
//! |---|---|
//! | the default role | everything |
//! | a role without a config | everything but what is another's |
//! | a role with a `stratum.P4RoleConfig`, the config that finsy ships | the ids that its config lists, but what is another's |
//!
//! An object is another's when the P4Info annotates it `@p4runtime_role("another")`, or another role's config has it exclusively.
//! Multicast groups and clone sessions have no id in the P4Info: they are for roles without a config.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use prost_types::Any;

use crate::proto::info::{P4Info, Preamble};
use crate::proto::p4rt;
use crate::proto::p4rt::{PacketMetadata, entity::Entity};

/// Full name of the config's message.
const CONFIG_TYPE: &str = "stratum.P4RoleConfig";
/// Ids in one config.
const MAX_IDS: usize = 4096;
/// Bytes of a config.
const MAX_BYTES: usize = 65_536;

/// P4Info ids and the role that their annotation names.
pub type Owners = BTreeMap<u32, String>;

#[derive(Clone, PartialEq, Message)]
struct P4RoleConfig {
    #[prost(uint32, repeated, tag = "1")]
    exclusive_p4_ids: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    shared_p4_ids: Vec<u32>,
    #[prost(message, optional, tag = "3")]
    packet_in_filter: Option<PacketMetadata>,
    #[prost(bool, tag = "4")]
    receives_packet_ins: bool,
    #[prost(bool, tag = "5")]
    can_push_pipeline: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RoleConfig {
    /// The config as a client gave it: others are told of it so.
    pub given: Any,
    pub exclusive: BTreeSet<u32>,
    shared: BTreeSet<u32>,
    packet_in_filter: Option<PacketMetadata>,
    receives_packet_ins: bool,
    can_push_pipeline: bool,
}

impl RoleConfig {
    /// # Errors
    /// A text that says what is wrong with it.
    pub fn parse(given: Any) -> Result<Self, String> {
        let name = given.type_url.rsplit('/').next().unwrap_or_default();
        if name != CONFIG_TYPE {
            return Err(format!(
                "a role config of type '{name}' is not known: give a {CONFIG_TYPE}, or none"
            ));
        }
        if given.value.len() > MAX_BYTES {
            return Err(format!("the role config is longer than {MAX_BYTES} bytes"));
        }
        let config = P4RoleConfig::decode(given.value.as_slice())
            .map_err(|error| format!("the role config is not a {CONFIG_TYPE}: {error}"))?;
        if config.exclusive_p4_ids.len() + config.shared_p4_ids.len() > MAX_IDS {
            return Err(format!("the role config lists more than {MAX_IDS} ids"));
        }
        Ok(Self {
            given,
            exclusive: config.exclusive_p4_ids.into_iter().collect(),
            shared: config.shared_p4_ids.into_iter().collect(),
            packet_in_filter: config.packet_in_filter,
            receives_packet_ins: config.receives_packet_ins,
            can_push_pipeline: config.can_push_pipeline,
        })
    }

    /// An id that one of the two has for itself and the other has too.
    pub fn clashes(&self, other: &Self) -> Option<u32> {
        let has =
            |config: &Self, id: &u32| config.exclusive.contains(id) || config.shared.contains(id);
        let own = self.exclusive.iter().find(|id| has(other, id));
        own.or_else(|| other.exclusive.iter().find(|id| has(self, id)))
            .copied()
    }
}

/// Rights of one role, as long as no client bids.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Empty for the default role.
    pub role: String,
    pub config: Option<RoleConfig>,
    /// Ids that other roles have exclusively.
    pub taken: BTreeSet<u32>,
}

impl Access {
    fn is_default(&self) -> bool {
        self.role.is_empty()
    }

    fn owns(&self, owner: Option<&String>) -> bool {
        self.is_default() || owner.is_none_or(|owner| *owner == self.role)
    }

    /// An object of the P4Info.
    pub fn covers(&self, owners: &Owners, id: u32) -> bool {
        let listed = self
            .config
            .as_ref()
            .is_none_or(|it| it.exclusive.contains(&id) || it.shared.contains(&id));
        self.is_default() || (listed && self.owns(owners.get(&id)) && !self.taken.contains(&id))
    }

    pub fn covers_entity(&self, owners: &Owners, entity: &Entity) -> bool {
        match p4_id(entity) {
            Some(id) => self.covers(owners, id),
            None => self.config.is_none(),
        }
    }

    pub fn may_push_pipeline(&self) -> bool {
        self.config.as_ref().is_none_or(|it| it.can_push_pipeline)
    }

    /// `header` is the id of the P4Info's packet_out header, `owner` its annotation.
    pub fn may_send_packets(&self, header: Option<u32>, owner: Option<&String>) -> bool {
        let listed = |config: &RoleConfig| {
            config.receives_packet_ins
                || header
                    .is_some_and(|id| config.exclusive.contains(&id) || config.shared.contains(&id))
        };
        self.owns(owner) && self.config.as_ref().is_none_or(listed)
    }

    /// `owner` is the annotation of the P4Info's packet_in header.
    pub fn hears_packet(&self, packet: &p4rt::PacketIn, owner: Option<&String>) -> bool {
        let passes = |config: &RoleConfig| {
            let filter = config.packet_in_filter.as_ref();
            config.receives_packet_ins
                && filter.is_none_or(|filter| {
                    let value = shortest(&filter.value);
                    packet.metadata.iter().any(|it| {
                        it.metadata_id == filter.metadata_id && shortest(&it.value) == value
                    })
                })
        };
        self.owns(owner) && self.config.as_ref().is_none_or(passes)
    }
}

fn shortest(value: &[u8]) -> &[u8] {
    let zeros = value.iter().take_while(|byte| **byte == 0).count();
    &value[zeros..]
}

/// The object of the P4Info that an entity belongs to.
fn p4_id(entity: &Entity) -> Option<u32> {
    let of_table = |entry: &Option<p4rt::TableEntry>| entry.as_ref().map_or(0, |it| it.table_id);
    Some(match entity {
        Entity::ExternEntry(it) => it.extern_id,
        Entity::TableEntry(it) => it.table_id,
        Entity::ActionProfileMember(it) => it.action_profile_id,
        Entity::ActionProfileGroup(it) => it.action_profile_id,
        Entity::MeterEntry(it) => it.meter_id,
        Entity::DirectMeterEntry(it) => of_table(&it.table_entry),
        Entity::CounterEntry(it) => it.counter_id,
        Entity::DirectCounterEntry(it) => of_table(&it.table_entry),
        Entity::ValueSetEntry(it) => it.value_set_id,
        Entity::RegisterEntry(it) => it.register_id,
        Entity::DigestEntry(it) => it.digest_id,
        Entity::PacketReplicationEngineEntry(_) => return None,
    })
}

/// The objects that the P4Info annotates with a role.
pub fn owners(p4info: &P4Info) -> Owners {
    let mut owners = Owners::new();
    let mut note = |preamble: &Option<Preamble>| {
        if let Some((preamble, owner)) = preamble.as_ref().and_then(|it| Some((it, owner(it)?))) {
            owners.insert(preamble.id, owner);
        }
    };
    p4info.tables.iter().for_each(|it| note(&it.preamble));
    p4info
        .action_profiles
        .iter()
        .for_each(|it| note(&it.preamble));
    p4info.counters.iter().for_each(|it| note(&it.preamble));
    p4info.meters.iter().for_each(|it| note(&it.preamble));
    p4info.value_sets.iter().for_each(|it| note(&it.preamble));
    p4info.registers.iter().for_each(|it| note(&it.preamble));
    p4info.digests.iter().for_each(|it| note(&it.preamble));
    owners
}

/// The role of `@p4runtime_role("…")`.
pub fn owner(preamble: &Preamble) -> Option<String> {
    let inside = |annotation: &String| {
        let quoted = annotation
            .strip_prefix("@p4runtime_role(")?
            .strip_suffix(')')?;
        Some(quoted.trim().trim_matches('"').to_owned())
    };
    preamble.annotations.iter().find_map(inside)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn config(config: &P4RoleConfig) -> RoleConfig {
        let given = Any {
            type_url: format!("type.googleapis.com/{CONFIG_TYPE}"),
            value: config.encode_to_vec(),
        };
        RoleConfig::parse(given).unwrap()
    }

    fn role(name: &str, config: Option<RoleConfig>) -> Access {
        Access {
            role: name.into(),
            config,
            taken: BTreeSet::from([9]),
        }
    }

    #[test]
    fn an_object_is_its_owners_and_the_default_roles() {
        let owners = Owners::from([(1, "guard".to_owned())]);
        let only = |ids: &[u32]| {
            Some(config(&P4RoleConfig {
                shared_p4_ids: ids.to_vec(),
                ..Default::default()
            }))
        };
        for (who, covered) in [
            (role("", None), [true, true, true]),
            (role("guard", None), [true, true, false]),
            (role("other", None), [false, true, false]),
            (role("guard", only(&[1])), [true, false, false]),
            (role("other", only(&[1, 2])), [false, true, false]),
        ] {
            assert_eq!(
                [1, 2, 9].map(|id| who.covers(&owners, id)),
                covered,
                "{who:?}"
            );
        }
    }

    #[test]
    fn packet_ins_are_filtered() {
        let metadata = |value: &[u8]| PacketMetadata {
            metadata_id: 1,
            value: value.to_vec(),
        };
        let packet = p4rt::PacketIn {
            payload: Vec::new(),
            metadata: vec![metadata(&[5])],
        };
        let hears = |receives_packet_ins, filter: Option<&[u8]>| {
            let config = config(&P4RoleConfig {
                receives_packet_ins,
                packet_in_filter: filter.map(metadata),
                ..Default::default()
            });
            role("r", Some(config)).hears_packet(&packet, None)
        };
        assert!(!hears(false, None));
        assert!(hears(true, None));
        assert!(hears(true, Some(&[0, 5])));
        assert!(!hears(true, Some(&[6])));
        assert!(!role("r", None).hears_packet(&packet, Some(&"other".into())));
    }

    #[test]
    fn exclusive_ids_clash_and_shared_ones_do_not() {
        let with = |exclusive: &[u32], shared: &[u32]| {
            config(&P4RoleConfig {
                exclusive_p4_ids: exclusive.to_vec(),
                shared_p4_ids: shared.to_vec(),
                ..Default::default()
            })
        };
        assert_eq!(with(&[1], &[2]).clashes(&with(&[3], &[2])), None);
        assert_eq!(with(&[1], &[2]).clashes(&with(&[2], &[])), Some(2));
        assert_eq!(with(&[1], &[]).clashes(&with(&[1], &[])), Some(1));
    }

    #[test]
    fn configs_of_another_kind_are_refused() {
        for (type_url, value, text) in [
            (
                "type.googleapis.com/p4.v1.Role",
                vec![],
                "type 'p4.v1.Role'",
            ),
            ("stratum.P4RoleConfig", vec![0xff], "is not a stratum"),
        ] {
            let type_url = type_url.to_owned();
            let refusal = RoleConfig::parse(Any { type_url, value }).unwrap_err();
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
