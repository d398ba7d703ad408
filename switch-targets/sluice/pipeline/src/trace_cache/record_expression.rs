//! Records expressions and conditions: what they compute, as nodes.

use super::node::{Node, NodeId};
use super::record::{Recorded, Recorder, Unrecorded};
use crate::bits;
use crate::cond::{CmpOp, Cond};
use crate::expr::{Args, BinOp, HeaderRef, Num};
use crate::ir::Source;
use crate::layout::{HeaderIx, Home};

impl Recorder<'_> {
    pub fn num(&mut self, num: &Num, args: &Args) -> Recorded<NodeId> {
        Ok(match num {
            Num::Const(value) => self.graph.number(*value),
            Num::Slot(slot) => self.slot(*slot),
            Num::Part { slot, shift, mask } => {
                let value = self.slot(*slot);
                let shift = self.graph.number(u128::from(*shift));
                let shifted = self.graph.bin(BinOp::Shr, false, value, shift);
                self.graph.masked(shifted, *mask)
            }
            Num::SignedSlot { slot, width } => {
                let value = self.slot(*slot);
                let width = *width;
                self.graph.compute(Node::SignExtend { value, width }, 128)
            }
            Num::Param(index) => self.graph.number(args.narrow[*index]),
            Num::ParamLow { offset, len } => {
                let value = bits::read_low(&args.wide[*offset..offset + len]);
                self.graph.number(value)
            }
            Num::Bin { op, signed, sides } => {
                let left = self.num(&sides.0, args)?;
                let right = self.num(&sides.1, args)?;
                self.graph.bin(*op, *signed, left, right)
            }
            Num::Neg(value) => {
                let value = self.num(value, args)?;
                let zero = self.graph.number(0);
                self.graph.bin(BinOp::Sub, false, zero, value)
            }
            Num::Not(value) => {
                let value = self.num(value, args)?;
                let ones = self.graph.number(u128::MAX);
                self.graph.bin(BinOp::Xor, false, value, ones)
            }
            Num::SignExtend { value, width } => {
                let (value, width) = (self.num(value, args)?, *width);
                self.graph.compute(Node::SignExtend { value, width }, 128)
            }
            Num::Saturate { value, signed, to } => {
                let (value, signed, to) = (self.num(value, args)?, *signed, *to);
                self.graph
                    .compute(Node::Saturate { value, signed, to }, 128)
            }
            Num::If(parts) => {
                let cond = self.cond(&parts.0, args)?;
                let (yes, no) = (self.num(&parts.1, args)?, self.num(&parts.2, args)?);
                self.graph.select(cond, yes, no)
            }
            Num::Bool(cond) => self.cond(cond, args)?,
            Num::Member {
                header,
                home,
                signed,
            } => {
                let Some(header) = self.header(header, args)? else {
                    return Ok(self.graph.number(0));
                };
                let Home::Slot(slot) = home.within(&self.ir.layout.headers[header]) else {
                    return Err(Unrecorded);
                };
                let value = self.slot(slot);
                match signed {
                    Some(width) => {
                        let width = *width;
                        self.graph.compute(Node::SignExtend { value, width }, 128)
                    }
                    None => value,
                }
            }
            Num::LastIndex(stack) => {
                let index = u128::from((self.next[*stack] as u32).wrapping_sub(1));
                self.graph.number(index)
            }
            Num::Depth(stack) => {
                let depth = self.next[*stack] as u128;
                self.graph.number(depth)
            }
            Num::Low { .. } | Num::OfWide(_) => return Err(Unrecorded),
        })
    }

    pub(super) fn header(&mut self, header: &HeaderRef, args: &Args) -> Recorded<Option<HeaderIx>> {
        let (stack, member, index) = match header {
            HeaderRef::Fixed(header) => return Ok(Some(*header)),
            HeaderRef::Last { stack, member } => match self.next[*stack].checked_sub(1) {
                Some(index) => (*stack, *member, index),
                None => return Ok(None),
            },
            HeaderRef::Element {
                stack,
                member,
                index,
            } => {
                let index = self.num(index, args)?;
                let index = self.graph.constant(index).ok_or(Unrecorded)?;
                let Ok(index) = usize::try_from(index) else {
                    return Ok(None);
                };
                (*stack, *member, index)
            }
        };
        let element = self.ir.layout.stacks[stack].elements.get(index);
        Ok(element.and_then(|element| element.get(member)).copied())
    }

    /// 1 or 0.
    pub fn cond(&mut self, cond: &Cond, args: &Args) -> Recorded<NodeId> {
        let equal = |negated: bool| if negated { CmpOp::Ne } else { CmpOp::Eq };
        Ok(match cond {
            Cond::Const(value) => self.graph.number(u128::from(*value)),
            Cond::SlotIs {
                slot,
                value,
                negated,
            } => {
                let (slot, value) = (self.slot(*slot), self.graph.number(*value));
                self.graph.compare(equal(*negated), false, slot, value)
            }
            Cond::WordIs {
                slot,
                value,
                negated,
            } => {
                let slot = self.slot(*slot);
                let value = self.graph.number(u128::from(*value));
                self.graph.compare(equal(*negated), false, slot, value)
            }
            Cond::HeaderIs { header, valid } => {
                let holds = self.valid[*header] == *valid;
                self.graph.number(u128::from(holds))
            }
            Cond::NonZero(num) => {
                let value = self.num(num, args)?;
                let zero = self.graph.number(0);
                self.graph.compare(CmpOp::Ne, false, value, zero)
            }
            Cond::Compare { op, signed, sides } => {
                let left = self.num(&sides.0, args)?;
                let right = self.num(&sides.1, args)?;
                self.graph.compare(*op, *signed, left, right)
            }
            Cond::Valid(header) => {
                let header = self.header(header, args)?;
                let valid = header.is_some_and(|header| self.valid[header]);
                self.graph.number(u128::from(valid))
            }
            Cond::Not(cond) => {
                let cond = self.cond(cond, args)?;
                self.graph.not(cond)
            }
            Cond::And(sides) => {
                let left = self.cond(&sides.0, args)?;
                let right = self.cond(&sides.1, args)?;
                self.graph.bin(BinOp::And, false, left, right)
            }
            Cond::Or(sides) => {
                let left = self.cond(&sides.0, args)?;
                let right = self.cond(&sides.1, args)?;
                self.graph.bin(BinOp::Or, false, left, right)
            }
            Cond::Same(sides) => {
                let left = self.cond(&sides.0, args)?;
                let right = self.cond(&sides.1, args)?;
                self.graph.compare(CmpOp::Eq, false, left, right)
            }
            Cond::If(parts) => {
                let cond = self.cond(&parts.0, args)?;
                let (yes, no) = (self.cond(&parts.1, args)?, self.cond(&parts.2, args)?);
                self.graph.select(cond, yes, no)
            }
            Cond::CompareWide { .. } | Cond::SameHeaders(_) => return Err(Unrecorded),
        })
    }

    pub(super) fn source(&mut self, source: &Source, args: &Args) -> Recorded<NodeId> {
        match source {
            Source::Num(num) => self.num(num, args),
            Source::Wide(_) | Source::Field { .. } | Source::Param { .. } => Err(Unrecorded),
        }
    }
}
