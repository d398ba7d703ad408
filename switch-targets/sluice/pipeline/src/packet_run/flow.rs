//! Runs a packet through one pipeline's flow: branches, statements, tables.

use super::PacketRun;
use crate::calculation;
use crate::expr::{Args, Scope};
use crate::ir::{FlowGraph, FlowNode, Next};
use crate::journal::Half;
use crate::packet_state::PacketState;
use crate::table::Found;

impl<'a> PacketRun<'a> {
    /// Runs a pipeline from a node on: no node twice, which the loader has made sure of.
    pub(super) fn flow(
        &mut self,
        flow: &FlowGraph,
        from: Next,
        half: Half,
        packet: &mut PacketState,
    ) {
        let ir = self.interpreter.ir;
        let mut next = from;
        while let (Some(node), false) = (next, packet.signals.exit) {
            match &flow.nodes[node] {
                FlowNode::Branch { cond, yes, no } => {
                    let scope = Scope {
                        layout: &ir.layout,
                        phv: &packet.phv,
                        args: self.none,
                    };
                    next = if cond.eval(&scope) {
                        // A jump that the processor predicts, where a conditional move would wait for the packet's data.
                        std::hint::black_box(());
                        *yes
                    } else {
                        *no
                    };
                    if let Some(journal) = &mut self.interpreter.journal {
                        journal.branch(half, node, next);
                    }
                }
                FlowNode::Run {
                    action,
                    args,
                    next: after,
                } => {
                    if let Some(journal) = &mut self.interpreter.journal {
                        journal.statement(half, node);
                    }
                    self.interpreter.act(&ir.actions[*action], args, packet);
                    next = *after;
                }
                FlowNode::Apply { table } => {
                    let scope = Scope {
                        layout: &ir.layout,
                        phv: &packet.phv,
                        args: self.none,
                    };
                    let entries = &self.tables[*table];
                    let found = entries.lookup(
                        &ir.tables[*table].key,
                        &scope,
                        &mut self.interpreter.lane_scratch.key,
                    );
                    entries.count(found, 1, packet.ingress_len as u64, self.interpreter.now);
                    if let Some(journal) = &mut self.interpreter.journal {
                        journal.table(
                            *table,
                            (entries, &self.interpreter.lane_scratch.key),
                            found,
                            None,
                        );
                    }
                    next = match entries.bound(found) {
                        Some(bound) => {
                            self.interpreter
                                .act(&ir.actions[bound.action], &bound.args, packet);
                            bound.next
                        }
                        None => entries.miss(),
                    };
                }
                FlowNode::ApplyExtended { table } => next = self.extended(*table, packet),
            }
        }
    }

    /// The action of a hit's member in the table's action profile.
    fn member(
        &mut self,
        table: usize,
        found: Found,
        packet: &PacketState,
    ) -> Option<(usize, &'a Args)> {
        let Found::Hit(row) = found else {
            return None;
        };
        let ir = self.interpreter.ir;
        let indirect = ir.tables[table].profile.as_ref()?;
        let reference = self.tables[table].reference(row)?;
        let scratch = &mut self.interpreter.lane_scratch.scratch;
        let hash = || {
            let selector = ir.selectors[indirect.profile];
            selector.map_or(0, |selector| {
                calculation::run(ir, selector, packet, scratch)
            })
        };
        let member = self.profiles[indirect.profile].resolve(reference, hash)?;
        Some((indirect.own(member.call.action.0)?, &member.args))
    }

    /// Applies a table as `Apply` does, with the entry's meter before its action, which may be a member's.
    fn extended(&mut self, table: usize, packet: &mut PacketState) -> Next {
        let ir = self.interpreter.ir;
        let scope = Scope {
            layout: &ir.layout,
            phv: &packet.phv,
            args: self.none,
        };
        let entries = &self.tables[table];
        let found = entries.lookup(
            &ir.tables[table].key,
            &scope,
            &mut self.interpreter.lane_scratch.key,
        );
        let bytes = packet.ingress_len as u64;
        entries.count(found, 1, bytes, self.interpreter.now);
        if let Found::Hit(row) = found
            && let (Some(direct), Some(mut meter)) = (&ir.tables[table].meter, entries.meter(row))
        {
            let color = meter.mark(direct.unit.of(bytes), bytes, self.interpreter.now);
            direct
                .target
                .set(&ir.layout, &mut packet.phv, self.none, color as u128);
        }
        let member = self.member(table, found, packet);
        if let Some(journal) = &mut self.interpreter.journal {
            journal.table(
                table,
                (entries, &self.interpreter.lane_scratch.key),
                found,
                member,
            );
        }
        if let Some((action, args)) = member {
            self.interpreter.act(&ir.actions[action], args, packet);
            return ir.tables[table].after_hit(action);
        }
        let entries = &self.tables[table];
        match entries.bound(found) {
            Some(bound) => {
                self.interpreter
                    .act(&ir.actions[bound.action], &bound.args, packet);
                bound.next
            }
            None => entries.miss(),
        }
    }
}
