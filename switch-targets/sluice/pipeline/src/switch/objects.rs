//! Counters, registers and value sets as a control plane reads and writes them, and what a program has of all objects.

use parking_lot::Mutex;

use crate::bits::Bits;
use crate::bitstream::mask;
use crate::cells::{Counter, Register};
use crate::entry::{CounterValue, MatchValue};
use crate::error::{LoadError, TableError};
use crate::externs::ExternRegistry;
use crate::interpreter::Objects;
use crate::meter::Meter;
use crate::program::Program;
use crate::spec::{CounterId, RegisterId, ValueSetId};
use crate::switch::Switch;
use crate::value_set::ValueSet;

impl Switch {
    pub fn counter_read(
        &self,
        counter: CounterId,
        index: usize,
    ) -> Result<CounterValue, TableError> {
        let cells = self
            .objects
            .counters
            .get(counter.0)
            .ok_or(TableError::NoSuchObject)?;
        cells
            .get(index)
            .map(Counter::value)
            .ok_or(TableError::BadIndex {
                index,
                size: cells.len(),
            })
    }

    pub fn counter_write(
        &mut self,
        counter: CounterId,
        index: usize,
        value: CounterValue,
    ) -> Result<(), TableError> {
        let cells = self
            .objects
            .counters
            .get_mut(counter.0)
            .ok_or(TableError::NoSuchObject)?;
        let size = cells.len();
        *cells
            .get_mut(index)
            .ok_or(TableError::BadIndex { index, size })? = value.into();
        Ok(())
    }

    pub fn register_read(&self, register: RegisterId, index: usize) -> Result<Bits, TableError> {
        let cells = self
            .objects
            .registers
            .get(register.0)
            .ok_or(TableError::NoSuchObject)?;
        let value = cells.read(index).ok_or(TableError::BadIndex {
            index,
            size: cells.len(),
        })?;
        Ok(Bits::from_u128(
            self.program.ir.registers[register.0].width,
            value,
        ))
    }

    /// `value` is cut to the register's width.
    pub fn register_write(
        &mut self,
        register: RegisterId,
        index: usize,
        value: &Bits,
    ) -> Result<(), TableError> {
        let cells = self.objects.registers.get(register.0);
        let cells = cells.ok_or(TableError::NoSuchObject)?;
        let size = cells.len();
        if index >= size {
            return Err(TableError::BadIndex { index, size });
        }
        let value = value.low_u128() & mask(self.program.ir.registers[register.0].width);
        cells.write(index, value, false);
        Ok(())
    }

    /// An unknown set has none.
    pub fn value_set(&self, set: ValueSetId) -> &[Vec<MatchValue>] {
        let found = self.objects.value_sets.get(set.0);
        found.map(ValueSet::members).unwrap_or_default()
    }

    /// Replaces all members, and returns what they were.
    pub fn set_value_set(
        &mut self,
        set: ValueSetId,
        members: Vec<Vec<MatchValue>>,
    ) -> Result<Vec<Vec<MatchValue>>, TableError> {
        let own = self.objects.value_sets.get_mut(set.0);
        let (Some(own), Some(spec)) = (own, self.program.value_sets().get(set.0)) else {
            return Err(TableError::NoSuchObject);
        };
        let new = ValueSet::new(spec, members)?;
        Ok(std::mem::replace(own, new).into_members())
    }
}

/// As they are at first.
pub fn objects(program: &Program, registry: &ExternRegistry) -> Result<Objects, LoadError> {
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
