//! Conditions as branches: a branch tests one thing, so that running it calls nothing.
//!
//! ```text
//!   if (a && (b || !c)) yes else no      a ─ no ──────────────► no
//!                                        └ yes ─► b ─ yes ───► yes
//!                                                 └ no ─► c ─► no, else yes
//! ```

use crate::cond::Cond;
use crate::ir::{FlowNode, Next};

/// Gives the branch at `at`, which knows where it leads, its condition. Parts of the condition become nodes behind the others.
pub fn set(nodes: &mut Vec<FlowNode>, at: usize, cond: Cond) {
    if let Some(FlowNode::Branch { yes, no, .. }) = nodes.get(at) {
        let (yes, no) = (*yes, *no);
        let node = split(nodes, cond, yes, no);
        nodes[at] = node;
    }
}

fn split(nodes: &mut Vec<FlowNode>, cond: Cond, yes: Next, no: Next) -> FlowNode {
    match cond {
        Cond::Not(cond) => split(nodes, *cond, no, yes),
        Cond::And(sides) => {
            let second = push(nodes, sides.1, yes, no);
            split(nodes, sides.0, second, no)
        }
        Cond::Or(sides) => {
            let second = push(nodes, sides.1, yes, no);
            split(nodes, sides.0, yes, second)
        }
        cond => FlowNode::Branch { cond, yes, no },
    }
}

fn push(nodes: &mut Vec<FlowNode>, cond: Cond, yes: Next, no: Next) -> Next {
    let node = split(nodes, cond, yes, no);
    nodes.push(node);
    Some(nodes.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Args, Scope};
    use crate::layout::Layout;
    use crate::phv::Phv;

    const YES: Next = Some(1000);
    const NO: Next = Some(1001);

    fn slot(slot: usize) -> Cond {
        Cond::SlotIs {
            slot,
            value: 1,
            negated: false,
        }
    }

    #[test]
    fn branches_decide_as_the_condition_does() {
        let or = Cond::Or(Box::new((slot(1), Cond::Not(Box::new(slot(2))))));
        let cond = Cond::And(Box::new((slot(0), Cond::Not(Box::new(or)))));
        let placeholder = FlowNode::Branch {
            cond: Cond::Const(true),
            yes: YES,
            no: NO,
        };
        let mut nodes = vec![placeholder];
        set(&mut nodes, 0, cond.clone());
        let (layout, args, mut phv) = (Layout::default(), Args::default(), Phv::default());
        for bits in 0..8_u128 {
            phv.slots = (0..3).map(|slot| bits >> slot & 1).collect();
            let scope = Scope {
                layout: &layout,
                phv: &phv,
                args: &args,
            };
            let mut next = Some(0);
            while let Some(FlowNode::Branch { cond, yes, no }) =
                next.and_then(|node| nodes.get(node))
            {
                next = if cond.eval(&scope) { *yes } else { *no };
            }
            assert_eq!(next, if cond.eval(&scope) { YES } else { NO });
        }
    }
}
