//! References: what the names in an expression stand for, to read or to write.

use std::collections::HashMap;

use num_bigint::BigInt;

use crate::cond::Cond;
use crate::error::LoadError;
use crate::expr::{HeaderRef, Num};
use crate::ir::{ParamHome, Place, Target, Value};
use crate::layout::{FieldLayout, HeaderIx, Home, StackIx, UnionIx};
use crate::load::expr::{Context, Expr, UnionRef};
use crate::load::json::Node;
use crate::load::number::Number;
use crate::load::range::Range;

/// The hidden field that stands for a header's validity.
const VALID: &str = "$valid$";

impl Context<'_> {
    pub fn union_members(&self, union: &UnionRef) -> Vec<HeaderRef> {
        let layout = &self.names.layout;
        match union {
            UnionRef::Fixed(union) => layout.unions[*union]
                .members
                .iter()
                .map(|member| HeaderRef::Fixed(*member))
                .collect(),
            UnionRef::Element { stack, index } => (0..layout.stacks[*stack].elements[0].len())
                .map(|member| HeaderRef::Element {
                    stack: *stack,
                    member,
                    index: index.clone(),
                })
                .collect(),
        }
    }

    /// The members of a union that `node` names.
    pub fn union_headers(&self, node: &Node) -> Result<Vec<HeaderRef>, LoadError> {
        match self.expr(node)? {
            Expr::Union(union) => Ok(self.union_members(&union)),
            _ => Err(node.error("expected a header union")),
        }
    }

    pub fn valid_union(&self, union: &UnionRef) -> Cond {
        let members = self.union_members(union).into_iter().map(Cond::valid);
        members
            .reduce(|left, right| Cond::Or(Box::new((left, right))))
            .unwrap_or(Cond::Const(false))
    }

    pub fn union_member(&self, union: &UnionRef, index: &Node) -> Result<HeaderRef, LoadError> {
        let members = self.union_members(union);
        members
            .into_iter()
            .nth(index.index(u64::MAX)?)
            .ok_or_else(|| index.error("no such member"))
    }

    pub fn accessed_field(&self, node: &Node) -> Result<(HeaderRef, FieldLayout), LoadError> {
        let header = self.header_ref(&node.get("left")?)?;
        let index = node.get("right")?;
        let fields = &self.names.layout.types[self.type_of(&header)].fields;
        let field = fields
            .get(index.index(u64::MAX)?)
            .ok_or_else(|| index.error("no such field"))?;
        Ok((header, field.clone()))
    }

    pub fn type_of(&self, header: &HeaderRef) -> usize {
        let layout = &self.names.layout;
        match header {
            HeaderRef::Fixed(header) => layout.headers[*header].ty,
            HeaderRef::Element { stack, member, .. } | HeaderRef::Last { stack, member } => {
                layout.headers[layout.stacks[*stack].elements[0][*member]].ty
            }
        }
    }

    pub fn field_of(&self, header: HeaderRef, field: &FieldLayout) -> Number {
        match header {
            HeaderRef::Fixed(header) => Number::field(
                header,
                field.home.within(&self.names.layout.headers[header]),
                field,
            ),
            header => Number::member(header, field),
        }
    }

    pub fn field(&self, node: &Node) -> Result<Number, LoadError> {
        let [header, field] = node.tuple::<2>()?;
        let header = self.header(&header)?;
        if field.str()? == VALID {
            let valid = Cond::valid(HeaderRef::Fixed(header));
            return Ok(Number::narrow(
                Num::Bool(Box::new(valid)),
                Range::unsigned(1),
            ));
        }
        let layout = self.field_layout(&field, self.names.layout.headers[header].ty)?;
        Ok(self.field_of(HeaderRef::Fixed(header), &layout))
    }

    fn field_layout(&self, name: &Node, ty: usize) -> Result<FieldLayout, LoadError> {
        let text = name.str()?;
        let fields = &self.names.layout.types[ty].fields;
        fields
            .iter()
            .find(|field| field.name == text)
            .cloned()
            .ok_or_else(|| name.error(format!("no field {text}")))
    }

    /// A field of the element extracted last: `[stack, field]` or `[union stack, member, field]`.
    pub fn last_field(&self, node: &Node) -> Result<(HeaderRef, FieldLayout), LoadError> {
        let parts = node.items()?;
        let (stack, member, field) = match parts.as_slice() {
            [stack, field] => (self.stack(stack)?, 0, field),
            [stack, member, field] => {
                let stack = self.stack(stack)?;
                (stack, self.member_of(stack, member)?, field)
            }
            _ => return Err(node.error("expected two or three names")),
        };
        let header = HeaderRef::Last { stack, member };
        let layout = self.field_layout(field, self.type_of(&header))?;
        Ok((header, layout))
    }

    /// The member of this name in a union stack's elements.
    pub fn member_of(&self, stack: StackIx, name: &Node) -> Result<usize, LoadError> {
        let layout = &self.names.layout;
        let union = layout.stacks[stack]
            .unions
            .first()
            .ok_or_else(|| name.error("not a stack of unions"))?;
        let text = name.str()?;
        let position = layout.unions[*union]
            .member_names
            .iter()
            .position(|member| member == text);
        position.ok_or_else(|| name.error(format!("no member {text}")))
    }

    pub fn header(&self, node: &Node) -> Result<HeaderIx, LoadError> {
        lookup(node, &self.names.headers, "header")
    }

    pub fn stack(&self, node: &Node) -> Result<StackIx, LoadError> {
        lookup(node, &self.names.stacks, "header stack")
    }

    pub fn union(&self, node: &Node) -> Result<UnionIx, LoadError> {
        lookup(node, &self.names.unions, "header union")
    }

    pub fn param(&self, node: &Node) -> Result<Number, LoadError> {
        let param = self
            .params
            .get(node.index(u64::MAX)?)
            .ok_or_else(|| node.error("the action has no such parameter"))?;
        Ok(match param.home {
            ParamHome::Narrow(index) => {
                Number::narrow(Num::Param(index), Range::unsigned(param.width))
            }
            ParamHome::Wide { offset, len } => Number::wide_param(offset, len, param.width),
        })
    }

    /// A field at a fixed place, from `[header, field]`.
    pub fn place(&self, node: &Node) -> Result<Place, LoadError> {
        let [header, field] = node.tuple::<2>()?;
        let header = self.header(&header)?;
        let layout = &self.names.layout;
        let field = self.field_layout(&field, layout.headers[header].ty)?;
        Ok(Place {
            header,
            home: field.home.within(&layout.headers[header]),
            width: field.width,
        })
    }

    /// The value of `[header, field]`, in the field's width.
    pub fn field_value(&self, node: &Node) -> Result<Value, LoadError> {
        let number = self.field(node)?;
        let width = number
            .range
            .bits
            .saturating_add(u32::from(number.range.signed));
        Ok(Value {
            source: number.source(width),
            width,
        })
    }

    /// The place that a value may be written to; `None` when `node` is a value only.
    pub fn find_target(&self, node: &Node) -> Result<Option<Target>, LoadError> {
        let (kind, value) = node.typed()?;
        Ok(match kind {
            "field" => Some(target_at(node, self.place(&value)?)?),
            "stack_field" | "union_stack_field" => {
                let (header, field) = self.last_field(&value)?;
                Some(Target::Member {
                    header,
                    home: field.home,
                    width: field.width,
                })
            }
            "expression" => match value.find("op") {
                None => self.find_target(&value)?,
                Some(op) if op.str()? == "access_field" => {
                    let (header, field) = self.accessed_field(&value)?;
                    Some(match header {
                        HeaderRef::Fixed(header) => {
                            let home = field.home.within(&self.names.layout.headers[header]);
                            target_at(
                                node,
                                Place {
                                    header,
                                    home,
                                    width: field.width,
                                },
                            )?
                        }
                        header => Target::Member {
                            header,
                            home: field.home,
                            width: field.width,
                        },
                    })
                }
                Some(_) => None,
            },
            _ => None,
        })
    }

    pub fn target(&self, node: &Node) -> Result<Target, LoadError> {
        self.find_target(node)?
            .ok_or_else(|| node.error("nothing can be assigned to this"))
    }

    /// A value with the width that its form shows.
    pub fn value(&self, node: &Node) -> Result<Value, LoadError> {
        let number = self.num(node)?;
        let width = match node.typed()? {
            ("hexstr", text) => (text
                .str()?
                .trim_start_matches("-0x")
                .trim_start_matches("0x")
                .len() as u32)
                .saturating_mul(4),
            _ => number
                .range
                .bits
                .saturating_add(u32::from(number.range.signed)),
        };
        Ok(Value {
            source: number.source(width),
            width,
        })
    }
}

fn target_at(node: &Node, place: Place) -> Result<Target, LoadError> {
    match place.home {
        Home::Var { .. } => Err(node.error("a variable-length field takes no number")),
        _ => Ok(Target::Field(place)),
    }
}

fn lookup(node: &Node, names: &HashMap<String, usize>, kind: &str) -> Result<usize, LoadError> {
    let name = node.str()?;
    names
        .get(name)
        .copied()
        .ok_or_else(|| node.error(format!("no {kind} {name}")))
}

/// Big-endian bytes of a constant, exactly `len` of them.
pub fn constant_bytes(node: &Node, value: &BigInt, len: usize) -> Result<Box<[u8]>, LoadError> {
    let (sign, magnitude) = value.to_bytes_be();
    if sign == num_bigint::Sign::Minus {
        return Err(node.error("expected a number that is not negative"));
    }
    let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
    let significant = &magnitude[zeros..];
    if significant.len() > len {
        return Err(node.error(format!("the number does not fit {len} bytes")));
    }
    let mut bytes = vec![0; len].into_boxed_slice();
    bytes[len - significant.len()..].copy_from_slice(significant);
    Ok(bytes)
}
