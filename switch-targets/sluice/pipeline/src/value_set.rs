//! A parser value set: members that a select key is compared with, one by one and in no order.

use crate::entry::MatchValue;
use crate::error::TableError;
use crate::pattern;
use crate::spec::{KeySpec, MatchKind, ValueSetSpec};
use crate::tuple_space::Pattern;

/// Values of the key's fields.
pub type Member = Vec<MatchValue>;

#[derive(Debug, Default)]
pub struct ValueSet {
    members: Vec<Member>,
    patterns: Vec<Pattern>,
}

impl ValueSet {
    /// # Errors
    /// `Full`, or `BadKey` for members that are not of the set's widths.
    pub fn new(spec: &ValueSetSpec, members: Vec<Member>) -> Result<ValueSet, TableError> {
        if members.len() > spec.size {
            return Err(TableError::Full { size: spec.size });
        }
        let patterns = members
            .iter()
            .map(|member| pattern_of(spec, member))
            .collect::<Result<_, _>>()?;
        Ok(ValueSet { members, patterns })
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn into_members(self) -> Vec<Member> {
        self.members
    }

    /// Returns whether a member matches the packed key. With a mask, its bits alone count.
    pub fn matches(&self, key: &[u8], mask: Option<&[u8]>) -> bool {
        self.patterns.iter().any(|pattern| {
            let pairs = key.iter().zip(&pattern.value).zip(&pattern.mask);
            pairs.enumerate().all(|(at, ((key, value), own))| {
                let mask = mask.and_then(|mask| mask.get(at)).unwrap_or(&0xff);
                (key ^ value) & own & mask == 0
            }) && pattern.ranges.iter().all(|range| range.holds(key))
        })
    }
}

/// Members need no priority, whatever their match kinds.
fn pattern_of(spec: &ValueSetSpec, member: &[MatchValue]) -> Result<Pattern, TableError> {
    let kind = |value: &MatchValue| match value {
        MatchValue::Exact(_) => MatchKind::Exact,
        MatchValue::Lpm { .. } => MatchKind::Lpm,
        MatchValue::Ternary { .. } => MatchKind::Ternary,
        MatchValue::Range { .. } => MatchKind::Range,
        MatchValue::Optional(_) => MatchKind::Optional,
    };
    let key = member.iter().zip(&spec.widths).enumerate();
    let key: Vec<_> = key
        .map(|(at, (value, width))| KeySpec {
            name: at.to_string(),
            width: *width,
            kind: kind(value),
        })
        .collect();
    if member.len() != spec.widths.len() {
        return Err(TableError::BadKeyLength {
            got: member.len(),
            expected: spec.widths.len(),
        });
    }
    Ok(pattern::pack(&key, member)?.0)
}
