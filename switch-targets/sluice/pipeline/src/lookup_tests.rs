//! Lookups against a naive table: a list of entries, each compared field by field.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use crate::bits::Bits;
use crate::entry::MatchValue;
use crate::pattern::identify;
use crate::spec::{KeySpec, MatchKind};
use crate::tuple_space::TupleSpace;

/// Bits of a key: few, so that entries collide and overlap.
const WIDTH: u32 = 11;

fn matches(value: &MatchValue, key: u128) -> bool {
    match value {
        MatchValue::Exact(value) | MatchValue::Optional(Some(value)) => value.low_u128() == key,
        MatchValue::Optional(None) => true,
        MatchValue::Lpm { value, len } => {
            (value.low_u128() ^ key) >> (WIDTH - u32::from(*len)) == 0
        }
        MatchValue::Ternary { value, mask } => (value.low_u128() ^ key) & mask.low_u128() == 0,
        MatchValue::Range { low, high } => (low.low_u128()..=high.low_u128()).contains(&key),
    }
}

fn bits(value: u128) -> Bits {
    Bits::from_u128(WIDTH, value)
}

fn match_value(kind: MatchKind) -> BoxedStrategy<MatchValue> {
    let small = prop_oneof![0..8_u128, 0..1_u128 << WIDTH];
    let masks = prop_oneof![Just(0), Just(0x7ff), Just(0x7f0), 0..1_u128 << WIDTH];
    match kind {
        MatchKind::Exact => small
            .prop_map(|value| MatchValue::Exact(bits(value)))
            .boxed(),
        MatchKind::Lpm => (small, 0..=WIDTH)
            .prop_map(|(value, len)| {
                let value = bits(value >> (WIDTH - len) << (WIDTH - len));
                MatchValue::Lpm {
                    value,
                    len: len as u16,
                }
            })
            .boxed(),
        MatchKind::Ternary => {
            let ternary = (small, masks).prop_map(|(value, mask)| MatchValue::Ternary {
                value: bits(value & mask),
                mask: bits(mask),
            });
            ternary.boxed()
        }
        MatchKind::Range => {
            let range = (small.clone(), small).prop_map(|(a, b)| MatchValue::Range {
                low: bits(a.min(b)),
                high: bits(a.max(b)),
            });
            range.boxed()
        }
        MatchKind::Optional => prop::option::of(small)
            .prop_map(|value| MatchValue::Optional(value.map(bits)))
            .boxed(),
    }
}

fn is_prioritised(kinds: &[MatchKind]) -> bool {
    kinds
        .iter()
        .any(|kind| !matches!(kind, MatchKind::Exact | MatchKind::Lpm))
}

/// The rank of an entry without a priority among those that match: the length of its prefix.
fn prefix_len(key: &[MatchValue]) -> i32 {
    key.iter()
        .map(|value| match value {
            MatchValue::Lpm { len, .. } => i32::from(*len),
            _ => 0,
        })
        .sum()
}

type Entries = Vec<(Vec<MatchValue>, i32)>;

fn tables() -> impl Strategy<Value = (Vec<MatchKind>, Entries, Vec<Vec<u128>>)> {
    let any_kinds = prop::collection::vec(
        prop::sample::select(vec![
            MatchKind::Exact,
            MatchKind::Ternary,
            MatchKind::Range,
            MatchKind::Optional,
            MatchKind::Lpm,
        ]),
        1..4,
    );
    let kinds = prop_oneof![
        Just(vec![MatchKind::Exact]),
        Just(vec![MatchKind::Exact, MatchKind::Exact]),
        Just(vec![MatchKind::Lpm]),
        Just(vec![MatchKind::Exact, MatchKind::Lpm]),
        any_kinds,
    ];
    kinds.prop_flat_map(|kinds| {
        let key: Vec<_> = kinds.iter().map(|kind| match_value(*kind)).collect();
        let entries = prop::collection::vec((key, 1..6_i32), 0..40);
        let keys = prop::collection::vec(
            prop::collection::vec(prop_oneof![0..8_u128, 0..1_u128 << WIDTH], kinds.len()),
            20,
        );
        (Just(kinds), entries, keys)
    })
}

proptest! {
    #[test]
    fn the_index_finds_what_a_naive_table_finds((kinds, entries, keys) in tables(), keep in prop::collection::vec(any::<bool>(), 40)) {
        let name = |at: usize| format!("field{at}");
        let specs: Vec<_> =
            kinds.iter().enumerate().map(|(at, kind)| KeySpec { name: name(at), width: WIDTH, kind: *kind }).collect();
        let prioritised = is_prioritised(&kinds);
        if !prioritised && kinds.iter().filter(|kind| **kind == MatchKind::Lpm).count() > 1 {
            return Ok(());
        }
        let mut space = TupleSpace::default();
        let mut naive = Vec::new();
        for (row, (key, priority)) in entries.into_iter().enumerate() {
            let identity = identify(&specs, &key, if prioritised { priority } else { 0 }).unwrap();
            if space.find(&identity.pattern, identity.priority).is_none() {
                space.insert(identity.pattern.clone(), identity.priority, row);
                let rank = if prioritised { priority } else { prefix_len(&key) };
                naive.push((row, key, rank, identity));
            }
        }
        naive.retain(|(row, _, _, identity)| {
            let removed = !keep[*row] && space.remove(&identity.pattern, identity.priority) == Some(*row);
            !removed
        });
        for key in keys {
            let packed: Vec<u8> = key.iter().flat_map(|value| bits(*value).bytes().to_vec()).collect();
            let found = space.lookup(&packed, &mut Vec::new());
            let hits = || naive.iter().filter(|(_, values, ..)| values.iter().zip(&key).all(|(value, key)| matches(value, *key)));
            let best = hits().map(|(_, _, rank, _)| *rank).max();
            let best_rows: Vec<_> = hits().filter(|(_, _, rank, _)| Some(*rank) == best).map(|(row, ..)| *row).collect();
            match found {
                Some(row) => prop_assert!(best_rows.contains(&row), "found {row}, best are {best_rows:?}"),
                None => prop_assert!(best_rows.is_empty()),
            }
        }
    }
}
