//! Expressions: `{"type": …, "value": …}` and `{"op": …, "left": …, "right": …}` to what runs.

use crate::cond::{CmpOp, Cond};
use crate::error::LoadError;
use crate::expr::{BinOp, HeaderRef, Num, Saturation};
use crate::ir::Param;
use crate::layout::{StackIx, UnionIx};
use crate::load::json::Node;
use crate::load::layout::Names;
use crate::load::number::Number;
use crate::load::range::Range;

/// The meaning of names in an expression.
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
            "not" => Expr::Cond(Cond::not(self.cond(&right()?)?)),
            "d2b" => Expr::Cond(self.cond(&right()?)?),
            "b2d" => Expr::Num(self.num(&right()?)?),
            "valid" => Expr::Cond(Cond::valid(self.header_ref(&right()?)?)),
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
        Ok(if negated { Cond::not(equal) } else { equal })
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
