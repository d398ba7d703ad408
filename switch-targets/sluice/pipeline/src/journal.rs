//! The journal: a packet's steps through the program, named as in the program. While it is off, it costs a null check.

use crate::bits::Bits;
use crate::entry::Entry;
use crate::expr::Args;
use crate::ir::{FlowGraph, Next};
use crate::layout::{HeaderIx, Home};
use crate::load::{Label, Labels};
use crate::phv::Phv;
use crate::program::Program;
use crate::queue::Queue;
use crate::table::call_of;
use crate::table::{Found, KeyBuffer, Table};

/// Steps that are kept of one packet; its copies are many, or its parser loops, when it has more.
const MAX_STEPS: usize = 4096;

/// A named value: a field, a parameter.
pub type Named = (String, Bits);

/// A step of a packet. Steps are in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A pass begins in the parser: the packet has come, or comes again.
    Pass {
        reason: &'static str,
        port: u16,
        bytes: usize,
    },
    /// The egress pipeline begins.
    Egress {
        port: u16,
        /// The port's, if the program reads queues.
        queue: Option<Queue>,
    },
    State {
        name: String,
    },
    Extracted {
        header: String,
        fields: Vec<Named>,
    },
    ParserError {
        name: String,
    },
    /// A checksum that the program verifies is wrong.
    BadChecksum,
    Condition {
        source: String,
        holds: bool,
    },
    Table {
        name: String,
        key: Vec<Named>,
        /// `None`: a miss.
        entry: Option<Entry>,
        /// `None`: a miss, and the table has no default action.
        action: Option<String>,
        args: Vec<Named>,
    },
    /// A statement of the program, outside tables.
    Statement {
        source: String,
    },
    /// An extern object was called.
    Called {
        object: String,
        method: String,
    },
    /// A field has another value than before the action.
    Changed {
        field: String,
        value: Bits,
    },
    /// A header was made valid or invalid.
    Header {
        name: String,
        valid: bool,
    },
    Digest {
        name: String,
        fields: Vec<Named>,
    },
    /// A copy for this port waits for the egress pipeline.
    Copied {
        port: u16,
        instance: u16,
    },
    Dropped {
        reason: &'static str,
    },
    Sent {
        port: u16,
        bytes: Vec<u8>,
    },
    /// The packet has more steps than are kept.
    CutOff,
}

/// The pipeline that runs.
#[derive(Clone, Copy, Debug)]
pub enum Half {
    Ingress,
    Egress,
}

/// Keeps the steps of one packet.
pub struct Journal<'a> {
    program: &'a Program,
    pub steps: Vec<Step>,
}

impl<'a> Journal<'a> {
    pub fn new(program: &'a Program) -> Journal<'a> {
        Journal {
            program,
            steps: Vec::new(),
        }
    }

    #[cold]
    pub fn note(&mut self, step: Step) {
        match self.steps.len() {
            ..MAX_STEPS => self.steps.push(step),
            MAX_STEPS => self.steps.push(Step::CutOff),
            _ => {}
        }
    }

    fn labels(&self) -> &'a Labels {
        &self.program.labels
    }

    #[cold]
    pub fn state(&mut self, state: usize) {
        let name = self.labels().states[state].clone();
        self.note(Step::State { name });
    }

    #[cold]
    pub fn extracted(&mut self, header: HeaderIx, phv: &Phv) {
        let layout = &self.program.ir.layout;
        let fields = &layout.type_of(header).fields;
        let fields = fields.iter().map(|field| {
            let home = field.home.within(&layout.headers[header]);
            (field.name.clone(), value(phv, header, home, field.width))
        });
        let step = Step::Extracted {
            header: self.labels().headers[header].clone(),
            fields: fields.collect(),
        };
        self.note(step);
    }

    #[cold]
    pub fn parsed(&mut self, error: u128, bad_checksum: bool) {
        if error != self.program.ir.errors.no_error {
            let name = self.labels().errors.get(&error);
            let name = name.map_or_else(|| format!("error {error}"), String::clone);
            self.note(Step::ParserError { name });
        }
        if bad_checksum {
            self.note(Step::BadChecksum);
        }
    }

    /// A branch leads to `next`. A condition may have several; the last one decides it.
    #[cold]
    pub fn branch(&mut self, half: Half, node: usize, next: Next) {
        let (flow, labels) = self.half(half);
        let part_of = |next: usize| flow.origins.get(next) == flow.origins.get(node);
        if next.is_some_and(part_of) {
            return;
        }
        if let Some(label) = flow.origins.get(node).and_then(|at| labels.get(*at)) {
            let (source, holds) = (label.source.clone(), next == label.yes);
            self.note(Step::Condition { source, holds });
        }
    }

    #[cold]
    pub fn statement(&mut self, half: Half, node: usize) {
        let (flow, labels) = self.half(half);
        if let Some(label) = flow.origins.get(node).and_then(|at| labels.get(*at)) {
            let source = label.source.clone();
            self.note(Step::Statement { source });
        }
    }

    fn half(&self, half: Half) -> (&'a FlowGraph, &'a [Label]) {
        let (ir, labels) = (&self.program.ir, self.labels());
        match half {
            Half::Ingress => (&ir.ingress, &labels.ingress),
            Half::Egress => (&ir.egress, &labels.egress),
        }
    }

    #[cold]
    /// `member`: what the table's action profile has it do, where it has one.
    pub fn table(
        &mut self,
        id: usize,
        (table, key): (&Table, &KeyBuffer),
        found: Found,
        member: Option<(usize, &Args)>,
    ) {
        let (spec, ir) = (&self.program.tables()[id], &self.program.ir);
        let entry = match found {
            Found::Hit(row) => table.view(spec, ir, row).map(|view| view.entry),
            Found::Miss => None,
        };
        let bound = table.bound(found).map(|bound| (bound.action, &bound.args));
        let call = member.or(bound);
        let call = call.map(|(action, args)| call_of(ir, action, args));
        let action = call
            .as_ref()
            .and_then(|call| self.program.actions().get(call.action.0));
        let params = action.iter().flat_map(|action| &action.params);
        let values = call.iter().flat_map(|call| &call.args).cloned();
        let step = Step::Table {
            name: spec.name.clone(),
            key: key.looked_up(&ir.tables[id].key, spec),
            action: action.map(|action| action.name.clone()),
            args: params.map(|param| param.name.clone()).zip(values).collect(),
            entry,
        };
        self.note(step);
    }

    #[cold]
    pub fn called(&mut self, call: usize) {
        let site = &self.program.ir.calls[call];
        let step = Step::Called {
            object: self.program.ir.instances[site.instance].name.clone(),
            method: site.method.clone(),
        };
        self.note(step);
    }

    #[cold]
    pub fn digest(&mut self, digest: usize, values: &[Bits]) {
        let spec = &self.program.digests()[digest];
        let names = spec.fields.iter().map(|field| field.name.clone());
        let step = Step::Digest {
            name: spec.name.clone(),
            fields: names.zip(values.iter().cloned()).collect(),
        };
        self.note(step);
    }

    /// Notes an action's changes of headers and fields.
    pub fn changes(&mut self, before: &Phv, after: &Phv) {
        let layout = &self.program.ir.layout;
        for (header, instance) in layout.headers.iter().enumerate() {
            let name = &self.labels().headers[header];
            if before.is_valid(header) != after.is_valid(header) {
                let (name, valid) = (name.clone(), after.is_valid(header));
                self.note(Step::Header { name, valid });
            }
            if !after.is_valid(header) {
                continue;
            }
            for field in &layout.types[instance.ty].fields {
                let home = field.home.within(instance);
                let now = value(after, header, home, field.width);
                if value(before, header, home, field.width) != now {
                    // p4c writes the fields of structs as `struct.field`, in one header of its own.
                    let field = match name.as_str() {
                        "scalars" => field.name.clone(),
                        name => format!("{name}.{}", field.name),
                    };
                    self.note(Step::Changed { field, value: now });
                }
            }
        }
    }
}

fn value(phv: &Phv, header: HeaderIx, home: Home, width: u32) -> Bits {
    match home {
        Home::Slot(slot) => Bits::from_u128(width, phv.slots[slot]),
        Home::Wide { offset, len } => Bits::cut(width, &phv.wide[offset..offset + len]),
        Home::Var { offset, .. } => {
            let len = phv.var_len(header);
            Bits::cut(8 * len as u32, &phv.wide[offset..offset + len])
        }
    }
}
