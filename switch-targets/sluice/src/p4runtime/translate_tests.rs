//! P4Runtime section 9.1.1: which match fields are taken, and that they are given back in canonical form.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use sluice_pipeline::{ActionId, MatchKind, TableId};
use tonic::Code;

use crate::p4runtime::translate::{action_call, entry_key, field_matches, table_action};
use crate::proto::info::action_ref::Scope;
use crate::proto::p4rt::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use crate::proto::p4rt::{
    Action as ActionMessage, FieldMatch, TableAction, TableEntry, action::Param as ParamMessage,
    table_action::Type,
};
use crate::schema::sdn::Sdn;
use crate::schema::{Action, Field, Param, Table};

fn table() -> Table {
    let field = |id, name: &str, width, kind| Field {
        id,
        name: name.into(),
        width,
        kind,
        sdn: Sdn::Plain,
    };
    let action = |name: &str, index, scope, params| Action {
        name: name.into(),
        index: ActionId(index),
        scope,
        params,
    };
    let param = |id, name: &str, width| Param {
        id,
        name: name.into(),
        width,
        sdn: Sdn::Plain,
    };
    Table {
        name: "t".into(),
        index: TableId(0),
        fields: vec![
            field(1, "port", 9, MatchKind::Exact),
            field(2, "dst", 32, MatchKind::Lpm),
            field(3, "flags", 12, MatchKind::Ternary),
            field(4, "dport", 16, MatchKind::Range),
            field(5, "vrf", 8, MatchKind::Optional),
        ],
        actions: BTreeMap::from([
            (
                10,
                action(
                    "send",
                    3,
                    Scope::TableAndDefault,
                    vec![param(1, "a", 9), param(2, "b", 48)],
                ),
            ),
            (11, action("miss", 4, Scope::DefaultOnly, vec![])),
            (12, action("hit", 5, Scope::TableOnly, vec![])),
        ]),
        is_const: false,
        const_default: false,
        direct_meter: None,
        profile: None,
        direct_counter: false,
        idle_timeout: false,
        prioritised: true,
    }
}

fn given(field_id: u32, value: FieldMatchType) -> FieldMatch {
    FieldMatch {
        field_id,
        field_match_type: Some(value),
    }
}

fn exact(value: &[u8]) -> FieldMatch {
    given(
        1,
        FieldMatchType::Exact(Exact {
            value: value.to_vec().into(),
        }),
    )
}

fn lpm(value: &[u8], prefix_len: i32) -> FieldMatch {
    given(
        2,
        FieldMatchType::Lpm(Lpm {
            value: value.to_vec().into(),
            prefix_len,
        }),
    )
}

fn ternary(value: &[u8], mask: &[u8]) -> FieldMatch {
    given(
        3,
        FieldMatchType::Ternary(Ternary {
            value: value.to_vec().into(),
            mask: mask.to_vec().into(),
        }),
    )
}

fn range(low: &[u8], high: &[u8]) -> FieldMatch {
    given(
        4,
        FieldMatchType::Range(Range {
            low: low.to_vec().into(),
            high: high.to_vec().into(),
        }),
    )
}

fn entry(matches: &[FieldMatch]) -> TableEntry {
    TableEntry {
        r#match: matches.to_vec(),
        priority: 1,
        ..Default::default()
    }
}

fn refused(matches: &[FieldMatch]) -> String {
    let fault = entry_key(&table(), &entry(matches)).unwrap_err();
    assert_eq!(fault.code, Code::InvalidArgument, "{}", fault.message);
    fault.message
}

#[test]
fn bad_match_fields_are_refused_with_their_place() {
    for (field, reason) in [
        (
            lpm(&[10, 0, 0, 1], 24),
            "field 'dst': bits behind the prefix",
        ),
        (lpm(&[10, 0, 0, 0], 33), "field 'dst': prefix length 33"),
        (lpm(&[10, 0, 0, 0], -1), "field 'dst': prefix length -1"),
        (lpm(&[0], 0), "field 'dst': matches everything"),
        (ternary(&[2], &[1]), "field 'flags': bits outside the mask"),
        (ternary(&[0], &[0]), "field 'flags': matches everything"),
        (
            ternary(&[0x10, 0], &[0x1f, 0xff]),
            "field 'flags': the value does not fit 12 bits",
        ),
        (range(&[2], &[1]), "field 'dport': the low end"),
        (
            range(&[0], &[0xff, 0xff]),
            "field 'dport': matches everything",
        ),
        (range(&[], &[1]), "field 'dport': the value is empty"),
        (
            given(
                4,
                FieldMatchType::Exact(Exact {
                    value: vec![1].into(),
                }),
            ),
            "must be given as Range",
        ),
        (
            FieldMatch {
                field_id: 4,
                field_match_type: None,
            },
            "must be given as Range",
        ),
        (exact(&[1]), "field 'port' is given twice"),
        (
            given(
                9,
                FieldMatchType::Exact(Exact {
                    value: vec![1].into(),
                }),
            ),
            "no match field has the id 9",
        ),
    ] {
        let message = refused(&[exact(&[1]), field]);
        assert!(
            message.starts_with("table 't': ") && message.contains(reason),
            "{message}"
        );
    }
    assert!(refused(&[]).contains("'port' is exact"));
    assert!(refused(&[exact(&[2, 0])]).contains("'port': the value does not fit 9 bits"));
    let without_priority = TableEntry {
        priority: 0,
        ..entry(&[exact(&[1])])
    };
    assert!(
        entry_key(&table(), &without_priority)
            .unwrap_err()
            .message
            .contains("priority 0")
    );
}

#[test]
fn leading_zeros_do_not_make_another_entry() {
    let key = |value: &[u8]| entry_key(&table(), &entry(&[exact(value)])).unwrap();
    assert_eq!(key(&[5]), key(&[0, 0, 5]));
    assert_ne!(key(&[5]), key(&[1, 5]));
}

fn send(params: &[(u32, &[u8])]) -> TableAction {
    let params = params.iter().map(|(id, value)| ParamMessage {
        param_id: *id,
        value: value.to_vec().into(),
    });
    TableAction {
        r#type: Some(Type::Action(ActionMessage {
            action_id: 10,
            params: params.collect(),
        })),
    }
}

#[test]
fn actions_are_checked_and_come_back_in_canonical_form() {
    let call = action_call(&table(), &send(&[(2, &[0, 0, 7]), (1, &[1, 0])]), false).unwrap();
    assert_eq!(
        table_action(&table(), &call),
        Some(send(&[(1, &[1, 0]), (2, &[7])]))
    );
    for (action, reason) in [
        (send(&[(1, &[1])]), "parameter 'b' is missing"),
        (
            send(&[(1, &[1]), (2, &[1]), (3, &[1])]),
            "no parameter has the id 3",
        ),
        (
            send(&[(1, &[1]), (2, &[1]), (2, &[1])]),
            "parameter 'b' is given twice",
        ),
        (
            send(&[(1, &[2, 0]), (2, &[1])]),
            "parameter 'a': the value does not fit 9 bits",
        ),
        (
            TableAction {
                r#type: Some(Type::ActionProfileMemberId(1)),
            },
            "must be a direct one",
        ),
    ] {
        let fault = action_call(&table(), &action, false).unwrap_err();
        assert!(
            fault.code == Code::InvalidArgument && fault.message.contains(reason),
            "{}",
            fault.message
        );
    }
    for (id, is_default) in [(11, false), (12, true)] {
        let action = ActionMessage {
            action_id: id,
            params: Vec::new(),
        };
        let action = TableAction {
            r#type: Some(Type::Action(action)),
        };
        assert_eq!(
            action_call(&table(), &action, is_default).unwrap_err().code,
            Code::PermissionDenied
        );
        assert!(action_call(&table(), &action, !is_default).is_ok());
    }
}

fn canonical(value: u32) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros.min(3)..].to_vec()
}

fn bytes() -> impl Strategy<Value = prost::bytes::Bytes> {
    prop::collection::vec(any::<u8>(), 0..6).prop_map(Into::into)
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        port in 0_u32..512,
        prefix in prop::option::of((any::<u32>(), 1_i32..=32)),
        masked in prop::option::of((0_u32..4096, 1_u32..4096)),
        ends in prop::option::of((any::<u16>(), any::<u16>())),
        vrf in prop::option::of(any::<u8>()),
    ) {
        let mut matches = vec![exact(&canonical(port))];
        matches.extend(prefix.map(|(value, len)| lpm(&canonical(value & (u32::MAX << (32 - len))), len)));
        matches.extend(masked.map(|(value, mask)| ternary(&canonical(value & mask), &canonical(mask))));
        let ends = ends.map(|(a, b)| (u32::from(a.min(b)), u32::from(a.max(b)))).filter(|ends| *ends != (0, 0xffff));
        matches.extend(ends.map(|(low, high)| range(&canonical(low), &canonical(high))));
        matches.extend(vrf.map(|vrf| given(5, FieldMatchType::Optional(Optional { value: vec![vrf].into() }))));
        let key = entry_key(&table(), &entry(&matches)).unwrap();
        prop_assert_eq!(field_matches(&table(), &key.fields), matches);
    }

    #[test]
    fn no_request_panics(
        values in prop::collection::vec((0_u32..7, bytes(), any::<i32>(), 0..5), 0..6),
    ) {
        let matches: Vec<_> = values.into_iter().map(|(id, value, len, kind)| given(id, match kind {
            0 => FieldMatchType::Exact(Exact { value }),
            1 => FieldMatchType::Lpm(Lpm { value, prefix_len: len }),
            2 => FieldMatchType::Ternary(Ternary { mask: value.clone(), value }),
            3 => FieldMatchType::Range(Range { low: value.clone(), high: value }),
            _ => FieldMatchType::Optional(Optional { value }),
        })).collect();
        let _ = entry_key(&table(), &entry(&matches));
    }
}

#[test]
fn a_translated_field_matches_one_value_or_any() {
    let mut table = table();
    for field in &mut table.fields {
        field.sdn = Sdn::Bits(32);
    }
    let ones = [0xff; 4];
    let shown = |fields: Vec<FieldMatch>| {
        let key = entry_key(&table, &entry(&fields)).map_err(|fault| fault.code)?;
        Ok(field_matches(&table, &key.fields))
    };
    let one = vec![
        exact(&[5]),
        lpm(&[10, 0, 0, 1], 32),
        ternary(&[7], &ones),
        range(&[80], &[80]),
    ];
    assert_eq!(shown(one.clone()), Ok(one));
    assert_eq!(shown(vec![exact(&[5])]), Ok(vec![exact(&[5])]));
    assert_eq!(shown(vec![exact(&[2, 0])]), Err(Code::OutOfRange));
    for several in [
        lpm(&[10, 0, 0, 0], 24),
        ternary(&[7], &[0x0f, 0xff]),
        range(&[80], &[90]),
        range(&[0], &ones),
    ] {
        let refused = shown(vec![exact(&[5]), several]);
        assert_eq!(refused, Err(Code::InvalidArgument));
    }
}
