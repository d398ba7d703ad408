//! A packet's way through a pipeline: branches, statements, tables.

use crate::calculation;
use crate::expr::{Args, Scope};
use crate::ir::{Flow, FlowNode, Next};
use crate::journal::Half;
use crate::process::Run;
use crate::table::Found;
use crate::work::Work;

impl<'a> Run<'a> {
    /// Runs a pipeline from a node on: no node twice, which the loader has made sure of.
    pub(crate) fn flow(&mut self, flow: &Flow, from: Next, half: Half, work: &mut Work) {
        let ir = self.machine.ir;
        let mut next = from;
        while let (Some(node), false) = (next, work.signals.exit) {
            match &flow.nodes[node] {
                FlowNode::Branch { cond, yes, no } => {
                    let scope = Scope {
                        layout: &ir.layout,
                        phv: &work.phv,
                        args: self.none,
                    };
                    next = if cond.eval(&scope) {
                        // A jump that the processor predicts, where a conditional move would wait for the packet's data.
                        std::hint::black_box(());
                        *yes
                    } else {
                        *no
                    };
                    if let Some(journal) = &mut self.machine.journal {
                        journal.branch(half, node, next);
                    }
                }
                FlowNode::Run {
                    action,
                    args,
                    next: after,
                } => {
                    if let Some(journal) = &mut self.machine.journal {
                        journal.statement(half, node);
                    }
                    self.machine.act(&ir.actions[*action], args, work);
                    next = *after;
                }
                FlowNode::Apply { table } => {
                    let scope = Scope {
                        layout: &ir.layout,
                        phv: &work.phv,
                        args: self.none,
                    };
                    let entries = &self.tables[*table];
                    let found =
                        entries.lookup(&ir.tables[*table].key, &scope, &mut self.machine.own.key);
                    entries.count(found, 1, work.ingress_len as u64, self.machine.now);
                    if let Some(journal) = &mut self.machine.journal {
                        journal.table(*table, (entries, &self.machine.own.key), found, None);
                    }
                    next = match entries.bound(found) {
                        Some(bound) => {
                            self.machine
                                .act(&ir.actions[bound.action], &bound.args, work);
                            bound.next
                        }
                        None => entries.miss(),
                    };
                }
                FlowNode::ApplyExtended { table } => next = self.extended(*table, work),
            }
        }
    }

    /// What the table's action profile has a hit do.
    fn member(&mut self, table: usize, found: Found, work: &Work) -> Option<(usize, &'a Args)> {
        let Found::Hit(row) = found else {
            return None;
        };
        let ir = self.machine.ir;
        let indirect = ir.tables[table].profile.as_ref()?;
        let reference = self.tables[table].reference(row)?;
        let scratch = &mut self.machine.own.scratch;
        let hash = || {
            let selector = ir.selectors[indirect.profile];
            selector.map_or(0, |selector| calculation::run(ir, selector, work, scratch))
        };
        let member = self.profiles[indirect.profile].resolve(reference, hash)?;
        Some((indirect.own(member.call.action.0)?, &member.args))
    }

    /// As `Apply`, with the entry's meter before its action, which may be a member's.
    fn extended(&mut self, table: usize, work: &mut Work) -> Next {
        let ir = self.machine.ir;
        let scope = Scope {
            layout: &ir.layout,
            phv: &work.phv,
            args: self.none,
        };
        let entries = &self.tables[table];
        let found = entries.lookup(&ir.tables[table].key, &scope, &mut self.machine.own.key);
        let bytes = work.ingress_len as u64;
        entries.count(found, 1, bytes, self.machine.now);
        if let Found::Hit(row) = found
            && let (Some(direct), Some(mut meter)) = (&ir.tables[table].meter, entries.meter(row))
        {
            let color = meter.mark(direct.unit.of(bytes), bytes, self.machine.now);
            direct
                .target
                .set(&ir.layout, &mut work.phv, self.none, color as u128);
        }
        let member = self.member(table, found, work);
        if let Some(journal) = &mut self.machine.journal {
            journal.table(table, (entries, &self.machine.own.key), found, member);
        }
        if let Some((action, args)) = member {
            self.machine.act(&ir.actions[action], args, work);
            return ir.tables[table].after_hit(action);
        }
        let entries = &self.tables[table];
        match entries.bound(found) {
            Some(bound) => {
                self.machine
                    .act(&ir.actions[bound.action], &bound.args, work);
                bound.next
            }
            None => entries.miss(),
        }
    }
}
