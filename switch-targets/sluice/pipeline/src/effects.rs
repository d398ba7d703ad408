//! Actions' effects beyond the packet: the objects that they read and change, and the log from which a trace is recorded.

use parking_lot::Mutex;

use crate::cells::{Counter, Register};
use crate::error::LoadError;
use crate::externs::{Extern, ExternRegistry};
use crate::meter::Meter;
use crate::program::Program;
use crate::value_set::ValueSet;

/// State that outlives a packet, without tables. All lanes share it.
pub struct Objects {
    pub counters: Vec<Box<[Counter]>>,
    pub registers: Vec<Register>,
    pub meters: Vec<Mutex<Vec<Meter>>>,
    pub externs: Vec<Box<dyn Extern>>,
    /// Indices of the methods, by call site.
    pub methods: Vec<usize>,
    pub value_sets: Vec<ValueSet>,
}

impl Objects {
    /// The objects as they are at first.
    pub fn new(program: &Program, registry: &ExternRegistry) -> Result<Objects, LoadError> {
        let ir = &program.ir;
        let mut externs = Vec::new();
        for instance in &ir.instances {
            let made = registry.make(&instance.type_name, &instance.name, &instance.attributes);
            externs.push(made.map_err(|cause| LoadError {
                place: instance.place.clone(),
                cause,
            })?);
        }
        let mut methods = Vec::new();
        for call in &ir.calls {
            let method = externs[call.instance]
                .method(&call.method, call.args.len())
                .ok_or_else(|| {
                    let type_name = &ir.instances[call.instance].type_name;
                    let cause = format!(
                        "{type_name} has no method {} with {} arguments",
                        call.method,
                        call.args.len()
                    );
                    LoadError {
                        place: call.place.clone(),
                        cause,
                    }
                })?;
            methods.push(method);
        }
        let is_updated = |register| {
            let actions = ir.actions.iter();
            actions.flat_map(|it| &it.updates).any(|it| *it == register)
        };
        Ok(Objects {
            counters: program
                .counters()
                .iter()
                .map(|counter| (0..counter.size).map(|_| Counter::default()).collect())
                .collect(),
            registers: ir
                .registers
                .iter()
                .enumerate()
                .map(|(at, register)| Register::new(register.width, register.size, is_updated(at)))
                .collect(),
            meters: program
                .meters()
                .iter()
                .map(|meter| Mutex::new(vec![Meter::default(); meter.size]))
                .collect(),
            externs,
            methods,
            value_sets: ir
                .parser
                .value_sets
                .iter()
                .map(|_| ValueSet::default())
                .collect(),
        })
    }
}

/// The results of a pass's effects (register reads, extern calls), in their order.
#[derive(Debug, Default)]
pub struct EffectLog {
    pub is_on: bool,
    /// The pass did something that no trace can hold.
    pub is_spoiled: bool,
    pub results: Vec<u128>,
    /// Extern calls in all traces so far.
    pub calls: u64,
}

impl EffectLog {
    #[inline]
    pub fn note(&mut self, result: u128) {
        if self.is_on {
            self.results.push(result);
        }
    }
}
