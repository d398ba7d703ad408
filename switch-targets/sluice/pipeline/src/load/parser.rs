//! The parser: states, what they extract, and how they select the next.

use std::collections::HashMap;

use crate::bits::{byte_len, read_low};
use crate::error::LoadError;
use crate::expr::Num;
use crate::ir::{
    Accepts, Case, Ir, KeyPart, KeySource, Next, Op, Parser, ParserOp, ParserState, Source,
};
use crate::layout::{HeaderIx, Home};
use crate::load::action::Primitives;
use crate::load::expr::Context;
use crate::load::json::Node;
use crate::load::objects::Objects;
use crate::load::reference::constant_bytes;
use crate::spec::ValueSetSpec;

/// The widest lookahead, in bits.
const MAX_LOOKAHEAD: u64 = 128;
/// Members of one value set: a packet is compared with each.
const MAX_MEMBERS: u64 = 1 << 16;

pub fn load(
    root: &Node,
    context: Context,
    objects: &Objects,
    ir: &mut Ir,
) -> Result<(), LoadError> {
    let mut value_sets = HashMap::new();
    for node in root.list("parse_vsets")? {
        let name = node.get("name")?.str()?;
        value_sets.insert(name, ir.parser.value_sets.len());
        ir.parser.value_sets.push(ValueSetSpec {
            name: name.to_owned(),
            size: node.get("max_size")?.index(MAX_MEMBERS)?,
            widths: Vec::new(),
        });
    }
    let parsers = root.get("parsers")?.items()?;
    let [node] = parsers.as_slice() else {
        return Err(root.get("parsers")?.error("expected one parser"));
    };
    let state_nodes = node.get("parse_states")?.items()?;
    let mut states = HashMap::new();
    for (at, state) in state_nodes.iter().enumerate() {
        states.insert(state.get("name")?.str()?, at);
    }
    let loader = States {
        context,
        objects,
        states: &states,
        value_sets: &value_sets,
    };
    let start = loader.next(&node.get("init_state")?)?;
    let mut loaded = Vec::new();
    for state in &state_nodes {
        loaded.push(loader.state(state, ir)?);
    }
    ir.parser = Parser {
        start,
        states: loaded,
        value_sets: std::mem::take(&mut ir.parser.value_sets),
    };
    Ok(())
}

struct States<'a> {
    context: Context<'a>,
    objects: &'a Objects,
    states: &'a HashMap<&'a str, usize>,
    value_sets: &'a HashMap<&'a str, usize>,
}

impl States<'_> {
    fn next(&self, node: &Node) -> Result<Next, LoadError> {
        let name = node.str()?;
        let state = self.states.get(name).copied();
        state
            .map(Some)
            .ok_or_else(|| node.error(format!("no parser state {name}")))
    }

    fn state(&self, node: &Node, ir: &mut Ir) -> Result<ParserState, LoadError> {
        let mut state = ParserState::default();
        for op in node.list("parser_ops")? {
            state.ops.push(self.op(&op, ir)?);
        }
        for part in node.list("transition_key")? {
            state.key.push(self.key_part(&part)?);
        }
        let transitions = node.list("transitions")?;
        let in_set = |transition: &Node| {
            transition
                .get("type")
                .is_ok_and(|kind| kind.str() == Ok("parse_vset"))
        };
        let numbers = |part: &KeyPart| match &part.source {
            KeySource::Value(source) => matches!(source, Source::Num(_)),
            KeySource::Lookahead { .. } => true,
        };
        let len: usize = state.key.iter().map(|part| part.len).sum();
        state.narrow =
            len <= 16 && state.key.iter().all(numbers) && !transitions.iter().any(in_set);
        for transition in transitions {
            let next = transition
                .find("next_state")
                .map_or(Ok(None), |next| self.next(&next))?;
            let accepts = self.accepts(&transition, len, state.narrow)?;
            if let Accepts::ValueSet { set, .. } = accepts {
                let widths = &mut ir.parser.value_sets[set].widths;
                let own: Vec<u32> = state.key.iter().map(|part| part.width).collect();
                if widths.is_empty() {
                    *widths = own;
                } else if *widths != own {
                    return Err(transition.error("the value set is used with keys of two widths"));
                }
            }
            state.cases.push(Case { accepts, next });
        }
        Ok(state)
    }

    fn op(&self, node: &Node, ir: &mut Ir) -> Result<ParserOp, LoadError> {
        let op_node = node.get("op")?;
        let args = node.get("parameters")?.items()?;
        let arg = |index: usize| {
            args.get(index)
                .ok_or_else(|| node.error("a parameter is missing"))
        };
        Ok(match op_node.str()? {
            "extract" => self.extract(arg(0)?, None)?,
            "extract_VL" => self.extract(arg(0)?, Some(self.context.num(arg(1)?)?.low))?,
            "set" => {
                let target = self.context.target(arg(0)?)?;
                match arg(1)?.typed()? {
                    ("lookahead", value) => {
                        let (at, width) = lookahead(&value)?;
                        ParserOp::Lookahead { target, at, width }
                    }
                    _ => ParserOp::Set {
                        source: self.context.num(arg(1)?)?.source(target.width()),
                        target,
                    },
                }
            }
            "verify" => ParserOp::Verify {
                cond: self.context.cond(arg(0)?)?,
                error: match arg(1)?.number(u64::from(u32::MAX)) {
                    Ok(code) => Num::Const(u128::from(code)),
                    Err(_) => self.context.num(arg(1)?)?.low,
                },
            },
            "advance" => ParserOp::Advance(self.context.num(arg(0)?)?.low),
            "shift" => ParserOp::Advance(Num::Const(u128::from(arg(0)?.number(1 << 32)?) * 8)),
            "primitive" => {
                let primitives = Primitives {
                    context: self.context,
                    objects: self.objects,
                    ir,
                };
                let ops = primitives.load(std::slice::from_ref(arg(0)?))?;
                match ops.iter().any(|op| matches!(op, Op::Call(_))) {
                    true => return Err(node.error("a parser cannot call extern objects")),
                    false => ParserOp::Run(ops),
                }
            }
            op => return Err(op_node.error(format!("parser operation {op} is not supported"))),
        })
    }

    fn extract(&self, node: &Node, bits: Option<Num>) -> Result<ParserOp, LoadError> {
        let (kind, value) = node.typed()?;
        let (op, header) = match kind {
            "regular" => {
                let header = self.context.header(&value)?;
                let op = match bits {
                    Some(bits) => ParserOp::ExtractVar { header, bits },
                    None => ParserOp::Extract(header),
                };
                (op, header)
            }
            "stack" | "union_stack" => {
                let (stack, member) = if kind == "stack" {
                    (self.context.stack(&value)?, 0)
                } else {
                    let [stack, member] = value.tuple::<2>()?;
                    let stack = self.context.stack(&stack)?;
                    (stack, self.context.member_of(stack, &member)?)
                };
                let header = self.context.names.layout.stacks[stack].elements[0][member];
                let op = match bits {
                    Some(bits) => ParserOp::ExtractNextVar {
                        stack,
                        member,
                        bits,
                    },
                    None => ParserOp::ExtractNext { stack, member },
                };
                (op, header)
            }
            kind => return Err(node.error(format!("{kind} cannot be extracted"))),
        };
        let needs_length = matches!(op, ParserOp::Extract(_) | ParserOp::ExtractNext { .. });
        if needs_length && self.has_var(header) {
            return Err(node.error("a header with a variable-length field needs extract_VL"));
        }
        if !needs_length && !self.has_var(header) {
            return Err(node.error("the header has no variable-length field"));
        }
        Ok(op)
    }

    fn has_var(&self, header: HeaderIx) -> bool {
        let fields = &self.context.names.layout.type_of(header).fields;
        fields
            .iter()
            .any(|field| matches!(field.home, Home::Var { .. }))
    }

    fn key_part(&self, node: &Node) -> Result<KeyPart, LoadError> {
        if let ("lookahead", value) = node.typed()? {
            let (at, width) = lookahead(&value)?;
            return Ok(KeyPart {
                source: KeySource::Lookahead { at },
                width,
                len: byte_len(width),
            });
        }
        let value = self.context.value(node)?;
        Ok(KeyPart {
            len: byte_len(value.width),
            width: value.width,
            source: KeySource::Value(value.source),
        })
    }

    fn accepts(&self, node: &Node, len: usize, narrow: bool) -> Result<Accepts, LoadError> {
        let mask = |name: &str| -> Result<Option<Box<[u8]>>, LoadError> {
            let Some(mask) = node.find(name) else {
                return Ok(None);
            };
            constant_bytes(&mask, &mask.hex()?, len).map(Some)
        };
        // A case without a type is a number, as p4c wrote until 2020, or the word default in its place.
        let kind = node.find("type").map_or(Ok("hexstr"), |it| it.str())?;
        Ok(match kind {
            "default" => Accepts::All,
            "hexstr" if node.get("value")?.str()? == "default" => Accepts::All,
            "hexstr" => {
                let value = node.get("value")?;
                let mut bytes = constant_bytes(&value, &value.hex()?, len)?;
                let mask = mask("mask")?.unwrap_or_else(|| vec![0xff; len].into_boxed_slice());
                bytes
                    .iter_mut()
                    .zip(&mask)
                    .for_each(|(byte, mask)| *byte &= mask);
                match narrow {
                    true => Accepts::Narrow {
                        value: read_low(&bytes),
                        mask: read_low(&mask),
                    },
                    false => Accepts::Wide { value: bytes, mask },
                }
            }
            "parse_vset" => {
                let value = node.get("value")?;
                let set = self.value_sets.get(value.str()?).copied();
                Accepts::ValueSet {
                    set: set.ok_or_else(|| value.error("no such value set"))?,
                    mask: mask("mask")?,
                }
            }
            other => return Err(node.error(format!("transition type {other} is not supported"))),
        })
    }
}

/// `[offset, width]`, in bits from the cursor.
fn lookahead(node: &Node) -> Result<(usize, u32), LoadError> {
    let [at, width] = node.tuple::<2>()?;
    Ok((at.index(1 << 20)?, width.number(MAX_LOOKAHEAD)? as u32))
}
