//! Runs one pass: finds a trace and replays it, or interprets the pass and may record it.

use super::{Buffers, NextStage, PacketRun};
use crate::journal::Half;
use crate::packet_state::PacketState;
use crate::trace_cache::{
    End, INPUT, PassEnd, PassStart, Replayed, Resume, TraceRef, fill_in, record, replay, restore,
};

impl PacketRun<'_> {
    /// Runs a pass by replay or by interpretation.
    pub fn enter(&mut self, packet: &mut PacketState) -> NextStage {
        let now = self.now();
        self.buffers.start.initial[0] = now;
        // A journal needs the interpreter: a trace has no program steps.
        let records = self.traces.is_on() && self.interpreter.journal.is_none() && {
            self.begin_replay(packet);
            if let Some(next) = self.replay(packet) {
                return next;
            }
            self.traces.is_due()
        };
        let ir = self.interpreter.ir;
        packet.phv.reset(&ir.layout);
        let start = &self.buffers.start;
        for ((slot, _), value) in start.slots(ir).zip(&start.initial) {
            if let Some(slot) = slot {
                packet.phv.slots[slot] = *value;
            }
        }
        self.set(packet, ir.standard.instance_type, start.instance_type());
        if records {
            self.record(packet)
        } else {
            self.ingress(packet)
        }
    }

    fn begin_replay(&mut self, packet: &mut PacketState) {
        let bytes = packet.payload.bytes();
        packet.ingress_len = bytes.len();
        if self.interpreter.ir.keeps_original {
            self.buffers.original.clear();
            self.buffers.original.extend_from_slice(bytes);
        }
        let taken = bytes.len().min(INPUT);
        self.buffers.scratch.input[..taken].copy_from_slice(&bytes[..taken]);
    }

    fn replay(&mut self, packet: &mut PacketState) -> Option<NextStage> {
        let mut last = None;
        loop {
            let Buffers { start, scratch, .. } = &mut *self.buffers;
            let at = self.traces.find(
                start,
                &scratch.input,
                packet.ingress_len,
                (self.tables, self.version),
                last,
            )?;
            let trace = self.traces.trace(at)?;
            let interpreter = &mut self.interpreter;
            match replay(trace, scratch, start, interpreter, packet) {
                Replayed::Unmet => last = Some(at),
                Replayed::Done => {
                    let (start, now) = (start.index(), self.interpreter.now);
                    self.traces.used(start, at, packet.ingress_len, now);
                    return Some(self.finish(at, packet));
                }
                Replayed::Exited(exit) => return Some(self.resume(at, exit, packet)),
            }
        }
    }

    /// Ends a replayed pass.
    fn finish(&mut self, at: TraceRef, packet: &mut PacketState) -> NextStage {
        let Buffers { start, scratch, .. } = &mut *self.buffers;
        match self.traces.trace(at).map(|trace| &trace.end) {
            Some(End::Send { port, headers: end }) => {
                let out = &mut self.interpreter.out;
                out.send(*port, [&end.template, packet.payload.bytes()]);
                if let Some(sent) = out.sent.last_mut() {
                    fill_in(end, scratch, &mut sent.bytes);
                }
                NextStage::End
            }
            Some(End::Recirculate {
                list,
                carry,
                headers: end,
            }) => {
                start.list = Some(*list);
                start.initial.truncate(1);
                let carried = carry.iter().map(|at| scratch.number(*at));
                start.initial.extend(carried);
                let front = packet.payload.grow_front(end.template.len());
                front.copy_from_slice(&end.template);
                fill_in(end, scratch, front);
                match self.may_pass_again(packet) {
                    true => NextStage::Enter,
                    false => NextStage::End,
                }
            }
            Some(End::Drop) | None => NextStage::End,
        }
    }

    /// Continues in the interpreter after a failed guard.
    fn resume(&mut self, at: TraceRef, exit: usize, packet: &mut PacketState) -> NextStage {
        let ir = self.interpreter.ir;
        let Buffers { start, scratch, .. } = &mut *self.buffers;
        let Some(trace) = self.traces.trace(at) else {
            return NextStage::End;
        };
        let exit = &trace.exits[exit];
        restore(trace, exit, scratch, start, &ir.layout, packet);
        let resume = exit.resume;
        for (table, found) in &trace.counted[..exit.counted] {
            self.tables[*table].count(*found, 1, packet.ingress_len as u64, self.interpreter.now);
        }
        self.traces.exited(at, self.tables);
        match resume {
            Resume::Ingress(node) => {
                self.flow(&ir.ingress, Some(node), Half::Ingress, packet);
                self.after_ingress(packet)
            }
            Resume::Egress { node, port } => {
                self.flow(&ir.egress, Some(node), Half::Egress, packet);
                self.after_egress(port, packet)
            }
            Resume::Update { port } => self.send(port, packet),
        }
    }

    /// Interprets a pass and records a trace of it where one can hold it.
    fn record(&mut self, packet: &mut PacketState) -> NextStage {
        let out = &self.interpreter.out;
        let (sent, digests, queued) = (out.sent.len(), out.digests.len(), self.buffers.queue.len());
        let start = PassStart {
            list: self.buffers.start.list,
            initial: self.buffers.start.initial.clone(),
        };
        let (input, len) = (self.buffers.scratch.input, packet.ingress_len);
        self.interpreter.log.results.clear();
        self.interpreter.log.is_spoiled = false;
        self.interpreter.log.is_on = true;
        let mut next = self.ingress(packet);
        if let NextStage::Egress(port) = next {
            next = self.egress(port, packet);
        }
        self.interpreter.log.is_on = false;
        let out = &self.interpreter.out;
        if self.interpreter.log.is_spoiled
            || out.digests.len() != digests
            || self.buffers.queue.len() != queued
        {
            return next;
        }
        let headers = self.buffers.headers.as_slice();
        let interpreted = match next {
            NextStage::End if out.sent.len() == sent => PassEnd::Dropped,
            NextStage::End => PassEnd::Sent {
                port: out.sent[sent].port,
                headers,
            },
            NextStage::Enter => PassEnd::Recirculated {
                list: self.buffers.start.list.unwrap_or_default(),
                headers,
            },
            NextStage::Ingress | NextStage::Egress(_) => return next,
        };
        let (ir, log) = (self.interpreter.ir, &mut *self.interpreter.log);
        if let Some((match_mask, trace)) =
            record(ir, self.tables, log, &start, &input, len, &interpreted)
        {
            let tables = (self.tables, self.version);
            self.traces
                .insert(&start, &input, match_mask, trace, tables);
        }
        next
    }
}
