//! Runs a packet through the switch, in simple_switch's order.
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

mod flow;
mod pass;

use std::collections::{HashMap, VecDeque};

use crate::calculation;
use crate::entry::Replica;
use crate::expr::Args;
use crate::externs;
use crate::interpreter::Interpreter;
use crate::journal::{Half, Step};
use crate::packet_state::{CloneRequest, PacketState, Signals};
use crate::parse::parse;
use crate::phv::Phv;
use crate::profile::Profile;
use crate::queue::Queues;
use crate::standard::{DROP_PORT, instance};
use crate::table::Table;
use crate::trace_cache::{PassStart, Scratch, TraceCache};

/// A packet passes the ingress pipeline this often at most.
const MAX_PASSES: u32 = 8;
/// Copies of one packet at most.
const MAX_COPIES: usize = 1024;

/// The receivers of a packet's copies.
#[derive(Debug, Default)]
pub struct Replication {
    pub groups: HashMap<u16, Vec<Replica>>,
    pub sessions: HashMap<u16, CloneSession>,
}

#[derive(Debug, Default)]
pub struct CloneSession {
    pub replicas: Vec<Replica>,
    /// Bytes of the packet that its copies take along at most.
    pub packet_length: Option<usize>,
}

/// Buffers that outlive a packet.
#[derive(Debug, Default)]
pub struct Buffers {
    pub original: Vec<u8>,
    pub headers: Vec<u8>,
    pub previous: Phv,
    pub queue: VecDeque<(u16, PacketState)>,
    pub start: PassStart,
    pub scratch: Scratch,
}

/// The packet's next stage.
pub enum NextStage {
    /// Through [`Buffers::start`].
    Enter,
    /// Ingress, with headers and metadata already set.
    Ingress,
    Egress(u16),
    End,
}

pub struct PacketRun<'a> {
    pub interpreter: Interpreter<'a>,
    pub tables: &'a [Table],
    /// Version of all tables together.
    pub version: u64,
    pub profiles: &'a [Profile],
    pub replication: &'a Replication,
    pub buffers: &'a mut Buffers,
    pub traces: &'a mut TraceCache,
    pub queues: &'a mut Queues,
    pub none: &'a Args,
}

impl<'a> PacketRun<'a> {
    /// Takes a packet, which is all payload, through all its passes, and its copies after it.
    pub fn packet(&mut self, ingress_port: u16, packet: &mut PacketState) {
        packet.passes = 0;
        let start = &mut self.buffers.start;
        start.list = None;
        start.initial.clear();
        start.initial.extend([0, u128::from(ingress_port)]);
        self.until_end(NextStage::Enter, packet);
        let mut copies = 0;
        while let Some((port, mut copy)) = self.buffers.queue.pop_front() {
            if copies == MAX_COPIES {
                self.interpreter.faults.too_many_copies += 1;
                self.note(|| Step::Dropped {
                    reason: "it has too many copies",
                });
                self.buffers.queue.clear();
                break;
            }
            copies += 1;
            self.until_end(NextStage::Egress(port), &mut copy);
        }
    }

    fn until_end(&mut self, first: NextStage, packet: &mut PacketState) {
        let mut next = first;
        loop {
            next = match next {
                NextStage::Enter => self.enter(packet),
                NextStage::Ingress => self.ingress(packet),
                NextStage::Egress(port) => self.egress(port, packet),
                NextStage::End => return,
            };
        }
    }

    /// Adds a step to the journal, if there is one.
    #[inline]
    fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(journal) = &mut self.interpreter.journal {
            journal.note(step());
        }
    }

    pub(crate) fn set(&self, packet: &mut PacketState, slot: Option<usize>, value: u128) {
        if let Some(slot) = slot {
            packet.phv.slots[slot] = value;
        }
    }

    fn get(&self, packet: &PacketState, slot: Option<usize>) -> u128 {
        slot.map_or(0, |slot| packet.phv.slots[slot])
    }

    pub(crate) fn now(&self) -> u128 {
        self.interpreter.now.as_micros() & 0xffff_ffff_ffff
    }

    pub(crate) fn ingress(&mut self, packet: &mut PacketState) -> NextStage {
        let ir = self.interpreter.ir;
        if ir.keeps_original {
            self.buffers.original.clear();
            self.buffers
                .original
                .extend_from_slice(packet.payload.bytes());
        }
        self.begin_pass(packet);
        self.note(|| Step::Pass {
            reason: instance::name(
                packet
                    .phv
                    .slots
                    .get(ir.standard.instance_type.unwrap_or(usize::MAX)),
            ),
            port: packet.ingress_port as u16,
            bytes: packet.payload.len(),
        });
        self.parse(packet);
        self.flow(&ir.ingress, ir.ingress.start, Half::Ingress, packet);
        self.after_ingress(packet)
    }

    pub(crate) fn after_ingress(&mut self, packet: &mut PacketState) -> NextStage {
        let standard = &self.interpreter.ir.standard;
        if let Some(request) = packet
            .signals
            .clone
            .take()
            .filter(|request| request.from_ingress)
        {
            self.clone_original(request, packet.ingress_port, packet);
        }
        if let Some(fields) = packet.signals.resubmit.take() {
            packet.payload.load(&self.buffers.original);
            let (next, port) = (
                self.again(packet, fields, instance::RESUBMITTED),
                packet.ingress_port,
            );
            self.set(packet, standard.ingress_port, port);
            return next;
        }
        let group = self.get(packet, standard.mcast_grp) as u16;
        if group != 0 {
            self.set(packet, standard.instance_type, instance::REPLICATED);
            let replicas = self.replication.groups.get(&group);
            self.replicate(replicas.map_or(&[], Vec::as_slice), packet);
            return NextStage::End;
        }
        let port = self.get(packet, standard.egress_spec);
        if port == DROP_PORT {
            self.note(|| Step::Dropped {
                reason: "egress_spec is 511 after ingress",
            });
            return NextStage::End;
        }
        self.set(packet, standard.instance_type, instance::NORMAL);
        NextStage::Egress(port as u16)
    }

    fn begin_pass(&self, packet: &mut PacketState) {
        let standard = &self.interpreter.ir.standard;
        packet.signals = Signals::default();
        packet.ingress_len = packet.payload.len();
        packet.len = packet.ingress_len;
        packet.ingress_port = self.get(packet, standard.ingress_port);
        self.set(packet, standard.packet_length, packet.len as u128);
        self.set(packet, standard.ingress_timestamp, self.now());
    }

    fn parse(&mut self, packet: &mut PacketState) {
        let ir = self.interpreter.ir;
        let error = parse(&mut self.interpreter, self.none, packet);
        self.set(packet, ir.standard.parser_error, error);
        let wrong = calculation::verify(
            ir,
            packet,
            self.none,
            &mut self.interpreter.lane_scratch.scratch,
        );
        self.set(packet, ir.standard.checksum_error, u128::from(wrong));
        if let Some(journal) = &mut self.interpreter.journal {
            journal.parsed(error, wrong);
        }
    }

    /// Copies of the packet as this pass began with it, parsed anew.
    fn clone_original(&mut self, request: CloneRequest, ingress_port: u128, packet: &PacketState) {
        let ir = self.interpreter.ir;
        let Some(session) = self.replication.sessions.get(&request.session) else {
            return;
        };
        let mut copy = PacketState::new(&ir.layout);
        copy.passes = packet.passes;
        copy.payload.load(&self.buffers.original);
        self.set(&mut copy, ir.standard.ingress_port, ingress_port);
        self.begin_pass(&mut copy);
        self.parse(&mut copy);
        copy.signals = Signals::default();
        self.preserve(
            &mut copy,
            &packet.phv,
            request.fields,
            instance::INGRESS_CLONE,
        );
        copy.shorten(session.packet_length);
        self.replicate(&session.replicas, &copy);
    }

    /// Leaves only the listed metadata.
    fn preserve(&self, to: &mut PacketState, from: &Phv, fields: usize, instance_type: u128) {
        let ir = self.interpreter.ir;
        to.phv.reset_metadata(&ir.layout);
        ir.field_lists[fields]
            .iter()
            .for_each(|place| place.copy(&mut to.phv, from));
        self.set(to, ir.standard.instance_type, instance_type);
    }

    fn replicate(&mut self, replicas: &[Replica], packet: &PacketState) {
        for replica in replicas {
            let mut copy = packet.clone();
            copy.signals = Signals {
                truncate: packet.signals.truncate,
                ..Signals::default()
            };
            self.set(
                &mut copy,
                self.interpreter.ir.standard.egress_rid,
                u128::from(replica.instance),
            );
            self.note(|| Step::Copied {
                port: replica.port,
                instance: replica.instance,
            });
            self.buffers.queue.push_back((replica.port, copy));
        }
    }

    /// Another pass with the listed metadata, if the packet may have one.
    fn again(&mut self, packet: &mut PacketState, fields: usize, instance_type: u128) -> NextStage {
        let ir = self.interpreter.ir;
        if !self.may_pass_again(packet) {
            return NextStage::End;
        }
        if instance_type == instance::RECIRCULATED && PassStart::takes(ir, fields) {
            let start = &mut self.buffers.start;
            start.list = Some(fields);
            start.initial.clear();
            start.initial.push(0);
            let slots = start.slots(ir).skip(1);
            let kept = slots.map(|(slot, _)| slot.map_or(0, |slot| packet.phv.slots[slot]));
            start.initial.extend(kept);
            return NextStage::Enter;
        }
        std::mem::swap(&mut packet.phv, &mut self.buffers.previous);
        packet.phv.reset(&ir.layout);
        ir.field_lists[fields]
            .iter()
            .for_each(|place| place.copy(&mut packet.phv, &self.buffers.previous));
        self.set(packet, ir.standard.instance_type, instance_type);
        NextStage::Ingress
    }

    pub(crate) fn may_pass_again(&mut self, packet: &mut PacketState) -> bool {
        packet.passes += 1;
        let may = packet.passes < MAX_PASSES;
        if !may {
            self.interpreter.faults.too_many_passes += 1;
            self.note(|| Step::Dropped {
                reason: "it has passed the switch too often",
            });
        }
        may
    }

    pub(crate) fn egress(&mut self, port: u16, packet: &mut PacketState) -> NextStage {
        let ir = self.interpreter.ir;
        let standard = &ir.standard;
        packet.signals.exit = false;
        let reads_queue = !standard.queue.is_empty();
        let queue = reads_queue.then(|| self.queues.at(port));
        self.note(|| Step::Egress { port, queue });
        self.set(packet, standard.egress_port, u128::from(port));
        self.set(packet, standard.egress_spec, 0);
        self.set(packet, standard.packet_length, packet.len as u128);
        self.set(
            packet,
            standard.enqueue_timestamp,
            self.interpreter.now.as_micros() & 0xffff_ffff,
        );
        self.set(packet, standard.egress_timestamp, self.now());
        if let Some(queue) = queue {
            let fields = standard.queue.iter();
            fields.for_each(|field| field.fill(&mut packet.phv, queue));
        }
        self.flow(&ir.egress, ir.egress.start, Half::Egress, packet);
        self.after_egress(port, packet)
    }

    pub(crate) fn after_egress(&mut self, port: u16, packet: &mut PacketState) -> NextStage {
        let standard = &self.interpreter.ir.standard;
        if let Some(request) = packet
            .signals
            .clone
            .take()
            .filter(|request| !request.from_ingress)
            && let Some(session) = self.replication.sessions.get(&request.session)
        {
            let mut copy = packet.clone();
            copy.signals = Signals::default();
            self.preserve(
                &mut copy,
                &packet.phv,
                request.fields,
                instance::EGRESS_CLONE,
            );
            copy.shorten(session.packet_length);
            self.replicate(&session.replicas, &copy);
        }
        if self.get(packet, standard.egress_spec) == DROP_PORT {
            self.note(|| Step::Dropped {
                reason: "egress_spec is 511 after egress",
            });
            return NextStage::End;
        }
        self.send(port, packet)
    }

    /// Out of the port, or around again.
    pub(crate) fn send(&mut self, port: u16, packet: &mut PacketState) -> NextStage {
        let ir = self.interpreter.ir;
        calculation::update(
            ir,
            packet,
            self.none,
            &mut self.interpreter.lane_scratch.scratch,
        );
        self.deparse(packet);
        if let Some(fields) = packet.signals.recirculate {
            let headers = &self.buffers.headers;
            packet
                .payload
                .grow_front(headers.len())
                .copy_from_slice(headers);
            packet
                .payload
                .truncate(packet.signals.truncate.unwrap_or(usize::MAX));
            return self.again(packet, fields, instance::RECIRCULATED);
        }
        let limit = packet.signals.truncate.unwrap_or(usize::MAX);
        let headers = &self.buffers.headers[..self.buffers.headers.len().min(limit)];
        let payload = &packet.payload.bytes()[..packet.payload.len().min(limit - headers.len())];
        self.interpreter.out.send(port, [headers, payload]);
        if !ir.standard.queue.is_empty() {
            self.queues.sent(port);
        }
        if let (Some(journal), Some(sent)) = (
            &mut self.interpreter.journal,
            self.interpreter.out.sent.last(),
        ) {
            let bytes = sent.bytes.clone();
            journal.note(Step::Sent { port, bytes });
        }
        NextStage::End
    }

    fn deparse(&mut self, packet: &PacketState) {
        let ir = self.interpreter.ir;
        externs::deparse(ir, &packet.phv, &mut self.buffers.headers);
    }
}
