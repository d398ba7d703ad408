//! Expressions and references: `{"type": …, "value": …}` to what runs.

use num_bigint::BigInt;

use crate::error::LoadError;
use crate::expr::{BinOp, CmpOp, Cond, HeaderRef, Num, Saturation};
use crate::ir::{Param, ParamHome, Place, Target, Value};
use crate::layout::{FieldLayout, HeaderIx, Home, StackIx, UnionIx};
use crate::load::json::Node;
use crate::load::layout::Names;
use crate::load::number::{Number, Range};

/// What names in an expression mean.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub names: &'a Names,
    /// The enclosing action's parameters.
    pub params: &'a [Param],
}

pub enum Expr {
    Num(Number),
    Cond(Cond),
    Header(HeaderRef),
    Union(UnionRef),
    Stack(StackIx),
}

pub enum UnionRef {
    Fixed(UnionIx),
    Element { stack: StackIx, index: Box<Num> },
}

/// The hidden field that stands for a header's validity.
const VALID: &str = "$valid$";

impl Context<'_> {
    pub fn expr(&self, node: &Node) -> Result<Expr, LoadError> {
        let (kind, value) = node.typed()?;
        Ok(match kind {
            "expression" if value.find("op").is_some() => self.operation(&value)?,
            "expression" => self.expr(&value)?,
            "hexstr" => Expr::Num(Number::constant(&value.hex()?)),
            "bool" => Expr::Cond(Cond::Const(value.bool()?)),
            "field" => Expr::Num(self.field(&value)?),
            "stack_field" | "union_stack_field" => {
                let (header, field) = self.last_field(&value)?;
                Expr::Num(Number::member(header, &field))
            }
            "runtime_data" | "local" => Expr::Num(self.param(&value)?),
            "header" => Expr::Header(HeaderRef::Fixed(self.header(&value)?)),
            "header_stack" | "header_union_stack" => Expr::Stack(self.stack(&value)?),
            "header_union" => Expr::Union(UnionRef::Fixed(self.union(&value)?)),
            kind => return Err(node.error(format!("{kind} is not supported in an expression"))),
        })
    }

    pub fn num(&self, node: &Node) -> Result<Number, LoadError> {
        match self.expr(node)? {
            Expr::Num(number) => Ok(number),
            Expr::Cond(cond) => Ok(Number::narrow(
                Num::Bool(Box::new(cond)),
                Range::unsigned(1),
            )),
            _ => Err(node.error("expected a number")),
        }
    }

    pub fn cond(&self, node: &Node) -> Result<Cond, LoadError> {
        match self.expr(node)? {
            Expr::Cond(cond) => Ok(cond),
            Expr::Num(number) => Ok(number.non_zero()),
            _ => Err(node.error("expected a condition")),
        }
    }

    pub fn header_ref(&self, node: &Node) -> Result<HeaderRef, LoadError> {
        match self.expr(node)? {
            Expr::Header(header) => Ok(header),
            _ => Err(node.error("expected a header")),
        }
    }

    fn operation(&self, node: &Node) -> Result<Expr, LoadError> {
        let op = node.get("op")?.str()?;
        let right = || node.get("right");
        if let (Some(op), Some(left)) = (binary_op(op), node.find("left")) {
            return Ok(Expr::Num(Number::binary(
                op,
                self.num(&left)?,
                self.num(&right()?)?,
            )));
        }
        Ok(match op {
            "+" => Expr::Num(self.num(&right()?)?),
            "-" => Expr::Num(self.num(&right()?)?.negate()),
            "~" => Expr::Num(self.num(&right()?)?.complement()),
            "==" | "!=" => Expr::Cond(self.equality(node, op == "!=")?),
            "<" | "<=" | ">" | ">=" => {
                let op = compare_op(op);
                Expr::Cond(Number::compare(
                    op,
                    self.num(&node.get("left")?)?,
                    self.num(&right()?)?,
                ))
            }
            "and" => Expr::Cond(Cond::And(Box::new((
                self.cond(&node.get("left")?)?,
                self.cond(&right()?)?,
            )))),
            "or" => Expr::Cond(Cond::Or(Box::new((
                self.cond(&node.get("left")?)?,
                self.cond(&right()?)?,
            )))),
            "not" => Expr::Cond(Cond::Not(Box::new(self.cond(&right()?)?))),
            "d2b" => Expr::Cond(self.cond(&right()?)?),
            "b2d" => Expr::Num(self.num(&right()?)?),
            "valid" => Expr::Cond(Cond::Valid(self.header_ref(&right()?)?)),
            "valid_union" => match self.expr(&right()?)? {
                Expr::Union(union) => Expr::Cond(self.valid_union(&union)),
                _ => return Err(node.error("expected a header union")),
            },
            "?" => self.ternary(node)?,
            "two_comp_mod" => Expr::Num(
                self.num(&node.get("left")?)?
                    .sign_extend(self.width(&right()?)?),
            ),
            "sat_cast" | "usat_cast" => {
                let to = Saturation {
                    signed: op == "sat_cast",
                    width: self.width(&right()?)?,
                };
                Expr::Num(self.num(&node.get("left")?)?.saturate(to))
            }
            "dereference_header_stack" | "dereference_stack" => Expr::Header(self.element(node)?),
            "dereference_union_stack" => {
                let (stack, index) = self.stack_and_index(node)?;
                Expr::Union(UnionRef::Element { stack, index })
            }
            "last_stack_index" => Expr::Num(Number::narrow(
                Num::LastIndex(self.operand_stack(node)?),
                Range::unsigned(32),
            )),
            "size_stack" => Expr::Num(Number::narrow(
                Num::Depth(self.operand_stack(node)?),
                Range::unsigned(32),
            )),
            "access_field" => {
                let (header, field) = self.accessed_field(node)?;
                Expr::Num(self.field_of(header, &field))
            }
            "access_union_header" => match self.expr(&node.get("left")?)? {
                Expr::Union(union) => Expr::Header(self.union_member(&union, &right()?)?),
                _ => return Err(node.error("expected a header union")),
            },
            op => return Err(node.error(format!("operator {op} is not supported"))),
        })
    }

    fn equality(&self, node: &Node, negated: bool) -> Result<Cond, LoadError> {
        let sides = (
            self.expr(&node.get("left")?)?,
            self.expr(&node.get("right")?)?,
        );
        let equal = match sides {
            (Expr::Num(left), Expr::Num(right)) => {
                return Ok(Number::compare(
                    if negated { CmpOp::Ne } else { CmpOp::Eq },
                    left,
                    right,
                ));
            }
            (Expr::Cond(left), Expr::Cond(right)) => Cond::Same(Box::new((left, right))),
            (Expr::Header(left), Expr::Header(right)) => {
                let pairs = self.paired(node, vec![left], vec![right])?;
                Cond::SameHeaders(pairs)
            }
            (Expr::Union(left), Expr::Union(right)) => {
                let pairs =
                    self.paired(node, self.union_members(&left), self.union_members(&right))?;
                Cond::SameHeaders(pairs)
            }
            _ => return Err(node.error("the two sides are of different kinds")),
        };
        Ok(if negated {
            Cond::Not(Box::new(equal))
        } else {
            equal
        })
    }

    /// Headers side by side; each pair is of one type.
    pub fn paired(
        &self,
        node: &Node,
        left: Vec<HeaderRef>,
        right: Vec<HeaderRef>,
    ) -> Result<Vec<(HeaderRef, HeaderRef)>, LoadError> {
        let alike = left.len() == right.len()
            && left
                .iter()
                .zip(&right)
                .all(|(a, b)| self.type_of(a) == self.type_of(b));
        match alike {
            true => Ok(left.into_iter().zip(right).collect()),
            false => Err(node.error("the headers are of different types")),
        }
    }

    fn ternary(&self, node: &Node) -> Result<Expr, LoadError> {
        let cond = self.cond(&node.get("cond")?)?;
        Ok(
            match (
                self.expr(&node.get("left")?)?,
                self.expr(&node.get("right")?)?,
            ) {
                (Expr::Num(yes), Expr::Num(no)) => Expr::Num(Number::either(cond, yes, no)),
                (Expr::Cond(yes), Expr::Cond(no)) => {
                    Expr::Cond(Cond::If(Box::new((cond, yes, no))))
                }
                _ => return Err(node.error("expected two numbers or two conditions")),
            },
        )
    }

    /// A constant number of bits.
    fn width(&self, node: &Node) -> Result<u32, LoadError> {
        match self.num(node)? {
            Number {
                low: Num::Const(width),
                range: Range { signed: false, .. },
                ..
            } if width <= 1 << 16 => Ok(width as u32),
            _ => Err(node.error("expected a constant width")),
        }
    }

    fn operand_stack(&self, node: &Node) -> Result<StackIx, LoadError> {
        let operand = node.find("right").map_or_else(|| node.get("left"), Ok)?;
        match self.expr(&operand)? {
            Expr::Stack(stack) => Ok(stack),
            _ => Err(node.error("expected a header stack")),
        }
    }

    fn stack_and_index(&self, node: &Node) -> Result<(StackIx, Box<Num>), LoadError> {
        match self.expr(&node.get("left")?)? {
            Expr::Stack(stack) => Ok((stack, Box::new(self.num(&node.get("right")?)?.low))),
            _ => Err(node.error("expected a header stack")),
        }
    }

    fn element(&self, node: &Node) -> Result<HeaderRef, LoadError> {
        let (stack, index) = self.stack_and_index(node)?;
        let elements = &self.names.layout.stacks[stack].elements;
        Ok(match *index {
            Num::Const(at) => match usize::try_from(at).ok().and_then(|at| elements.get(at)) {
                Some(element) => HeaderRef::Fixed(element[0]),
                None => HeaderRef::Element {
                    stack,
                    member: 0,
                    index,
                },
            },
            _ => HeaderRef::Element {
                stack,
                member: 0,
                index,
            },
        })
    }

    fn union_members(&self, union: &UnionRef) -> Vec<HeaderRef> {
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

    fn valid_union(&self, union: &UnionRef) -> Cond {
        let members = self.union_members(union).into_iter().map(Cond::Valid);
        members
            .reduce(|left, right| Cond::Or(Box::new((left, right))))
            .unwrap_or(Cond::Const(false))
    }

    fn union_member(&self, union: &UnionRef, index: &Node) -> Result<HeaderRef, LoadError> {
        let members = self.union_members(union);
        members
            .into_iter()
            .nth(index.index(u64::MAX)?)
            .ok_or_else(|| index.error("no such member"))
    }

    fn accessed_field(&self, node: &Node) -> Result<(HeaderRef, FieldLayout), LoadError> {
        let header = self.header_ref(&node.get("left")?)?;
        let index = node.get("right")?;
        let fields = &self.names.layout.types[self.type_of(&header)].fields;
        let field = fields
            .get(index.index(u64::MAX)?)
            .ok_or_else(|| index.error("no such field"))?;
        Ok((header, field.clone()))
    }

    fn type_of(&self, header: &HeaderRef) -> usize {
        let layout = &self.names.layout;
        match header {
            HeaderRef::Fixed(header) => layout.headers[*header].ty,
            HeaderRef::Element { stack, member, .. } | HeaderRef::Last { stack, member } => {
                layout.headers[layout.stacks[*stack].elements[0][*member]].ty
            }
        }
    }

    fn field_of(&self, header: HeaderRef, field: &FieldLayout) -> Number {
        match header {
            HeaderRef::Fixed(header) => Number::field(
                header,
                field.home.within(&self.names.layout.headers[header]),
                field,
            ),
            header => Number::member(header, field),
        }
    }

    fn field(&self, node: &Node) -> Result<Number, LoadError> {
        let [header, field] = node.tuple::<2>()?;
        let header = self.header(&header)?;
        if field.str()? == VALID {
            let valid = Cond::Valid(HeaderRef::Fixed(header));
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
    fn last_field(&self, node: &Node) -> Result<(HeaderRef, FieldLayout), LoadError> {
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

    /// Which member of a union stack's elements has this name.
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

    fn param(&self, node: &Node) -> Result<Number, LoadError> {
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

    /// Where a value may be written to; `None` when `node` is a value only.
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

fn lookup(
    node: &Node,
    names: &std::collections::HashMap<String, usize>,
    kind: &str,
) -> Result<usize, LoadError> {
    let name = node.str()?;
    names
        .get(name)
        .copied()
        .ok_or_else(|| node.error(format!("no {kind} {name}")))
}

fn binary_op(op: &str) -> Option<BinOp> {
    Some(match op {
        "+" => BinOp::Add,
        "-" => BinOp::Sub,
        "*" => BinOp::Mul,
        "/" => BinOp::Div,
        "%" => BinOp::Rem,
        "&" => BinOp::And,
        "|" => BinOp::Or,
        "^" => BinOp::Xor,
        "<<" => BinOp::Shl,
        ">>" => BinOp::Shr,
        _ => return None,
    })
}

fn compare_op(op: &str) -> CmpOp {
    match op {
        "<" => CmpOp::Lt,
        "<=" => CmpOp::Le,
        ">" => CmpOp::Gt,
        _ => CmpOp::Ge,
    }
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
