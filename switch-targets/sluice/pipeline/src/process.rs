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

use crate::calculation;
use crate::entry::Replica;
use crate::expr::Args;
use crate::journal::{Half, Step};
use crate::machine::{DROP_PORT, Machine};
use crate::packet;
use crate::parse::parse;
use crate::paths::{Entrance, PathCache, Scratch};
use crate::phv::Phv;
use crate::profile::Profile;
use crate::table::Table;
use crate::work::{CloneRequest, Signals, Work};

/// A packet passes the ingress pipeline this often at most.
const MAX_PASSES: u32 = 8;
/// One packet becomes this many at most.
const MAX_COPIES: usize = 1024;

/// `standard_metadata.instance_type` (simple_switch).
pub mod instance {
    pub const NORMAL: u128 = 0;
    pub const INGRESS_CLONE: u128 = 1;
    pub const EGRESS_CLONE: u128 = 2;
    pub const RECIRCULATED: u128 = 4;
    pub const REPLICATED: u128 = 5;
    pub const RESUBMITTED: u128 = 6;

    /// How a packet comes to the parser.
    pub fn name(instance_type: Option<&u128>) -> &'static str {
        match instance_type {
            Some(&INGRESS_CLONE) => "cloned",
            Some(&RECIRCULATED) => "recirculated",
            Some(&RESUBMITTED) => "resubmitted",
            _ => "received",
        }
    }
}

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
    pub queue: VecDeque<(u16, Work)>,
    pub entrance: Entrance,
    pub scratch: Scratch,
}

/// Where a packet goes next.
pub enum Then {
    /// Through [`Buffers::entrance`].
    Enter,
    /// With headers and metadata that are ready.
    Ingress,
    Egress(u16),
    End,
}

pub struct Run<'a> {
    pub machine: Machine<'a>,
    pub tables: &'a [Table],
    /// Of all tables together.
    pub version: u64,
    pub profiles: &'a [Profile],
    pub replication: &'a Replication,
    pub buffers: &'a mut Buffers,
    pub paths: &'a mut PathCache,
    pub none: &'a Args,
}

impl<'a> Run<'a> {
    /// Takes a packet, which is all payload, through all its passes, and its copies after it.
    pub fn packet(&mut self, ingress_port: u16, work: &mut Work) {
        work.passes = 0;
        let entrance = &mut self.buffers.entrance;
        entrance.list = None;
        entrance.initial.clear();
        entrance.initial.extend([0, u128::from(ingress_port)]);
        self.until_end(Then::Enter, work);
        let mut copies = 0;
        while let Some((port, mut copy)) = self.buffers.queue.pop_front() {
            if copies == MAX_COPIES {
                self.machine.faults.too_many_copies += 1;
                self.note(|| Step::Dropped {
                    reason: "it has too many copies",
                });
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
                Then::Enter => self.enter(work),
                Then::Ingress => self.ingress(work),
                Then::Egress(port) => self.egress(port, work),
                Then::End => return,
            };
        }
    }

    /// Writes a step of the packet's way down, if anyone asks.
    #[inline]
    fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(journal) = &mut self.machine.journal {
            journal.note(step());
        }
    }

    pub(crate) fn set(&self, work: &mut Work, slot: Option<usize>, value: u128) {
        if let Some(slot) = slot {
            work.phv.slots[slot] = value;
        }
    }

    fn get(&self, work: &Work, slot: Option<usize>) -> u128 {
        slot.map_or(0, |slot| work.phv.slots[slot])
    }

    pub(crate) fn now(&self) -> u128 {
        self.machine.now.as_micros() & 0xffff_ffff_ffff
    }

    pub(crate) fn ingress(&mut self, work: &mut Work) -> Then {
        let ir = self.machine.ir;
        if ir.keeps_original {
            self.buffers.original.clear();
            self.buffers
                .original
                .extend_from_slice(work.payload.bytes());
        }
        self.begin_pass(work);
        self.note(|| Step::Pass {
            reason: instance::name(
                work.phv
                    .slots
                    .get(ir.standard.instance_type.unwrap_or(usize::MAX)),
            ),
            port: work.ingress_port as u16,
            bytes: work.payload.len(),
        });
        self.parse(work);
        self.flow(&ir.ingress, ir.ingress.start, Half::Ingress, work);
        self.after_ingress(work)
    }

    pub(crate) fn after_ingress(&mut self, work: &mut Work) -> Then {
        let standard = &self.machine.ir.standard;
        if let Some(request) = work
            .signals
            .clone
            .take()
            .filter(|request| request.from_ingress)
        {
            self.clone_original(request, work.ingress_port, work);
        }
        if let Some(fields) = work.signals.resubmit.take() {
            work.payload.load(&self.buffers.original);
            let (then, port) = (
                self.again(work, fields, instance::RESUBMITTED),
                work.ingress_port,
            );
            self.set(work, standard.ingress_port, port);
            return then;
        }
        let group = self.get(work, standard.mcast_grp) as u16;
        if group != 0 {
            self.set(work, standard.instance_type, instance::REPLICATED);
            let replicas = self.replication.groups.get(&group);
            self.replicate(replicas.map_or(&[], Vec::as_slice), work);
            return Then::End;
        }
        let port = self.get(work, standard.egress_spec);
        if port == DROP_PORT {
            self.note(|| Step::Dropped {
                reason: "egress_spec is 511 after ingress",
            });
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
        work.ingress_port = self.get(work, standard.ingress_port);
        self.set(work, standard.packet_length, work.len as u128);
        self.set(work, standard.ingress_timestamp, self.now());
    }

    fn parse(&mut self, work: &mut Work) {
        let ir = self.machine.ir;
        let error = parse(&mut self.machine, self.none, work);
        self.set(work, ir.standard.parser_error, error);
        let wrong = calculation::verify(ir, work, self.none, &mut self.machine.own.scratch);
        self.set(work, ir.standard.checksum_error, u128::from(wrong));
        if let Some(journal) = &mut self.machine.journal {
            journal.parsed(error, wrong);
        }
    }

    /// Copies of the packet as this pass began with it, parsed anew.
    fn clone_original(&mut self, request: CloneRequest, ingress_port: u128, work: &Work) {
        let ir = self.machine.ir;
        let Some(session) = self.replication.sessions.get(&request.session) else {
            return;
        };
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
        copy.shorten(session.packet_length);
        self.replicate(&session.replicas, &copy);
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

    fn replicate(&mut self, replicas: &[Replica], work: &Work) {
        for replica in replicas {
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
            self.note(|| Step::Copied {
                port: replica.port,
                instance: replica.instance,
            });
            self.buffers.queue.push_back((replica.port, copy));
        }
    }

    /// Another pass with the listed metadata, if the packet may have one.
    fn again(&mut self, work: &mut Work, fields: usize, instance_type: u128) -> Then {
        let ir = self.machine.ir;
        if !self.may_pass_again(work) {
            return Then::End;
        }
        if instance_type == instance::RECIRCULATED && Entrance::takes(ir, fields) {
            let entrance = &mut self.buffers.entrance;
            entrance.list = Some(fields);
            entrance.initial.clear();
            entrance.initial.push(0);
            let slots = entrance.slots(ir).skip(1);
            let kept = slots.map(|(slot, _)| slot.map_or(0, |slot| work.phv.slots[slot]));
            entrance.initial.extend(kept);
            return Then::Enter;
        }
        std::mem::swap(&mut work.phv, &mut self.buffers.previous);
        work.phv.reset(&ir.layout);
        ir.field_lists[fields]
            .iter()
            .for_each(|place| place.copy(&mut work.phv, &self.buffers.previous));
        self.set(work, ir.standard.instance_type, instance_type);
        Then::Ingress
    }

    pub(crate) fn may_pass_again(&mut self, work: &mut Work) -> bool {
        work.passes += 1;
        let may = work.passes < MAX_PASSES;
        if !may {
            self.machine.faults.too_many_passes += 1;
            self.note(|| Step::Dropped {
                reason: "it has passed the switch too often",
            });
        }
        may
    }

    pub(crate) fn egress(&mut self, port: u16, work: &mut Work) -> Then {
        let ir = self.machine.ir;
        let standard = &ir.standard;
        work.signals.exit = false;
        self.note(|| Step::Egress { port });
        self.set(work, standard.egress_port, u128::from(port));
        self.set(work, standard.egress_spec, 0);
        self.set(work, standard.packet_length, work.len as u128);
        self.set(
            work,
            standard.enqueue_timestamp,
            self.machine.now.as_micros() & 0xffff_ffff,
        );
        self.set(work, standard.egress_timestamp, self.now());
        self.flow(&ir.egress, ir.egress.start, Half::Egress, work);
        self.after_egress(port, work)
    }

    pub(crate) fn after_egress(&mut self, port: u16, work: &mut Work) -> Then {
        let standard = &self.machine.ir.standard;
        if let Some(request) = work
            .signals
            .clone
            .take()
            .filter(|request| !request.from_ingress)
            && let Some(session) = self.replication.sessions.get(&request.session)
        {
            let mut copy = work.clone();
            copy.signals = Signals::default();
            self.preserve(&mut copy, &work.phv, request.fields, instance::EGRESS_CLONE);
            copy.shorten(session.packet_length);
            self.replicate(&session.replicas, &copy);
        }
        if self.get(work, standard.egress_spec) == DROP_PORT {
            self.note(|| Step::Dropped {
                reason: "egress_spec is 511 after egress",
            });
            return Then::End;
        }
        self.send(port, work)
    }

    /// Out of the port, or around again.
    pub(crate) fn send(&mut self, port: u16, work: &mut Work) -> Then {
        let ir = self.machine.ir;
        calculation::update(ir, work, self.none, &mut self.machine.own.scratch);
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
        if let (Some(journal), Some(sent)) =
            (&mut self.machine.journal, self.machine.out.sent.last())
        {
            let bytes = sent.bytes.clone();
            journal.note(Step::Sent { port, bytes });
        }
        Then::End
    }

    fn deparse(&mut self, work: &Work) {
        let ir = self.machine.ir;
        packet::deparse(ir, &work.phv, &mut self.buffers.headers);
    }
}
