//! Entries and default actions that the program fixes.

use crate::bits::{Bits, byte_len};
use crate::entry::{ActionCall, Entry, MatchValue};
use crate::error::LoadError;
use crate::load::control::Pipeline;
use crate::load::json::Node;
use crate::load::reference::constant_bytes;
use crate::pattern;
use crate::spec::{ActionId, DefaultSpec, KeySpec, MatchKind};

impl Pipeline<'_> {
    pub fn action_call(&self, node: &Node) -> Result<ActionCall, LoadError> {
        let action = self.action_id(&node.get("action_id")?)?;
        let params = &self.actions.specs[action].params;
        let data = node.list("action_data")?;
        if data.len() != params.len() {
            return Err(node.error(format!("the action has {} parameters", params.len())));
        }
        let args = data
            .iter()
            .zip(params)
            .map(|(value, param)| bits(value, param.width));
        Ok(ActionCall {
            action: ActionId(action),
            args: args.collect::<Result<_, _>>()?,
        })
    }

    pub fn default(&self, node: &Node) -> Result<DefaultSpec, LoadError> {
        let call = self.action_call(node)?;
        let is_const = node.flag("action_const")?;
        Ok(DefaultSpec {
            action: call.action,
            args: call.args,
            is_const,
        })
    }

    pub fn entry(&self, node: &Node, keys: &[KeySpec]) -> Result<Entry, LoadError> {
        let parts = node.get("match_key")?.items()?;
        if parts.len() != keys.len() {
            return Err(node.error("the entry's key is not as long as the table's"));
        }
        let key = parts
            .iter()
            .zip(keys)
            .map(|(part, spec)| match_value(part, spec))
            .collect::<Result<_, _>>()?;
        let prioritised = keys.iter().any(|key| {
            matches!(
                key.kind,
                MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
            )
        });
        // The smaller number wins in the JSON.
        let priority = match node.find("priority").filter(|_| prioritised) {
            Some(priority) => i32::MAX - priority.number(i32::MAX as u64 - 1)? as i32,
            None => i32::from(prioritised),
        };
        Ok(Entry {
            key,
            priority,
            action: self.action_call(&node.get("action_entry")?)?.into(),
        })
    }
}

fn match_value(node: &Node, spec: &KeySpec) -> Result<MatchValue, LoadError> {
    let value = |name: &str| bits(&node.get(name)?, spec.width);
    Ok(match spec.kind {
        MatchKind::Exact if node.get("match_type")?.str()? == "valid" => {
            MatchValue::Exact(Bits::from_u128(1, u128::from(node.get("key")?.bool()?)))
        }
        MatchKind::Exact => MatchValue::Exact(value("key")?),
        MatchKind::Lpm => {
            let len = node.get("prefix_length")?.number(u64::from(spec.width))? as u16;
            let mask = pattern::prefix_mask(spec.width, u32::from(len));
            MatchValue::Lpm {
                value: masked(&value("key")?, &mask),
                len,
            }
        }
        MatchKind::Ternary | MatchKind::Optional => {
            let mask = value("mask")?;
            MatchValue::Ternary {
                value: masked(&value("key")?, mask.bytes()),
                mask,
            }
        }
        MatchKind::Range => MatchValue::Range {
            low: value("start")?,
            high: value("end")?,
        },
    })
}

/// p4c leaves bits set that the mask hides.
fn masked(value: &Bits, mask: &[u8]) -> Bits {
    let bytes: Vec<u8> = value
        .bytes()
        .iter()
        .zip(mask)
        .map(|(byte, mask)| byte & mask)
        .collect();
    Bits::new(value.width(), &bytes).unwrap_or_else(|_| Bits::zero(value.width()))
}

fn bits(node: &Node, width: u32) -> Result<Bits, LoadError> {
    let bytes = constant_bytes(node, &node.hex()?, byte_len(width))?;
    Bits::new(width, &bytes).map_err(|error| node.error(error.to_string()))
}
