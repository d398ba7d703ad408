//! Meters as a control plane configures and reads them.

use super::tables::parts;
use crate::entry::MatchValue;
use crate::error::TableError;
use crate::meter::Meter;
use crate::spec::{MeterId, TableId};
use crate::switch::Switch;

impl Switch {
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

    /// To configure it, or to set its counts.
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

    /// The meter of a table's entry.
    pub fn direct_meter_mut(
        &mut self,
        table: TableId,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<&mut Meter, TableError> {
        let (table, spec, _) = parts(&mut self.tables, &self.program, table)?;
        table.meter_of(spec, key, priority)
    }
}
