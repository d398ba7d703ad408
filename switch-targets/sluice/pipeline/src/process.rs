//! A packet's way through the switch, as simple_switch defines it.
//!
//! ```text
//!             ┌────────── resubmit: as it came ──────────┐
//!             ▼                                          │
//!  packet ─► parse ─► verify ─► ingress ─┬─ clone ───────┼──► queue of copies ─┐
//!             ▲                          ├─ multicast ───┼──►                  │
//!             │                          ├─ drop         │                     │
//!             │                          └─ unicast ─────┼─► egress ◄──────────┘
//!             └────────── recirculate: as deparsed ──────┴──── ┴─ update ─► deparse ─► send
//! ```

use std::collections::{HashMap, VecDeque};

use crate::bitstream::Writer;
use crate::calculation;
use crate::entry::Replica;
use crate::expr::{Args, Scope};
use crate::ir::{Flow, FlowNode};
use crate::machine::{DROP_PORT, Machine};
use crate::parse::parse;
use crate::phv::Phv;
use crate::table::Table;
use crate::work::{CloneRequest, Signals, Work};

/// A packet passes the ingress pipeline this often at most.
const MAX_PASSES: u32 = 8;
/// One packet becomes this many at most.
const MAX_COPIES: usize = 1024;

/// `standard_metadata.instance_type` (simple_switch).
mod instance {
    pub const NORMAL: u128 = 0;
    pub const INGRESS_CLONE: u128 = 1;
    pub const EGRESS_CLONE: u128 = 2;
    pub const RECIRCULATED: u128 = 4;
    pub const REPLICATED: u128 = 5;
    pub const RESUBMITTED: u128 = 6;
}

/// Who gets copies.
#[derive(Debug, Default)]
pub struct Replication {
    pub groups: HashMap<u16, Vec<Replica>>,
    pub sessions: HashMap<u16, Vec<Replica>>,
}

/// Buffers that outlive a packet.
#[derive(Debug, Default)]
pub struct Buffers {
    pub original: Vec<u8>,
    pub headers: Vec<u8>,
    pub previous: Phv,
    pub queue: VecDeque<(u16, Work)>,
}

/// Where a packet goes next.
enum Then {
    Ingress,
    Egress(u16),
    End,
}

pub struct Run<'a> {
    pub machine: Machine<'a>,
    pub tables: &'a mut [Table],
    pub replication: &'a Replication,
    pub buffers: &'a mut Buffers,
    pub none: &'a Args,
}

impl Run<'_> {
    /// Takes a packet, which is all payload, through all its passes, and its copies after it.
    pub fn packet(&mut self, ingress_port: u16, work: &mut Work) {
        work.phv.reset(&self.machine.ir.layout);
        work.passes = 0;
        self.set(
            work,
            self.machine.ir.standard.ingress_port,
            u128::from(ingress_port),
        );
        self.set(
            work,
            self.machine.ir.standard.instance_type,
            instance::NORMAL,
        );
        self.until_end(Then::Ingress, work);
        let mut copies = 0;
        while let Some((port, mut copy)) = self.buffers.queue.pop_front() {
            if copies == MAX_COPIES {
                self.machine.faults.too_many_copies += 1;
                self.buffers.queue.clear();
                break;
            }
            copies += 1;
            self.until_end(Then::Egress(port), &mut copy);
        }
    }

    fn until_end(&mut self, first: Then, work: &mut Work) {
        let mut then = first;
        loop {
            then = match then {
                Then::Ingress => self.ingress(work),
                Then::Egress(port) => self.egress(port, work),
                Then::End => return,
            };
        }
    }

    fn set(&self, work: &mut Work, slot: Option<usize>, value: u128) {
        if let Some(slot) = slot {
            work.phv.slots[slot] = value;
        }
    }

    fn get(&self, work: &Work, slot: Option<usize>) -> u128 {
        slot.map_or(0, |slot| work.phv.slots[slot])
    }

    fn ingress(&mut self, work: &mut Work) -> Then {
        let ir = self.machine.ir;
        let standard = &ir.standard;
        if ir.keeps_original {
            self.buffers.original.clear();
            self.buffers
                .original
                .extend_from_slice(work.payload.bytes());
        }
        self.begin_pass(work);
        let ingress_port = self.get(work, standard.ingress_port);
        self.parse(work);
        self.flow(&ir.ingress, work);
        if let Some(request) = work
            .signals
            .clone
            .take()
            .filter(|request| request.from_ingress)
        {
            self.clone_original(request, ingress_port, work);
        }
        if let Some(fields) = work.signals.resubmit.take() {
            work.payload.load(&self.buffers.original);
            let then = self.again(work, fields, instance::RESUBMITTED);
            self.set(work, standard.ingress_port, ingress_port);
            return then;
        }
        let group = self.get(work, standard.mcast_grp) as u16;
        if group != 0 {
            self.set(work, standard.instance_type, instance::REPLICATED);
            self.replicate(self.replication.groups.get(&group), work);
            return Then::End;
        }
        let port = self.get(work, standard.egress_spec);
        if port == DROP_PORT {
            return Then::End;
        }
        self.set(work, standard.instance_type, instance::NORMAL);
        Then::Egress(port as u16)
    }

    fn begin_pass(&self, work: &mut Work) {
        let standard = &self.machine.ir.standard;
        work.signals = Signals::default();
        work.ingress_len = work.payload.len();
        work.len = work.ingress_len;
        self.set(work, standard.packet_length, work.len as u128);
        self.set(
            work,
            standard.ingress_timestamp,
            self.machine.now.as_micros() & 0xffff_ffff_ffff,
        );
    }

    fn parse(&mut self, work: &mut Work) {
        let ir = self.machine.ir;
        let error = parse(&mut self.machine, self.none, work);
        self.set(work, ir.standard.parser_error, error);
        let wrong = calculation::verify(ir, work, self.none, &mut self.machine.objects.scratch);
        self.set(work, ir.standard.checksum_error, u128::from(wrong));
    }

    /// Copies of the packet as this pass began with it, parsed anew.
    fn clone_original(&mut self, request: CloneRequest, ingress_port: u128, work: &Work) {
        let ir = self.machine.ir;
        let replicas = self.replication.sessions.get(&request.session);
        if replicas.is_none_or(|replicas| replicas.is_empty()) {
            return;
        }
        let mut copy = Work::new(&ir.layout);
        copy.passes = work.passes;
        copy.payload.load(&self.buffers.original);
        self.set(&mut copy, ir.standard.ingress_port, ingress_port);
        self.begin_pass(&mut copy);
        self.parse(&mut copy);
        copy.signals = Signals::default();
        self.preserve(
            &mut copy,
            &work.phv,
            request.fields,
            instance::INGRESS_CLONE,
        );
        self.replicate(replicas, &copy);
    }

    /// Only the listed metadata is left.
    fn preserve(&self, to: &mut Work, from: &Phv, fields: usize, instance_type: u128) {
        let ir = self.machine.ir;
        to.phv.reset_metadata(&ir.layout);
        ir.field_lists[fields]
            .iter()
            .for_each(|place| place.copy(&mut to.phv, from));
        self.set(to, ir.standard.instance_type, instance_type);
    }

    fn replicate(&mut self, replicas: Option<&Vec<Replica>>, work: &Work) {
        for replica in replicas.into_iter().flatten() {
            let mut copy = work.clone();
            copy.signals = Signals {
                truncate: work.signals.truncate,
                ..Signals::default()
            };
            self.set(
                &mut copy,
                self.machine.ir.standard.egress_rid,
                u128::from(replica.instance),
            );
            self.buffers.queue.push_back((replica.port, copy));
        }
    }

    /// Another pass with the listed metadata, if the packet may have one.
    fn again(&mut self, work: &mut Work, fields: usize, instance_type: u128) -> Then {
        let ir = self.machine.ir;
        work.passes += 1;
        if work.passes >= MAX_PASSES {
            self.machine.faults.too_many_passes += 1;
            return Then::End;
        }
        std::mem::swap(&mut work.phv, &mut self.buffers.previous);
        work.phv.reset(&ir.layout);
        ir.field_lists[fields]
            .iter()
            .for_each(|place| place.copy(&mut work.phv, &self.buffers.previous));
        self.set(work, ir.standard.instance_type, instance_type);
        Then::Ingress
    }

    fn egress(&mut self, port: u16, work: &mut Work) -> Then {
        let ir = self.machine.ir;
        let standard = &ir.standard;
        work.signals.exit = false;
        self.set(work, standard.egress_port, u128::from(port));
        self.set(work, standard.egress_spec, 0);
        self.set(work, standard.packet_length, work.len as u128);
        self.set(
            work,
            standard.enqueue_timestamp,
            self.machine.now.as_micros() & 0xffff_ffff,
        );
        self.set(
            work,
            standard.egress_timestamp,
            self.machine.now.as_micros() & 0xffff_ffff_ffff,
        );
        self.flow(&ir.egress, work);
        if let Some(request) = work
            .signals
            .clone
            .take()
            .filter(|request| !request.from_ingress)
        {
            let mut copy = work.clone();
            copy.signals = Signals::default();
            self.preserve(&mut copy, &work.phv, request.fields, instance::EGRESS_CLONE);
            self.replicate(self.replication.sessions.get(&request.session), &copy);
        }
        if self.get(work, standard.egress_spec) == DROP_PORT {
            return Then::End;
        }
        calculation::update(ir, work, self.none, &mut self.machine.objects.scratch);
        self.deparse(work);
        if let Some(fields) = work.signals.recirculate {
            let headers = &self.buffers.headers;
            work.payload
                .grow_front(headers.len())
                .copy_from_slice(headers);
            work.payload
                .truncate(work.signals.truncate.unwrap_or(usize::MAX));
            return self.again(work, fields, instance::RECIRCULATED);
        }
        let limit = work.signals.truncate.unwrap_or(usize::MAX);
        let headers = &self.buffers.headers[..self.buffers.headers.len().min(limit)];
        let payload = &work.payload.bytes()[..work.payload.len().min(limit - headers.len())];
        self.machine.out.send(port, [headers, payload]);
        Then::End
    }

    fn deparse(&mut self, work: &Work) {
        let ir = self.machine.ir;
        self.buffers.headers.clear();
        let mut writer = Writer::new(&mut self.buffers.headers);
        for header in &ir.deparser {
            if work.phv.is_valid(*header) {
                calculation::write_header(&mut writer, &ir.layout, &work.phv, *header);
            }
        }
        writer.finish();
    }

    /// Runs a pipeline: no node twice, which the loader has made sure of.
    fn flow(&mut self, flow: &Flow, work: &mut Work) {
        let ir = self.machine.ir;
        let mut next = flow.start;
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
                }
                FlowNode::Run {
                    action,
                    args,
                    next: after,
                } => {
                    self.machine.run(&ir.actions[*action].ops, args, work);
                    next = *after;
                }
                FlowNode::Apply { table } => {
                    let scope = Scope {
                        layout: &ir.layout,
                        phv: &work.phv,
                        args: self.none,
                    };
                    let entries = &mut self.tables[*table];
                    let found = entries.lookup(&ir.tables[*table].key, &scope);
                    entries.count(found, work.ingress_len as u64, self.machine.now);
                    next = match entries.bound(found) {
                        Some(bound) => {
                            self.machine
                                .run(&ir.actions[bound.action].ops, &bound.args, work);
                            bound.next
                        }
                        None => entries.miss(),
                    };
                }
            }
        }
    }
}
