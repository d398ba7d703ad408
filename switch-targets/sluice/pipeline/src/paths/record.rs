//! Records a path: runs a pass on symbols, with the packet at hand to decide every branch.
//!
//! ```text
//!   decision on the packet alone ──► a bit of the shape, or a requirement checked before anything is done
//!   decision on an effect's result ► a guard with an exit, from which the interpreter goes on
//!   table lookup ──────────────────► the key bits that any entry looks at, decided as above; the entry found is fixed
//! ```
//! Effects have been done by the interpreter, which handled this packet; their results are read from its log.

use super::node::{Graph, Node, NodeId};
use super::path::{Resume, WideInput};
use super::pin::Pins;
use super::{Entrance, INPUT};
use crate::bits;
use crate::bitstream::{mask, read};
use crate::cond::{CmpOp, Cond};
use crate::expr::{Args, BinOp, HeaderRef, Num};
use crate::ir::{Accepts, Case, Ir, KeySource, Op, ParserOp, Place, Source, State, Target};
use crate::layout::{HeaderIx, Home, StackIx};
use crate::machine::DROP_PORT;
use crate::table::{Found, Table};

/// The pass does something that no path can hold. It is interpreted, as ever.
#[derive(Debug)]
pub struct Unrecorded;

pub type Recorded<T> = Result<T, Unrecorded>;

/// What is done in order; node ids are those of the graph.
#[derive(Debug)]
pub enum Step {
    Guard {
        cond: NodeId,
        holds: bool,
        exit: usize,
    },
    CountFound {
        table: usize,
        found: Found,
    },
    Count {
        counter: usize,
        index: NodeId,
    },
    ReadRegister {
        register: usize,
        index: NodeId,
        effect: u32,
    },
    WriteRegister {
        register: usize,
        index: NodeId,
        value: NodeId,
    },
    Call(usize),
}

/// An exit with its nodes.
#[derive(Debug)]
pub struct Snapshot {
    pub resume: Resume,
    pub slots: Vec<NodeId>,
    pub valid: Vec<bool>,
    pub wide: Vec<WideInput>,
    pub next: Vec<usize>,
    pub len: NodeId,
    pub recirculate: Option<usize>,
    /// How many steps came before it.
    steps: usize,
}

#[derive(Debug)]
pub struct RecordedCall {
    pub site: usize,
    pub args: Vec<RecordedArg>,
    pub results: Vec<(u32, u32)>,
    pub grown: u32,
}

#[derive(Debug)]
pub enum RecordedArg {
    Number(NodeId, u32),
    Bytes { value: Box<[u8]>, width: u32 },
}

pub struct Recorder<'a> {
    pub ir: &'a Ir,
    pub tables: &'a mut [Table],
    log: &'a [u128],
    taken: usize,
    /// The packet's first bytes, with zeros behind it.
    input: &'a [u8],
    packet_len: usize,
    pub graph: Graph,
    pub pins: Pins,
    pub slots: Vec<NodeId>,
    pub valid: Vec<bool>,
    pub wide: Vec<WideInput>,
    next: Vec<usize>,
    /// Bytes that the parser has passed.
    pub cursor: usize,
    pub min_len: usize,
    /// As `Work::len`.
    pub len: NodeId,
    pub recirculate: Option<usize>,
    exit: bool,
    /// Where an effect's result that decides something leads when it is another.
    pub resume: Option<Resume>,
    pub steps: Vec<Step>,
    pub calls: Vec<RecordedCall>,
    pub exits: Vec<Snapshot>,
    pub looked_into: Vec<(usize, u64)>,
    /// Microseconds since the switch started.
    pub now: NodeId,
}

impl<'a> Recorder<'a> {
    pub fn new(
        ir: &'a Ir,
        tables: &'a mut [Table],
        log: &'a [u128],
        entrance: &Entrance,
        input: &'a [u8; INPUT],
        packet_len: usize,
    ) -> Recorded<Recorder<'a>> {
        let mut graph = Graph::default();
        let zero = graph.number(0);
        let len = graph.leaf(Node::Len, packet_len as u128, 32);
        let layout = &ir.layout;
        let mut recorder = Recorder {
            ir,
            tables,
            log,
            taken: 0,
            input,
            packet_len,
            graph,
            pins: Pins::new(entrance.initial.len()),
            slots: vec![zero; layout.slots],
            valid: layout
                .headers
                .iter()
                .map(|header| header.metadata)
                .collect(),
            wide: Vec::new(),
            next: vec![0; layout.stacks.len()],
            cursor: 0,
            min_len: 0,
            len,
            recirculate: None,
            exit: false,
            resume: None,
            steps: Vec::new(),
            calls: Vec::new(),
            exits: Vec::new(),
            looked_into: Vec::new(),
            now: zero,
        };
        for (index, (slot, width)) in entrance.slots(ir).enumerate() {
            let node = Node::Initial(index as u32);
            let value = entrance.initial[index];
            let bits = 128 - mask(width).leading_zeros();
            let id = recorder.graph.leaf(node, value, bits);
            if index == 0 {
                recorder.now = id;
            }
            recorder.set(slot, id);
        }
        let kind = recorder.graph.number(entrance.instance_type());
        recorder.set(ir.standard.instance_type, kind);
        recorder.set(ir.standard.packet_length, len);
        Ok(recorder)
    }

    pub fn set(&mut self, slot: Option<usize>, value: NodeId) {
        if let Some(slot) = slot {
            self.slots[slot] = value;
        }
    }

    pub fn number(&mut self, slot: Option<usize>, value: u128) {
        let value = self.graph.number(value);
        self.set(slot, value);
    }

    /// What is in a slot; a constant where that is known by now.
    pub fn slot(&mut self, slot: usize) -> NodeId {
        let id = self.slots[slot];
        match self.pins.is_fixed(id) {
            true => {
                let value = self.graph.value(id);
                self.graph.number(value)
            }
            false => id,
        }
    }

    /// Whether a condition holds, which the path takes for granted from here on.
    pub fn decide(&mut self, cond: NodeId) -> Recorded<bool> {
        let holds = self.graph.value(cond) != 0;
        if self.graph.constant(cond).is_some() {
            return Ok(holds);
        }
        if self.graph.is_pure(cond) {
            self.pins.assume(&mut self.graph, cond, holds);
            return Ok(holds);
        }
        self.guard(cond, holds)?;
        Ok(holds)
    }

    /// Takes the bits of a value under `mask` for granted.
    pub fn fix(&mut self, value: NodeId, mask: u128) -> Recorded<()> {
        if self.graph.constant(value).is_some() || mask == 0 {
            return Ok(());
        }
        if self.graph.is_pure(value) {
            self.pins.pin(&mut self.graph, value, mask);
            return Ok(());
        }
        let masked = self.graph.masked(value, mask);
        let now = self.graph.value(masked);
        let now = self.graph.number(now);
        let equal = self.graph.compare(CmpOp::Eq, false, masked, now);
        self.guard(equal, true)?;
        if masked == value {
            self.pins.fixed(value);
        }
        Ok(())
    }

    fn guard(&mut self, cond: NodeId, holds: bool) -> Recorded<()> {
        let resume = self.resume.ok_or(Unrecorded)?;
        let steps = self.steps.iter();
        let acted = steps
            .rev()
            .take_while(|step| matches!(step, Step::Guard { .. }));
        let acted = self.steps.len() - acted.count();
        // Nothing has been done since: what came between is done again from there.
        let reuse = self.exits.last().is_some_and(|last| last.steps >= acted);
        if !reuse {
            self.exits.push(Snapshot {
                resume,
                slots: self.slots.clone(),
                valid: self.valid.clone(),
                wide: self.wide.clone(),
                next: self.next.clone(),
                len: self.len,
                recirculate: self.recirculate,
                steps: self.steps.len(),
            });
        }
        self.steps.push(Step::Guard {
            cond,
            holds,
            exit: self.exits.len() - 1,
        });
        Ok(())
    }

    /// The result of the next effect in the log, as a node.
    fn effect(&mut self, bits: u32) -> Recorded<(u32, NodeId)> {
        let value = *self.log.get(self.taken).ok_or(Unrecorded)?;
        let index = self.taken as u32;
        self.taken += 1;
        let node = self.graph.leaf(Node::Effect(index), value, bits);
        Ok((index, node))
    }

    /// Every effect was read.
    pub fn is_complete(&self) -> bool {
        self.taken == self.log.len()
    }

    pub fn effects(&self) -> usize {
        self.log.len()
    }

    // The parser.

    pub fn parse(&mut self) -> Recorded<()> {
        let ir = self.ir;
        let mut next = ir.parser.start;
        for _ in 0..256 {
            let Some(state) = next else {
                return Ok(());
            };
            let state = &ir.parser.states[state];
            for op in &state.ops {
                self.parser_op(op)?;
            }
            next = self.select_case(state)?;
        }
        Err(Unrecorded)
    }

    fn parser_op(&mut self, op: &ParserOp) -> Recorded<()> {
        let ir = self.ir;
        match op {
            ParserOp::Extract(header) => self.extract(*header, 0),
            ParserOp::ExtractVar { header, bits } => {
                let len = self.fixed_bytes(bits)?;
                self.extract(*header, len)
            }
            ParserOp::ExtractNext { stack, member } => {
                let header = self.next_of(*stack, *member)?;
                self.extract(header, 0)?;
                self.next[*stack] += 1;
                Ok(())
            }
            ParserOp::ExtractNextVar {
                stack,
                member,
                bits,
            } => {
                let header = self.next_of(*stack, *member)?;
                let len = self.fixed_bytes(bits)?;
                self.extract(header, len)?;
                self.next[*stack] += 1;
                Ok(())
            }
            ParserOp::Set { target, source } => {
                let value = self.source(source, &Args::default())?;
                self.assign(target, value, &Args::default())
            }
            ParserOp::Lookahead { target, at, width } => {
                let value = self.ahead(*at, *width)?;
                self.assign(target, value, &Args::default())
            }
            ParserOp::Verify { cond, .. } => {
                let cond = self.cond(cond, &Args::default())?;
                match self.decide(cond)? {
                    true => Ok(()),
                    false => Err(Unrecorded),
                }
            }
            ParserOp::Advance(bits) => {
                let len = self.fixed_bytes(bits)?;
                self.pass_over(len).map(drop)
            }
            ParserOp::Run(ops) => self.run(&ir.layout, ops, &Args::default()),
        }
    }

    fn fixed_bytes(&mut self, bits: &Num) -> Recorded<usize> {
        let node = self.num(bits, &Args::default())?;
        self.fix(node, u128::MAX)?;
        let bits = self.graph.value(node);
        match usize::try_from(bits) {
            Ok(bits) if bits % 8 == 0 => Ok(bits / 8),
            _ => Err(Unrecorded),
        }
    }

    fn next_of(&self, stack: StackIx, member: usize) -> Recorded<HeaderIx> {
        let element = self.ir.layout.stacks[stack].elements.get(self.next[stack]);
        element
            .and_then(|element| element.get(member))
            .copied()
            .ok_or(Unrecorded)
    }

    /// Moves on by `len` bytes, which are there. Returns where they begin.
    fn pass_over(&mut self, len: usize) -> Recorded<usize> {
        let start = self.cursor;
        self.cursor += len;
        self.reach(self.cursor)?;
        Ok(start)
    }

    /// The packet is so long.
    fn reach(&mut self, end: usize) -> Recorded<()> {
        if end > INPUT - 8 || end > self.packet_len {
            return Err(Unrecorded);
        }
        self.min_len = self.min_len.max(end);
        Ok(())
    }

    fn ahead(&mut self, at: usize, width: u32) -> Recorded<NodeId> {
        let at = self.cursor * 8 + at;
        self.reach((at + width as usize).div_ceil(8))?;
        self.bits_of_input(at, width)
    }

    fn bits_of_input(&mut self, at: usize, width: u32) -> Recorded<NodeId> {
        let value = read(self.input, at, width).ok_or(Unrecorded)?;
        let node = Node::Input {
            at: at as u32,
            width,
        };
        Ok(self.graph.leaf(node, value, width))
    }

    fn extract(&mut self, header: HeaderIx, var_len: usize) -> Recorded<()> {
        let layout = &self.ir.layout;
        let instance = &layout.headers[header];
        if instance.union.is_some() || var_len > 0 {
            return Err(Unrecorded);
        }
        let ty = &layout.types[instance.ty];
        let mut at = self.pass_over(ty.fixed_bits / 8)? * 8;
        self.valid[header] = true;
        for field in &ty.fields {
            match field.home.within(instance) {
                Home::Slot(slot) => self.slots[slot] = self.bits_of_input(at, field.width)?,
                Home::Wide { offset, len } => {
                    self.wide.retain(|wide| wide.offset != offset);
                    self.wide.push(WideInput {
                        offset,
                        len,
                        at,
                        width: field.width,
                    });
                }
                Home::Var { .. } => {}
            }
            at += field.width as usize;
        }
        Ok(())
    }

    fn select_case(&mut self, state: &State) -> Recorded<crate::ir::Next> {
        match state.cases.as_slice() {
            [] => return Ok(None),
            [
                Case {
                    accepts: Accepts::All,
                    next,
                },
                ..,
            ] => return Ok(*next),
            _ => {}
        }
        if !state.narrow {
            return Err(Unrecorded);
        }
        let mut key = self.graph.number(0);
        for part in &state.key {
            let value = match &part.source {
                KeySource::Value(source) => {
                    let value = self.source(source, &Args::default())?;
                    self.graph.cut(value, part.width)
                }
                KeySource::Lookahead { at } => self.ahead(*at, part.width)?,
            };
            key = if part.len == 16 {
                value
            } else {
                let by = self.graph.number(8 * part.len as u128);
                let high = self.graph.bin(BinOp::Shl, false, key, by);
                self.graph.bin(BinOp::Or, false, high, value)
            };
        }
        let found = self.graph.value(key);
        let mut looked_at = 0;
        for case in &state.cases {
            match case.accepts {
                Accepts::Narrow { value, mask } => {
                    looked_at |= mask;
                    if found & mask == value {
                        self.fix(key, looked_at)?;
                        return Ok(case.next);
                    }
                }
                Accepts::All => {
                    self.fix(key, looked_at)?;
                    return Ok(case.next);
                }
                Accepts::Wide { .. } | Accepts::ValueSet { .. } => return Err(Unrecorded),
            }
        }
        Err(Unrecorded)
    }

    // Expressions.

    pub fn num(&mut self, num: &Num, args: &Args) -> Recorded<NodeId> {
        Ok(match num {
            Num::Const(value) => self.graph.number(*value),
            Num::Slot(slot) => self.slot(*slot),
            Num::Part { slot, shift, mask } => {
                let value = self.slot(*slot);
                let shift = self.graph.number(u128::from(*shift));
                let shifted = self.graph.bin(BinOp::Shr, false, value, shift);
                self.graph.masked(shifted, *mask)
            }
            Num::SignedSlot { slot, width } => {
                let value = self.slot(*slot);
                let width = *width;
                self.graph.compute(Node::SignExtend { value, width }, 128)
            }
            Num::Param(index) => self.graph.number(args.narrow[*index]),
            Num::ParamLow { offset, len } => {
                let value = bits::read_low(&args.wide[*offset..offset + len]);
                self.graph.number(value)
            }
            Num::Bin { op, signed, sides } => {
                let left = self.num(&sides.0, args)?;
                let right = self.num(&sides.1, args)?;
                self.graph.bin(*op, *signed, left, right)
            }
            Num::Neg(value) => {
                let value = self.num(value, args)?;
                let zero = self.graph.number(0);
                self.graph.bin(BinOp::Sub, false, zero, value)
            }
            Num::Not(value) => {
                let value = self.num(value, args)?;
                let ones = self.graph.number(u128::MAX);
                self.graph.bin(BinOp::Xor, false, value, ones)
            }
            Num::SignExtend { value, width } => {
                let (value, width) = (self.num(value, args)?, *width);
                self.graph.compute(Node::SignExtend { value, width }, 128)
            }
            Num::Saturate { value, signed, to } => {
                let (value, signed, to) = (self.num(value, args)?, *signed, *to);
                self.graph
                    .compute(Node::Saturate { value, signed, to }, 128)
            }
            Num::If(parts) => {
                let cond = self.cond(&parts.0, args)?;
                let (yes, no) = (self.num(&parts.1, args)?, self.num(&parts.2, args)?);
                self.graph.select(cond, yes, no)
            }
            Num::Bool(cond) => self.cond(cond, args)?,
            Num::Member {
                header,
                home,
                signed,
            } => {
                let Some(header) = self.header(header, args)? else {
                    return Ok(self.graph.number(0));
                };
                let Home::Slot(slot) = home.within(&self.ir.layout.headers[header]) else {
                    return Err(Unrecorded);
                };
                let value = self.slot(slot);
                match signed {
                    Some(width) => {
                        let width = *width;
                        self.graph.compute(Node::SignExtend { value, width }, 128)
                    }
                    None => value,
                }
            }
            Num::LastIndex(stack) => {
                let index = u128::from((self.next[*stack] as u32).wrapping_sub(1));
                self.graph.number(index)
            }
            Num::Depth(stack) => {
                let depth = self.next[*stack] as u128;
                self.graph.number(depth)
            }
            Num::Low { .. } | Num::OfWide(_) => return Err(Unrecorded),
        })
    }

    fn header(&mut self, header: &HeaderRef, args: &Args) -> Recorded<Option<HeaderIx>> {
        let (stack, member, index) = match header {
            HeaderRef::Fixed(header) => return Ok(Some(*header)),
            HeaderRef::Last { stack, member } => match self.next[*stack].checked_sub(1) {
                Some(index) => (*stack, *member, index),
                None => return Ok(None),
            },
            HeaderRef::Element {
                stack,
                member,
                index,
            } => {
                let index = self.num(index, args)?;
                let index = self.graph.constant(index).ok_or(Unrecorded)?;
                let Ok(index) = usize::try_from(index) else {
                    return Ok(None);
                };
                (*stack, *member, index)
            }
        };
        let element = self.ir.layout.stacks[stack].elements.get(index);
        Ok(element.and_then(|element| element.get(member)).copied())
    }

    /// 1 or 0.
    pub fn cond(&mut self, cond: &Cond, args: &Args) -> Recorded<NodeId> {
        let equal = |negated: bool| if negated { CmpOp::Ne } else { CmpOp::Eq };
        Ok(match cond {
            Cond::Const(value) => self.graph.number(u128::from(*value)),
            Cond::SlotIs {
                slot,
                value,
                negated,
            } => {
                let (slot, value) = (self.slot(*slot), self.graph.number(*value));
                self.graph.compare(equal(*negated), false, slot, value)
            }
            Cond::WordIs {
                slot,
                value,
                negated,
            } => {
                let slot = self.slot(*slot);
                let value = self.graph.number(u128::from(*value));
                self.graph.compare(equal(*negated), false, slot, value)
            }
            Cond::HeaderIs { header, valid } => {
                let holds = self.valid[*header] == *valid;
                self.graph.number(u128::from(holds))
            }
            Cond::NonZero(num) => {
                let value = self.num(num, args)?;
                let zero = self.graph.number(0);
                self.graph.compare(CmpOp::Ne, false, value, zero)
            }
            Cond::Compare { op, signed, sides } => {
                let left = self.num(&sides.0, args)?;
                let right = self.num(&sides.1, args)?;
                self.graph.compare(*op, *signed, left, right)
            }
            Cond::Valid(header) => {
                let header = self.header(header, args)?;
                let valid = header.is_some_and(|header| self.valid[header]);
                self.graph.number(u128::from(valid))
            }
            Cond::Not(cond) => {
                let cond = self.cond(cond, args)?;
                self.graph.not(cond)
            }
            Cond::And(sides) => {
                let left = self.cond(&sides.0, args)?;
                let right = self.cond(&sides.1, args)?;
                self.graph.bin(BinOp::And, false, left, right)
            }
            Cond::Or(sides) => {
                let left = self.cond(&sides.0, args)?;
                let right = self.cond(&sides.1, args)?;
                self.graph.bin(BinOp::Or, false, left, right)
            }
            Cond::Same(sides) => {
                let left = self.cond(&sides.0, args)?;
                let right = self.cond(&sides.1, args)?;
                self.graph.compare(CmpOp::Eq, false, left, right)
            }
            Cond::If(parts) => {
                let cond = self.cond(&parts.0, args)?;
                let (yes, no) = (self.cond(&parts.1, args)?, self.cond(&parts.2, args)?);
                self.graph.select(cond, yes, no)
            }
            Cond::CompareWide { .. } | Cond::SameHeaders(_) => return Err(Unrecorded),
        })
    }

    fn source(&mut self, source: &Source, args: &Args) -> Recorded<NodeId> {
        match source {
            Source::Num(num) => self.num(num, args),
            Source::Wide(_) | Source::Field { .. } | Source::Param { .. } => Err(Unrecorded),
        }
    }

    // Actions.

    fn place(&mut self, target: &Target, args: &Args) -> Recorded<Option<Place>> {
        let place = match target {
            Target::Field(place) => *place,
            Target::Member {
                header,
                home,
                width,
            } => {
                let Some(header) = self.header(header, args)? else {
                    return Ok(None);
                };
                let home = home.within(&self.ir.layout.headers[header]);
                Place {
                    header,
                    home,
                    width: *width,
                }
            }
        };
        Ok(self.valid[place.header].then_some(place))
    }

    fn assign(&mut self, target: &Target, value: NodeId, args: &Args) -> Recorded<()> {
        let Some(place) = self.place(target, args)? else {
            return Ok(());
        };
        self.assign_place(place, value)
    }

    pub fn assign_place(&mut self, place: Place, value: NodeId) -> Recorded<()> {
        let Home::Slot(slot) = place.home else {
            return Err(Unrecorded);
        };
        self.slots[slot] = self.graph.cut(value, place.width);
        Ok(())
    }

    fn change_validity(&mut self, header: HeaderIx, valid: bool) -> Recorded<()> {
        let layout = &self.ir.layout;
        let instance = &layout.headers[header];
        if instance.union.is_some() {
            return Err(Unrecorded);
        }
        if self.valid[header] == valid {
            return Ok(());
        }
        let bytes = self
            .graph
            .number(layout.type_of(header).fixed_bits as u128 / 8);
        let op = if valid { BinOp::Add } else { BinOp::Sub };
        self.len = self.graph.bin(op, false, self.len, bytes);
        self.valid[header] = valid;
        self.clear(header);
        Ok(())
    }

    fn clear(&mut self, header: HeaderIx) {
        let instance = &self.ir.layout.headers[header];
        let zero = self.graph.number(0);
        self.slots[instance.slots.clone()].fill(zero);
        let wide = &instance.wide;
        self.wide.retain(|field| !wide.contains(&field.offset));
    }

    pub fn run_action(&mut self, action: usize, args: &Args) -> Recorded<()> {
        let ir = self.ir;
        self.run(&ir.layout, &ir.actions[action].ops, args)
    }

    fn run(&mut self, layout: &crate::layout::Layout, ops: &[Op], args: &Args) -> Recorded<()> {
        // A decision in the middle of an action has no place to resume at.
        let resume = self.resume.take();
        let result = self.ops(layout, ops, args);
        self.resume = resume;
        result
    }

    fn ops(&mut self, layout: &crate::layout::Layout, ops: &[Op], args: &Args) -> Recorded<()> {
        let (mut at, mut steps) = (0, 0);
        while let Some(op) = ops.get(at) {
            at += 1;
            steps += 1;
            if steps > 4096 {
                return Err(Unrecorded);
            }
            match op {
                Op::Set {
                    header,
                    slot,
                    mask,
                    value,
                } => {
                    let value = self.num(value, args)?;
                    if self.valid[*header] {
                        self.slots[*slot] = self.graph.masked(value, *mask);
                    }
                }
                Op::Move { target, source } => {
                    let value = self.source(source, args)?;
                    self.assign(target, value, args)?;
                }
                Op::Validate(header) => {
                    if let Some(header) = self.header(header, args)? {
                        self.change_validity(header, true)?;
                    }
                }
                Op::Invalidate(header) => {
                    if let Some(header) = self.header(header, args)? {
                        self.change_validity(header, false)?;
                    }
                }
                Op::CopyHeaders(pairs) => {
                    for (to, from) in pairs {
                        if let (Some(to), Some(from)) =
                            (self.header(to, args)?, self.header(from, args)?)
                        {
                            self.copy_header(layout, to, from)?;
                        }
                    }
                }
                Op::CopyNext { to, from } => self.next[*to] = self.next[*from],
                Op::Jump(to) => at = *to,
                Op::JumpIfZero(num, to) => {
                    let value = self.num(num, args)?;
                    let zero = self.graph.number(0);
                    let is_zero = self.graph.compare(CmpOp::Eq, false, value, zero);
                    if self.decide(is_zero)? {
                        at = *to;
                    }
                }
                Op::Exit => {
                    self.exit = true;
                    return Ok(());
                }
                Op::Require(cond) => {
                    let cond = self.cond(cond, args)?;
                    if !self.decide(cond)? {
                        return Err(Unrecorded);
                    }
                }
                Op::Drop => {
                    self.number(self.ir.standard.egress_spec, DROP_PORT);
                    self.number(self.ir.standard.mcast_grp, 0);
                }
                Op::Recirculate(fields) => self.recirculate = Some(*fields),
                Op::Count { counter, index } => {
                    let (counter, index) = (*counter, self.num(index, args)?);
                    self.steps.push(Step::Count { counter, index });
                }
                Op::RegisterRead {
                    target,
                    register,
                    index,
                } => {
                    let index = self.num(index, args)?;
                    let cells = self.ir.registers[*register].size as u128;
                    // Outside the array nothing is read: a path holds reads alone.
                    if self.graph.constant(index).is_none_or(|at| at >= cells) {
                        return Err(Unrecorded);
                    }
                    let (effect, value) = self.effect(self.ir.registers[*register].width)?;
                    let register = *register;
                    self.steps.push(Step::ReadRegister {
                        register,
                        index,
                        effect,
                    });
                    self.assign(target, value, args)?;
                }
                Op::RegisterWrite {
                    register,
                    index,
                    value,
                } => {
                    let index = self.num(index, args)?;
                    let value = self.num(value, args)?;
                    let value = self.graph.cut(value, self.ir.registers[*register].width);
                    let register = *register;
                    self.steps.push(Step::WriteRegister {
                        register,
                        index,
                        value,
                    });
                }
                Op::Hash {
                    target,
                    base,
                    calculation,
                    size,
                } => {
                    let hash = self.calculation(*calculation)?;
                    let (base, size) = (self.num(base, args)?, self.num(size, args)?);
                    let size = self.graph.constant(size).ok_or(Unrecorded)?.max(1);
                    let size = self.graph.number(size);
                    let rest = self.graph.bin(BinOp::Rem, false, hash, size);
                    let value = self.graph.bin(BinOp::Add, false, base, rest);
                    self.assign(target, value, args)?;
                }
                Op::Call(site) => self.call(*site, args)?,
                _ => return Err(Unrecorded),
            }
        }
        Ok(())
    }

    fn copy_header(
        &mut self,
        layout: &crate::layout::Layout,
        to: HeaderIx,
        from: HeaderIx,
    ) -> Recorded<()> {
        if to == from {
            return Ok(());
        }
        let (target, source) = (&layout.headers[to], &layout.headers[from]);
        if !source.wide.is_empty() {
            return Err(Unrecorded);
        }
        self.change_validity(to, self.valid[from])?;
        if self.valid[from] {
            self.slots
                .copy_within(source.slots.clone(), target.slots.start);
        }
        Ok(())
    }

    fn call(&mut self, site: usize, args: &Args) -> Recorded<()> {
        let call = &self.ir.calls[site];
        let mut given = Vec::new();
        for (value, _) in &call.args {
            let width = value.width;
            given.push(match &value.source {
                Source::Num(num) if width <= 128 => {
                    RecordedArg::Number(self.num(num, args)?, width)
                }
                Source::Param { offset, len } => {
                    let mut value = vec![0; bits::byte_len(width)];
                    bits::copy_low(&args.wide[*offset..offset + len], &mut value);
                    let value = value.into();
                    RecordedArg::Bytes { value, width }
                }
                _ => return Err(Unrecorded),
            });
        }
        let mut results = Vec::new();
        let mut values = Vec::new();
        for (index, (value, target)) in call.args.iter().enumerate() {
            if let Some(target) = target {
                let (effect, node) = self.effect(value.width.min(128))?;
                if value.width > 128 {
                    return Err(Unrecorded);
                }
                results.push((index as u32, effect));
                values.push((target, node));
            }
        }
        let (grown, by) = self.effect(128)?;
        self.calls.push(RecordedCall {
            site,
            args: given,
            results,
            grown,
        });
        self.steps.push(Step::Call(self.calls.len() - 1));
        self.len = self.graph.bin(BinOp::Add, false, self.len, by);
        for (target, node) in values {
            self.assign(target, node, args)?;
        }
        Ok(())
    }

    // Tables.

    /// Looks a table up. Returns the row, and fixes what decided it.
    pub fn lookup(&mut self, table: usize) -> Recorded<Found> {
        let keys = &self.ir.tables[table].key;
        let mut packed = vec![0; self.ir.tables[table].key_len];
        let mut parts = Vec::new();
        for key in keys {
            let Source::Num(num) = &key.source else {
                return Err(Unrecorded);
            };
            if key.width > 128 {
                return Err(Unrecorded);
            }
            let value = self.num(num, &Args::default())?;
            let mut value = self.graph.cut(value, key.width);
            if let Some(mask) = &key.mask {
                value = self.graph.masked(value, bits::read_low(mask));
            }
            bits::write_low(
                &mut packed[key.offset..key.offset + key.len],
                self.graph.value(value),
            );
            parts.push(value);
        }
        let found = self.tables[table].find_packed(&packed);
        let significant = self.tables[table].significant().to_vec();
        for (key, value) in keys.iter().zip(parts) {
            let bytes = significant.get(key.offset..key.offset + key.len);
            self.fix(value, bytes.map_or(0, bits::read_low))?;
        }
        self.looked_into.push((table, self.tables[table].version()));
        Ok(found)
    }

    pub fn has_exited(&self) -> bool {
        self.exit
    }

    pub fn enter_egress(&mut self) {
        self.exit = false;
    }

    pub fn input_byte(&self, at: usize) -> Option<u8> {
        self.input.get(at).copied()
    }

    pub fn input_bytes(&self, at: usize, len: usize) -> Recorded<&[u8]> {
        self.input.get(at..at + len).ok_or(Unrecorded)
    }
}
