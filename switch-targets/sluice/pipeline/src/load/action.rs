//! Actions: primitives to operations.

use std::collections::HashMap;

use crate::bits::byte_len;
use crate::bitstream::mask;
use crate::error::LoadError;
use crate::expr::{BinOp, HeaderRef, Num};
use crate::ir::{Action, CallSite, Ir, Op, Param, ParamHome, Place, Source, Target};
use crate::layout::Home;
use crate::load::expr::Context;
use crate::load::json::Node;
use crate::load::layout::Names;
use crate::load::number::Number;
use crate::load::objects::Objects;
use crate::spec::{ActionSpec, ParamSpec};

/// The widest parameter, in bits.
const MAX_WIDTH: u64 = 1 << 16;

#[derive(Debug, Default)]
pub struct Actions {
    pub by_id: HashMap<u64, usize>,
    pub specs: Vec<ActionSpec>,
}

pub fn load(
    root: &Node,
    names: &Names,
    objects: &Objects,
    ir: &mut Ir,
) -> Result<Actions, LoadError> {
    let mut actions = Actions::default();
    for node in root.list("actions")? {
        let mut spec = ActionSpec {
            name: node.get("name")?.str()?.to_owned(),
            params: Vec::new(),
        };
        let mut params = Vec::new();
        let (mut narrow, mut wide) = (0, 0);
        for param in node.list("runtime_data")? {
            let width = param.get("bitwidth")?.number(MAX_WIDTH)? as u32;
            spec.params.push(ParamSpec {
                name: param.get("name")?.str()?.to_owned(),
                width,
            });
            let home = if width <= 128 {
                narrow += 1;
                ParamHome::Narrow(narrow - 1)
            } else {
                let (offset, len) = (wide, byte_len(width));
                wide += len;
                ParamHome::Wide { offset, len }
            };
            params.push(Param { width, home });
        }
        let primitives = node.list("primitives")?;
        let ops = Primitives {
            context: Context {
                names,
                params: &params,
            },
            objects,
            ir,
        }
        .load(&primitives)?;
        actions
            .by_id
            .insert(node.get("id")?.number(u64::MAX)?, ir.actions.len());
        actions.specs.push(spec);
        ir.actions.push(Action::new(params, ops));
    }
    ir.nothing = ir.actions.len();
    ir.actions.push(Action::default());
    Ok(actions)
}

/// Compiles a sequence of primitives.
pub struct Primitives<'a> {
    pub context: Context<'a>,
    pub objects: &'a Objects,
    pub ir: &'a mut Ir,
}

impl Primitives<'_> {
    pub fn load(mut self, primitives: &[Node]) -> Result<Vec<Op>, LoadError> {
        let mut ops = Vec::new();
        let mut starts = Vec::new();
        for node in primitives {
            starts.push(ops.len());
            self.primitive(node, primitives.len(), &mut ops)?;
        }
        starts.push(ops.len());
        // Jumps were read as indices of primitives.
        for op in &mut ops {
            if let Op::Jump(to) | Op::JumpIfZero(_, to) = op {
                *to = starts[*to];
            }
        }
        Ok(ops)
    }

    fn primitive(&mut self, node: &Node, count: usize, ops: &mut Vec<Op>) -> Result<(), LoadError> {
        let op_node = node.get("op")?;
        let name = op_node.str()?;
        let args = node.get("parameters")?.items()?;
        let arg = |index: usize| {
            args.get(index)
                .ok_or_else(|| node.error(format!("{name} needs {} parameters", index + 1)))
        };
        let context = self.context;
        let num = |index: usize| -> Result<Num, LoadError> { Ok(context.num(arg(index)?)?.low) };
        let op = match name {
            "assign" | "modify_field" => self.assign(arg(0)?, arg(1)?)?,
            "assign_VL" => self.assign_var(arg(0)?, arg(1)?)?,
            "assign_header" | "copy_header" => {
                let pair = (
                    vec![context.header_ref(arg(0)?)?],
                    vec![context.header_ref(arg(1)?)?],
                );
                Op::CopyHeaders(context.paired(node, pair.0, pair.1)?)
            }
            "assign_union" => {
                let pair = (
                    context.union_headers(arg(0)?)?,
                    context.union_headers(arg(1)?)?,
                );
                Op::CopyHeaders(context.paired(node, pair.0, pair.1)?)
            }
            "assign_header_stack" | "assign_union_stack" => {
                let (to, from) = (
                    context.stack(&arg(0)?.typed()?.1)?,
                    context.stack(&arg(1)?.typed()?.1)?,
                );
                ops.push(Op::CopyHeaders(context.paired(
                    node,
                    self.all_of(to),
                    self.all_of(from),
                )?));
                Op::CopyNext { to, from }
            }
            "push" => Op::Push(context.stack(&arg(0)?.typed()?.1)?, num(1)?),
            "pop" => Op::Pop(context.stack(&arg(0)?.typed()?.1)?, num(1)?),
            "add_header" | "add_header_fast" => Op::Validate(context.header_ref(arg(0)?)?),
            "remove_header" => Op::Invalidate(context.header_ref(arg(0)?)?),
            "_jump" => Op::Jump(jump(arg(0)?, count)?),
            "_jump_if_zero" => Op::JumpIfZero(self.test(arg(0)?)?, jump(arg(1)?, count)?),
            "exit" => Op::Exit,
            "assert" | "assume" => Op::Require(context.cond(arg(0)?)?),
            "mark_to_drop" | "drop" => Op::Drop,
            "truncate" => Op::Truncate(num(0)?),
            "generate_digest" => Op::Digest(by_id(arg(1)?, &self.objects.digests, "learn list")?),
            "resubmit" => {
                self.ir.keeps_original = true;
                Op::Resubmit(self.field_list(arg(0)?)?)
            }
            "recirculate" => Op::Recirculate(self.field_list(arg(0)?)?),
            "clone_ingress_pkt_to_egress" => {
                self.ir.keeps_original = true;
                Op::Clone {
                    session: num(0)?,
                    fields: self.field_list(arg(1)?)?,
                    from_ingress: true,
                }
            }
            "clone_egress_pkt_to_egress" => Op::Clone {
                session: num(0)?,
                fields: self.field_list(arg(1)?)?,
                from_ingress: false,
            },
            "count" => Op::Count {
                counter: by_name(arg(0)?, &self.objects.counters, "counter")?,
                index: num(1)?,
            },
            "execute_meter" => Op::Meter {
                meter: by_name(arg(0)?, &self.objects.meters.arrays, "meter")?,
                index: num(1)?,
                target: context.target(arg(2)?)?,
            },
            "register_read" => Op::RegisterRead {
                target: context.target(arg(0)?)?,
                register: by_name(arg(1)?, &self.objects.registers, "register")?,
                index: num(2)?,
            },
            "register_write" => {
                let register = by_name(arg(0)?, &self.objects.registers, "register")?;
                Op::RegisterWrite {
                    register,
                    index: num(1)?,
                    value: num(2)?,
                }
            }
            "modify_field_with_hash_based_offset" => Op::Hash {
                target: context.target(arg(0)?)?,
                base: num(1)?,
                calculation: by_name(arg(2)?, &self.objects.calculations, "calculation")?,
                size: num(3)?,
            },
            "modify_field_rng_uniform" => Op::Random {
                target: context.target(arg(0)?)?,
                low: num(1)?,
                high: num(2)?,
            },
            "no_op" => return Ok(()),
            // Logging has no effect on packets.
            "log_msg" => return Ok(()),
            _ => match (arithmetic(name), args.as_slice()) {
                (Some(op), [to, left, right]) | (Some(op), [to @ left, right]) => {
                    let (left, right) = (context.num(left)?, context.num(right)?);
                    store(context.target(to)?, Number::binary(op, left, right))
                }
                _ => self.extern_call(node, name, &args)?,
            },
        };
        ops.push(op);
        Ok(())
    }

    fn assign(&self, to: &Node, from: &Node) -> Result<Op, LoadError> {
        Ok(store(self.context.target(to)?, self.context.num(from)?))
    }

    fn assign_var(&self, to: &Node, from: &Node) -> Result<Op, LoadError> {
        let (to_place, from_place) = (
            self.context.place(&to.typed()?.1)?,
            self.context.place(&from.typed()?.1)?,
        );
        let is_var = |place: &Place| matches!(place.home, Home::Var { .. });
        match is_var(&to_place) && is_var(&from_place) {
            true => Ok(Op::MoveVar {
                to: to_place,
                from: from_place,
            }),
            false => Err(to.error("expected variable-length fields")),
        }
    }

    /// The number that `_jump_if_zero` tests.
    fn test(&self, node: &Node) -> Result<Num, LoadError> {
        Ok(match self.context.num(node)? {
            Number { low, range, .. } if range.bits <= 127 => low,
            number => Num::Bool(Box::new(number.non_zero())),
        })
    }

    fn all_of(&self, stack: usize) -> Vec<HeaderRef> {
        let elements = &self.context.names.layout.stacks[stack].elements;
        elements
            .iter()
            .flatten()
            .map(|header| HeaderRef::Fixed(*header))
            .collect()
    }

    fn field_list(&mut self, node: &Node) -> Result<usize, LoadError> {
        let id = id(node)?;
        if let Some(list) = self.objects.field_lists.get(&id) {
            return Ok(*list);
        }
        // p4c names list 0 where nothing is preserved, and does not always define it.
        if id != 0 {
            return Err(node.error(format!("no field list {id}")));
        }
        self.ir.field_lists.push(Vec::new());
        Ok(self.ir.field_lists.len() - 1)
    }

    fn extern_call(&mut self, node: &Node, name: &str, args: &[Node]) -> Result<Op, LoadError> {
        let unsupported = || node.error(format!("primitive {name} is not supported"));
        let (receiver, args) = args.split_first().ok_or_else(unsupported)?;
        let ("extern", instance) = receiver.typed()? else {
            return Err(unsupported());
        };
        let instance = *self
            .objects
            .instances
            .get(instance.str()?)
            .ok_or_else(|| instance.error("no such extern object"))?;
        let type_name = &self.ir.instances[instance].type_name;
        let method = name
            .strip_prefix('_')
            .and_then(|name| name.strip_prefix(type_name.as_str()));
        let method = method
            .and_then(|name| name.strip_prefix('_'))
            .ok_or_else(unsupported)?;
        let args = args.iter().map(|arg| {
            let target = self.context.find_target(arg)?;
            let mut value = self.context.value(arg)?;
            if let Some(target) = &target {
                value.width = target.width();
            }
            Ok((value, target))
        });
        let call = CallSite {
            place: node.error("").place,
            instance,
            method: method.to_owned(),
            args: args.collect::<Result<_, LoadError>>()?,
        };
        self.ir.calls.push(call);
        Ok(Op::Call(self.ir.calls.len() - 1))
    }
}

fn store(target: Target, value: Number) -> Op {
    let source = value.source(target.width());
    match (target, source) {
        (
            Target::Field(Place {
                header,
                home: Home::Slot(slot),
                width,
            }),
            Source::Num(value),
        ) => Op::Set {
            header,
            slot,
            mask: mask(width),
            value,
        },
        (target, source) => Op::Move { target, source },
    }
}

/// P4_14's primitives, with a target of their own or in place.
fn arithmetic(primitive: &str) -> Option<BinOp> {
    Some(match primitive {
        "add" | "add_to_field" => BinOp::Add,
        "subtract" | "subtract_from_field" => BinOp::Sub,
        "bit_xor" => BinOp::Xor,
        "bit_or" => BinOp::Or,
        "bit_and" => BinOp::And,
        "shift_left" => BinOp::Shl,
        "shift_right" => BinOp::Shr,
        _ => return None,
    })
}

fn id(node: &Node) -> Result<u64, LoadError> {
    let value = node.typed()?.1.hex()?;
    u64::try_from(&value).map_err(|_| node.error("expected an id"))
}

fn by_id(node: &Node, ids: &HashMap<u64, usize>, kind: &str) -> Result<usize, LoadError> {
    let id = id(node)?;
    ids.get(&id)
        .copied()
        .ok_or_else(|| node.error(format!("no {kind} {id}")))
}

fn by_name(node: &Node, names: &HashMap<String, usize>, kind: &str) -> Result<usize, LoadError> {
    let name = node.typed()?.1.str()?;
    names
        .get(name)
        .copied()
        .ok_or_else(|| node.error(format!("no {kind} {name}")))
}

fn jump(node: &Node, count: usize) -> Result<usize, LoadError> {
    match usize::try_from(id(node)?) {
        Ok(to) if to <= count => Ok(to),
        _ => Err(node.error("a jump must lead to a place in its action")),
    }
}
