//! P4Runtime's table entries to the pipeline's and back (P4Runtime 1.5, section 9.1).
//!
//! Byte strings are taken with or without leading zeros and given in their shortest form (section 8.4). A field that a
//! client leaves out matches everything; a client must not spell that out.

use std::collections::BTreeMap;

use prost::bytes::Bytes;
use sluice_pipeline::{ActionCall, Bits, MatchKind, MatchValue};

use crate::fault::Fault;
use crate::proto::p4rt::{
    self, action::Param, field_match, field_match::FieldMatchType, table_action,
};
use crate::schema::sdn::{Sdn, Unknown};
use crate::schema::{Action, Field, Table};

/// The key of an entry in its table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryKey {
    pub fields: Vec<MatchValue>,
    pub priority: i32,
}

/// # Errors
/// `INVALID_ARGUMENT` with the table and field.
pub fn entry_key(table: &Table, entry: &p4rt::TableEntry) -> Result<EntryKey, Fault> {
    let place = |fault: Fault| fault.at(&format!("table '{}'", table.name));
    let fits = match table.prioritised {
        true => entry.priority > 0,
        false => entry.priority == 0,
    };
    if !fits {
        let rule = if table.prioritised {
            "must be greater than 0"
        } else {
            "must be 0: no field is ternary, range or optional"
        };
        return Err(place(Fault::invalid(format!(
            "priority {} {rule}",
            entry.priority
        ))));
    }
    Ok(EntryKey {
        fields: match_values(table, entry)?,
        priority: entry.priority,
    })
}

/// The key without its priority.
///
/// # Errors
/// `INVALID_ARGUMENT` with the table and field.
pub fn match_values(table: &Table, entry: &p4rt::TableEntry) -> Result<Vec<MatchValue>, Fault> {
    let place = |fault: Fault| fault.at(&format!("table '{}'", table.name));
    key_values(&table.fields, &entry.r#match, Unknown::Number).map_err(place)
}

/// The values of a key with these fields: of a table entry, or of a value set's member.
///
/// # Errors
/// As [`Sdn::parse`](crate::schema::sdn::Sdn::parse), with the field.
pub fn key_values(
    key: &[Field],
    matches: &[p4rt::FieldMatch],
    unknown: Unknown,
) -> Result<Vec<MatchValue>, Fault> {
    let mut fields: Vec<_> = key.iter().map(|_| None).collect();
    for given in matches {
        let index = key.iter().position(|field| field.id == given.field_id);
        let index = index.ok_or_else(|| {
            Fault::invalid(format!("no match field has the id {}", given.field_id))
        })?;
        let field = &key[index];
        let value = match_value(field, given.field_match_type.as_ref(), unknown);
        let value = value.map_err(|fault| fault.at(&format!("match field '{}'", field.name)))?;
        if fields[index].replace(value).is_some() {
            return Err(Fault::invalid(format!(
                "match field '{}' is given twice",
                field.name
            )));
        }
    }
    let filled = fields.into_iter().zip(key).map(|(value, field)| {
        value.or_else(|| anything(field)).ok_or_else(|| {
            Fault::invalid(format!(
                "match field '{}' is exact and can't be left out",
                field.name
            ))
        })
    });
    filled.collect()
}

/// An action of this table, for an entry or as its default.
///
/// # Errors
/// `INVALID_ARGUMENT` with the action and parameter, `PERMISSION_DENIED` when the scope forbids it.
pub fn action_call(
    table: &Table,
    action: &p4rt::TableAction,
    is_default: bool,
) -> Result<ActionCall, Fault> {
    let place = |fault: Fault| fault.at(&format!("table '{}'", table.name));
    let Some(table_action::Type::Action(given)) = &action.r#type else {
        return Err(place(Fault::invalid(
            "the action must be a direct one: the table has no action profile",
        )));
    };
    call_of(&table.actions, given, is_default).map_err(place)
}

/// Translates a call of one of `actions`, which are a table's or an action profile's.
///
/// # Errors
/// `INVALID_ARGUMENT` with the action and parameter, `PERMISSION_DENIED` when the scope forbids it.
pub fn call_of(
    actions: &BTreeMap<u32, Action>,
    given: &p4rt::Action,
    is_default: bool,
) -> Result<ActionCall, Fault> {
    use crate::proto::info::action_ref::Scope;
    let known = actions.get(&given.action_id);
    let known = known.ok_or_else(|| {
        Fault::invalid(format!(
            "action id {} is not one of its actions",
            given.action_id
        ))
    })?;
    let place = format!("action '{}'", known.name);
    match (known.scope, is_default) {
        (Scope::DefaultOnly, false) => {
            return Err(Fault::denied("it is for the default entry only").at(&place));
        }
        (Scope::TableOnly, true) => {
            return Err(Fault::denied("it is not for the default entry").at(&place));
        }
        (Scope::GroupAction, _) => {
            return Err(Fault::denied("it is for groups only, as their group_action").at(&place));
        }
        _ => {}
    }
    let args = arguments(known, &given.params).map_err(|fault| fault.at(&place))?;
    Ok(ActionCall {
        action: known.index,
        args,
    })
}

/// The fields that do not match everything.
pub fn field_matches(table: &Table, key: &[MatchValue]) -> Vec<p4rt::FieldMatch> {
    shown_matches(&table.fields, key)
}

/// The fields that do not match everything, of a table entry's key or a value set's member.
pub fn shown_matches(fields: &[Field], key: &[MatchValue]) -> Vec<p4rt::FieldMatch> {
    let given = fields.iter().zip(key).filter_map(|(field, value)| {
        let (width, shown) = (field.width, |value: &Bits| {
            Bytes::from(field.sdn.shown(value))
        });
        let field_match_type = Some(match value {
            value if anything(field).as_ref() == Some(value) => return None,
            MatchValue::Optional(None) => return None,
            MatchValue::Exact(value) => FieldMatchType::Exact(field_match::Exact {
                value: shown(value),
            }),
            MatchValue::Optional(Some(value)) => FieldMatchType::Optional(field_match::Optional {
                value: shown(value),
            }),
            MatchValue::Lpm { value, len } => FieldMatchType::Lpm(field_match::Lpm {
                value: shown(value),
                prefix_len: match &field.sdn {
                    Sdn::Bits(sdn) if u32::from(*len) == width => {
                        i32::try_from(*sdn).unwrap_or(i32::MAX)
                    }
                    _ => i32::from(*len),
                },
            }),
            MatchValue::Ternary { value, mask } => FieldMatchType::Ternary(field_match::Ternary {
                value: shown(value),
                mask: match &field.sdn {
                    Sdn::Bits(sdn) if *mask == Bits::ones(width) => canonical(&Bits::ones(*sdn)),
                    _ => canonical(mask),
                },
            }),
            MatchValue::Range { low, high } => FieldMatchType::Range(field_match::Range {
                low: shown(low),
                high: shown(high),
            }),
        });
        Some(p4rt::FieldMatch {
            field_id: field.id,
            field_match_type,
        })
    });
    given.collect()
}

/// A key as P4Runtime has it: in entries of the program itself an optional field is a ternary one.
pub fn shown_key(table: &Table, key: &[MatchValue]) -> Vec<MatchValue> {
    let shown = |(field, value): (&Field, &MatchValue)| match (field.kind, value) {
        (MatchKind::Optional, MatchValue::Ternary { value, mask }) => {
            MatchValue::Optional((*mask != Bits::zero(field.width)).then(|| value.clone()))
        }
        _ => value.clone(),
    };
    table.fields.iter().zip(key).map(shown).collect()
}

/// `None` for an action that the P4Info does not list for the table.
pub fn table_action(table: &Table, call: &ActionCall) -> Option<p4rt::TableAction> {
    let action = shown_call(&table.actions, call)?;
    Some(p4rt::TableAction {
        r#type: Some(table_action::Type::Action(action)),
    })
}

/// `None` for an action that is not one of these.
pub fn shown_call(actions: &BTreeMap<u32, Action>, call: &ActionCall) -> Option<p4rt::Action> {
    let (action_id, action) = actions
        .iter()
        .find(|(_, action)| action.index == call.action)?;
    let params = action.params.iter().zip(&call.args);
    let params = params
        .map(|(param, value)| Param {
            param_id: param.id,
            value: param.sdn.shown(value).into(),
        })
        .collect();
    Some(p4rt::Action {
        action_id: *action_id,
        params,
    })
}

/// The id of a direct action.
pub fn action_id(action: Option<&p4rt::TableAction>) -> Option<u32> {
    match action?.r#type.as_ref()? {
        table_action::Type::Action(action) => Some(action.action_id),
        _ => None,
    }
}

fn canonical(value: &Bits) -> Bytes {
    value.canonical().to_vec().into()
}

fn arguments(action: &Action, given: &[Param]) -> Result<Vec<Bits>, Fault> {
    if let Some(unknown) = given
        .iter()
        .find(|it| action.params.iter().all(|param| param.id != it.param_id))
    {
        return Err(Fault::invalid(format!(
            "no parameter has the id {}",
            unknown.param_id
        )));
    }
    let argument = |param: &crate::schema::Param| {
        let mut values = given.iter().filter(|it| it.param_id == param.id);
        let place = format!("parameter '{}'", param.name);
        match (values.next(), values.next()) {
            (Some(one), None) => {
                let value = param.sdn.parse(param.width, &one.value, Unknown::Number);
                value.map_err(|fault| fault.at(&place))
            }
            (None, _) => Err(Fault::invalid(format!("{place} is missing"))),
            (Some(_), Some(_)) => Err(Fault::invalid(format!("{place} is given twice"))),
        }
    };
    action.params.iter().map(argument).collect()
}

fn match_value(
    field: &Field,
    given: Option<&FieldMatchType>,
    unknown: Unknown,
) -> Result<MatchValue, Fault> {
    let width = field.width;
    let bits = |bytes: &[u8]| field.sdn.parse(width, bytes, unknown);
    if let (Sdn::Bits(sdn), Some(given)) = (&field.sdn, given) {
        translatable(given, *sdn)?;
    }
    let value = match (field.kind, given) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(it))) => {
            return Ok(MatchValue::Exact(bits(&it.value)?));
        }
        (MatchKind::Optional, Some(FieldMatchType::Optional(it))) => {
            return Ok(MatchValue::Optional(Some(bits(&it.value)?)));
        }
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(it))) => {
            let (value, widest) = (bits(&it.value)?, field.sdn.info_width(width));
            let len = u32::try_from(it.prefix_len)
                .ok()
                .filter(|len| *len <= widest);
            let len = len.ok_or_else(|| {
                Fault::invalid(format!(
                    "prefix length {} is not in 1..{widest}",
                    it.prefix_len
                ))
            })?;
            let len = if len == widest { width } else { len } as u16;
            if value.bytes() != masked(&value, &prefix_mask(width, len)) {
                return Err(Fault::invalid("bits behind the prefix are set"));
            }
            MatchValue::Lpm { value, len }
        }
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(it))) => {
            let value = bits(&it.value)?;
            let mask = match &field.sdn {
                Sdn::Plain => bits(&it.mask)?,
                _ => Bits::ones(width),
            };
            if value.bytes() != masked(&value, &mask) {
                return Err(Fault::invalid("bits outside the mask are set"));
            }
            MatchValue::Ternary { value, mask }
        }
        (MatchKind::Range, Some(FieldMatchType::Range(it))) => {
            let (low, high) = (bits(&it.low)?, bits(&it.high)?);
            if low.bytes() > high.bytes() {
                return Err(Fault::invalid("the low end is above the high end"));
            }
            MatchValue::Range { low, high }
        }
        (kind, _) => return Err(Fault::invalid(format!("must be given as {kind:?}"))),
    };
    match anything(field).as_ref() == Some(&value) {
        true => Err(Fault::invalid(
            "matches everything: leave the field out instead",
        )),
        false => Ok(value),
    }
}

/// A translated field takes one value, or any (section 18.1.3).
fn translatable(given: &FieldMatchType, sdn: u32) -> Result<(), Fault> {
    let is_one = match given {
        FieldMatchType::Lpm(it) => u32::try_from(it.prefix_len) == Ok(sdn),
        FieldMatchType::Ternary(it) => Bits::new(sdn, &it.mask).ok() == Some(Bits::ones(sdn)),
        FieldMatchType::Range(it) => it.low == it.high,
        _ => true,
    };
    is_one.then_some(()).ok_or_else(|| {
        Fault::invalid("its type is translated: it matches one value, or is left out")
    })
}

/// The value that matches everything; an exact field has none.
fn anything(field: &Field) -> Option<MatchValue> {
    let (zero, ones) = (Bits::zero(field.width), Bits::ones(field.width));
    match field.kind {
        MatchKind::Exact => None,
        MatchKind::Lpm => Some(MatchValue::Lpm {
            value: zero,
            len: 0,
        }),
        MatchKind::Ternary => Some(MatchValue::Ternary {
            value: zero.clone(),
            mask: zero,
        }),
        MatchKind::Range => Some(MatchValue::Range {
            low: zero,
            high: ones,
        }),
        MatchKind::Optional => Some(MatchValue::Optional(None)),
    }
}

fn masked(value: &Bits, mask: &Bits) -> Vec<u8> {
    value
        .bytes()
        .iter()
        .zip(mask.bytes())
        .map(|(value, mask)| value & mask)
        .collect()
}

/// The first `len` of `width` bits set.
fn prefix_mask(width: u32, len: u16) -> Bits {
    let padding = (width.div_ceil(8) * 8 - width) as usize;
    let mut bytes = Bits::zero(width).bytes().to_vec();
    for bit in padding..padding + usize::from(len) {
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte |= 0x80 >> (bit % 8);
        }
    }
    Bits::new(width, &bytes).unwrap_or_else(|_| Bits::zero(width))
}
