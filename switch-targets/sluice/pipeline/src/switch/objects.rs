//! Counters, meters, registers and value sets as a control plane reads and writes them.

use crate::bits::Bits;
use crate::bitstream::mask;
use crate::cells::{Counter, CounterValue};
use crate::entry::MatchValue;
use crate::error::TableError;
use crate::meter::Meter;
use crate::spec::{CounterId, MeterId, RegisterId, ValueSetId};
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

    pub fn meter(&self, meter: MeterId, index: usize) -> Result<Meter, TableError> {
        let cells = self
            .objects
            .meters
            .get(meter.0)
            .ok_or(TableError::NoSuchObject)?;
        let cells = cells.lock();
        let size = cells.len();
        cells
            .get(index)
            .cloned()
            .ok_or(TableError::BadIndex { index, size })
    }

    /// A meter, to configure it or to set its counts.
    pub fn meter_mut(&mut self, meter: MeterId, index: usize) -> Result<&mut Meter, TableError> {
        let cells = self
            .objects
            .meters
            .get_mut(meter.0)
            .ok_or(TableError::NoSuchObject)?
            .get_mut();
        let size = cells.len();
        cells
            .get_mut(index)
            .ok_or(TableError::BadIndex { index, size })
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
