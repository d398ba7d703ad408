//! A pass on a recorded path: found, replayed, finished, or left for the interpreter.

use super::cache::At;
use super::path::{End, Resume};
use super::replay::{Replayed, fill_in, replay, restore};
use super::{Actual, Entrance, INPUT, record};
use crate::journal::Half;
use crate::process::{Buffers, Run, Then};
use crate::work::Work;

impl Run<'_> {
    /// A pass on a recorded path, or through the interpreter.
    pub fn enter(&mut self, work: &mut Work) -> Then {
        let now = self.now();
        self.buffers.entrance.initial[0] = now;
        // A path has no steps to tell.
        let records = self.paths.is_on() && self.machine.journal.is_none() && {
            self.begin_replay(work);
            if let Some(then) = self.replay(work) {
                return then;
            }
            self.paths.is_due()
        };
        let ir = self.machine.ir;
        work.phv.reset(&ir.layout);
        let entrance = &self.buffers.entrance;
        for ((slot, _), value) in entrance.slots(ir).zip(&entrance.initial) {
            if let Some(slot) = slot {
                work.phv.slots[slot] = *value;
            }
        }
        self.set(work, ir.standard.instance_type, entrance.instance_type());
        if records {
            self.record(work)
        } else {
            self.ingress(work)
        }
    }

    fn begin_replay(&mut self, work: &mut Work) {
        let bytes = work.payload.bytes();
        work.ingress_len = bytes.len();
        if self.machine.ir.keeps_original {
            self.buffers.original.clear();
            self.buffers.original.extend_from_slice(bytes);
        }
        let taken = bytes.len().min(INPUT);
        self.buffers.scratch.input[..taken].copy_from_slice(&bytes[..taken]);
    }

    fn replay(&mut self, work: &mut Work) -> Option<Then> {
        let mut last = None;
        loop {
            let Buffers {
                entrance, scratch, ..
            } = &mut *self.buffers;
            let at = self.paths.find(
                entrance,
                &scratch.input,
                work.ingress_len,
                (self.tables, self.version),
                last,
            )?;
            let path = self.paths.path(at)?;
            let machine = &mut self.machine;
            match replay(path, scratch, entrance, machine, work) {
                Replayed::Unmet => last = Some(at),
                Replayed::Done => {
                    let (entrance, now) = (entrance.index(), self.machine.now);
                    self.paths.used(entrance, at, work.ingress_len, now);
                    return Some(self.finish(at, work));
                }
                Replayed::Exited(exit) => return Some(self.resume(at, exit, work)),
            }
        }
    }

    /// The end of a replayed pass.
    fn finish(&mut self, at: At, work: &mut Work) -> Then {
        let Buffers {
            entrance, scratch, ..
        } = &mut *self.buffers;
        match self.paths.path(at).map(|path| &path.end) {
            Some(End::Send { port, headers: end }) => {
                let out = &mut self.machine.out;
                out.send(*port, [&end.template, work.payload.bytes()]);
                if let Some(sent) = out.sent.last_mut() {
                    fill_in(end, scratch, &mut sent.bytes);
                }
                Then::End
            }
            Some(End::Recirculate {
                list,
                carry,
                headers: end,
            }) => {
                entrance.list = Some(*list);
                entrance.initial.truncate(1);
                let carried = carry.iter().map(|at| scratch.number(*at));
                entrance.initial.extend(carried);
                let front = work.payload.grow_front(end.template.len());
                front.copy_from_slice(&end.template);
                fill_in(end, scratch, front);
                match self.may_pass_again(work) {
                    true => Then::Enter,
                    false => Then::End,
                }
            }
            Some(End::Drop) | None => Then::End,
        }
    }

    /// Leaves a path for the interpreter.
    fn resume(&mut self, at: At, exit: usize, work: &mut Work) -> Then {
        let ir = self.machine.ir;
        let Buffers {
            entrance, scratch, ..
        } = &mut *self.buffers;
        let Some(path) = self.paths.path(at) else {
            return Then::End;
        };
        let exit = &path.exits[exit];
        restore(path, exit, scratch, entrance, &ir.layout, work);
        let resume = exit.resume;
        for (table, found) in &path.counted[..exit.counted] {
            self.tables[*table].count(*found, 1, work.ingress_len as u64, self.machine.now);
        }
        self.paths.exited(at, self.tables);
        match resume {
            Resume::Ingress(node) => {
                self.flow(&ir.ingress, Some(node), Half::Ingress, work);
                self.after_ingress(work)
            }
            Resume::Egress { node, port } => {
                self.flow(&ir.egress, Some(node), Half::Egress, work);
                self.after_egress(port, work)
            }
            Resume::Update { port } => self.send(port, work),
        }
    }

    /// A pass through the interpreter that may leave a path behind.
    fn record(&mut self, work: &mut Work) -> Then {
        let out = &self.machine.out;
        let (sent, digests, queued) = (out.sent.len(), out.digests.len(), self.buffers.queue.len());
        let entrance = Entrance {
            list: self.buffers.entrance.list,
            initial: self.buffers.entrance.initial.clone(),
        };
        let (input, len) = (self.buffers.scratch.input, work.ingress_len);
        self.machine.log.results.clear();
        self.machine.log.is_spoiled = false;
        self.machine.log.is_on = true;
        let mut then = self.ingress(work);
        if let Then::Egress(port) = then {
            then = self.egress(port, work);
        }
        self.machine.log.is_on = false;
        let out = &self.machine.out;
        if self.machine.log.is_spoiled
            || out.digests.len() != digests
            || self.buffers.queue.len() != queued
        {
            return then;
        }
        let headers = self.buffers.headers.as_slice();
        let actual = match then {
            Then::End if out.sent.len() == sent => Actual::Dropped,
            Then::End => Actual::Sent {
                port: out.sent[sent].port,
                headers,
            },
            Then::Enter => Actual::Recirculated {
                list: self.buffers.entrance.list.unwrap_or_default(),
                headers,
            },
            Then::Ingress | Then::Egress(_) => return then,
        };
        let (ir, log) = (self.machine.ir, &mut *self.machine.log);
        if let Some((shape, path)) = record(ir, self.tables, log, &entrance, &input, len, &actual) {
            let tables = (self.tables, self.version);
            self.paths.insert(&entrance, &input, shape, path, tables);
        }
        then
    }
}
