//! Conditions as they run.

use num_bigint::BigInt;

use crate::expr::{HeaderRef, Num, Scope};
use crate::layout::HeaderIx;
use crate::wide::Wide;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl CmpOp {
    /// The comparison that holds where this one does not.
    pub fn opposite(self) -> CmpOp {
        match self {
            CmpOp::Eq => CmpOp::Ne,
            CmpOp::Ne => CmpOp::Eq,
            CmpOp::Lt => CmpOp::Ge,
            CmpOp::Ge => CmpOp::Lt,
            CmpOp::Le => CmpOp::Gt,
            CmpOp::Gt => CmpOp::Le,
        }
    }

    /// The comparison that holds of the sides in the other order.
    pub fn mirrored(self) -> CmpOp {
        match self {
            CmpOp::Eq | CmpOp::Ne => self,
            CmpOp::Lt => CmpOp::Gt,
            CmpOp::Gt => CmpOp::Lt,
            CmpOp::Le => CmpOp::Ge,
            CmpOp::Ge => CmpOp::Le,
        }
    }

    #[inline]
    pub fn holds<T: Ord>(self, left: &T, right: &T) -> bool {
        match self {
            CmpOp::Eq => left == right,
            CmpOp::Ne => left != right,
            CmpOp::Lt => left < right,
            CmpOp::Le => left <= right,
            CmpOp::Gt => left > right,
            CmpOp::Ge => left >= right,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Cond {
    Const(bool),
    SlotIs {
        slot: usize,
        value: u128,
        negated: bool,
    },
    /// The same for a field of up to 64 bits: one word is compared.
    WordIs {
        slot: usize,
        value: u64,
        negated: bool,
    },
    /// A header whose place is known is valid, or is not.
    HeaderIs {
        header: HeaderIx,
        valid: bool,
    },
    NonZero(Num),
    Compare {
        op: CmpOp,
        signed: bool,
        sides: Box<(Num, Num)>,
    },
    CompareWide {
        op: CmpOp,
        sides: Box<(Wide, Wide)>,
    },
    Valid(HeaderRef),
    Not(Box<Cond>),
    And(Box<(Cond, Cond)>),
    Or(Box<(Cond, Cond)>),
    Same(Box<(Cond, Cond)>),
    /// All these pairs of headers are equal, or both invalid.
    SameHeaders(Vec<(HeaderRef, HeaderRef)>),
    If(Box<(Cond, Cond, Cond)>),
}

impl Cond {
    /// The condition that a slot of `width` bits holds `value`.
    pub fn slot_is(slot: usize, width: u32, value: u128, negated: bool) -> Cond {
        match u64::try_from(value) {
            Ok(value) if width <= 64 => Cond::WordIs {
                slot,
                value,
                negated,
            },
            _ => Cond::SlotIs {
                slot,
                value,
                negated,
            },
        }
    }

    pub fn valid(header: HeaderRef) -> Cond {
        match header {
            HeaderRef::Fixed(header) => Cond::HeaderIs {
                header,
                valid: true,
            },
            header => Cond::Valid(header),
        }
    }

    pub fn not(cond: Cond) -> Cond {
        match cond {
            Cond::Const(value) => Cond::Const(!value),
            Cond::Not(cond) => *cond,
            Cond::HeaderIs { header, valid } => Cond::HeaderIs {
                header,
                valid: !valid,
            },
            Cond::SlotIs {
                slot,
                value,
                negated,
            } => Cond::SlotIs {
                slot,
                value,
                negated: !negated,
            },
            Cond::WordIs {
                slot,
                value,
                negated,
            } => Cond::WordIs {
                slot,
                value,
                negated: !negated,
            },
            cond => Cond::Not(Box::new(cond)),
        }
    }

    /// Comparing a field with a constant and looking for a header, the most frequent conditions, cost no call.
    #[inline(always)]
    pub fn eval(&self, scope: &Scope) -> bool {
        match self {
            Cond::SlotIs {
                slot,
                value,
                negated,
            } => (scope.phv.slots[*slot] == *value) != *negated,
            Cond::WordIs {
                slot,
                value,
                negated,
            } => (scope.phv.slots[*slot] as u64 == *value) != *negated,
            Cond::HeaderIs { header, valid } => scope.phv.is_valid(*header) == *valid,
            _ => self.eval_tree(scope),
        }
    }

    #[inline(never)]
    fn eval_tree(&self, scope: &Scope) -> bool {
        match self {
            Cond::Const(value) => *value,
            Cond::SlotIs {
                slot,
                value,
                negated,
            } => (scope.phv.slots[*slot] == *value) != *negated,
            Cond::WordIs {
                slot,
                value,
                negated,
            } => (scope.phv.slots[*slot] as u64 == *value) != *negated,
            Cond::HeaderIs { header, valid } => scope.phv.is_valid(*header) == *valid,
            Cond::NonZero(num) => num.eval(scope) != 0,
            Cond::Compare {
                op,
                signed: false,
                sides,
            } => op.holds(&sides.0.eval(scope), &sides.1.eval(scope)),
            Cond::Compare {
                op,
                signed: true,
                sides,
            } => op.holds(
                &(sides.0.eval(scope) as i128),
                &(sides.1.eval(scope) as i128),
            ),
            Cond::CompareWide { op, sides } => {
                op.holds::<BigInt>(&sides.0.eval(scope), &sides.1.eval(scope))
            }
            Cond::Valid(header) => header
                .resolve(scope)
                .is_some_and(|header| scope.phv.is_valid(header)),
            Cond::Not(cond) => !cond.eval(scope),
            Cond::And(sides) => sides.0.eval(scope) && sides.1.eval(scope),
            Cond::Or(sides) => sides.0.eval(scope) || sides.1.eval(scope),
            Cond::Same(sides) => sides.0.eval(scope) == sides.1.eval(scope),
            Cond::SameHeaders(pairs) => pairs
                .iter()
                .all(|(left, right)| same_header(scope, left, right)),
            Cond::If(parts) => match parts.0.eval(scope) {
                true => parts.1.eval(scope),
                false => parts.2.eval(scope),
            },
        }
    }
}

fn same_header(scope: &Scope, left: &HeaderRef, right: &HeaderRef) -> bool {
    let (Some(left), Some(right)) = (left.resolve(scope), right.resolve(scope)) else {
        return false;
    };
    let phv = scope.phv;
    if !phv.is_valid(left) || !phv.is_valid(right) {
        return phv.is_valid(left) == phv.is_valid(right);
    }
    let (a, b) = (&scope.layout.headers[left], &scope.layout.headers[right]);
    phv.slots[a.slots.clone()] == phv.slots[b.slots.clone()]
        && phv.wide[a.wide.clone()] == phv.wide[b.wide.clone()]
        && phv.var_len(left) == phv.var_len(right)
}
