//! The state that packets have made, on its way to the same program in another process. Entries are not among it: the other
//! process writes them first, in the order of their rows.
//!
//! Cells that are 0 are left out, so that a large array that is hardly used is short.

use thiserror::Error;

use crate::cells::{Counter, CounterValue};
use crate::idle::IdleState;
use crate::meter::MeterState;
use crate::outcome::Faults;
use crate::switch::Switch;

#[derive(Clone, PartialEq, prost::Message)]
pub struct SwitchState {
    #[prost(message, repeated, tag = "1")]
    pub counters: Vec<CounterState>,
    #[prost(message, repeated, tag = "2")]
    pub meters: Vec<MeterArrayState>,
    #[prost(message, repeated, tag = "3")]
    pub registers: Vec<RegisterState>,
    #[prost(message, repeated, tag = "4")]
    pub tables: Vec<TableState>,
    /// `too_many_passes`, `too_many_copies`, `too_many_steps`.
    #[prost(uint64, repeated, tag = "5")]
    pub faults: Vec<u64>,
    /// The states of P4's `random`, lane by lane.
    #[prost(fixed64, repeated, tag = "6")]
    pub random: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CounterState {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, repeated, tag = "2")]
    pub indices: Vec<u64>,
    #[prost(uint64, repeated, tag = "3")]
    pub packets: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    pub bytes: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct MeterArrayState {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, repeated, tag = "2")]
    pub indices: Vec<u64>,
    #[prost(message, repeated, tag = "3")]
    pub meters: Vec<MeterState>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterState {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, repeated, tag = "2")]
    pub indices: Vec<u64>,
    #[prost(uint64, repeated, tag = "3")]
    pub low: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    pub high: Vec<u64>,
}

/// Lists have an element for each entry, in the order of the rows, or none at all.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableState {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub entries: u64,
    /// Differs when entries or their order do.
    #[prost(fixed64, tag = "3")]
    pub keys: u64,
    /// Packets and bytes that missed.
    #[prost(uint64, repeated, tag = "4")]
    pub misses: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub packets: Vec<u64>,
    #[prost(uint64, repeated, tag = "6")]
    pub bytes: Vec<u64>,
    #[prost(message, repeated, tag = "7")]
    pub idle: Vec<IdleState>,
    #[prost(message, repeated, tag = "8")]
    pub meters: Vec<MeterState>,
}

/// A state of another program, or of other entries.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the state of '{object}' is not this program's: {cause}")]
pub struct BadState {
    object: String,
    cause: &'static str,
}

impl Switch {
    /// The state as it is; packets may run meanwhile.
    pub fn snapshot(&self) -> SwitchState {
        self.settle();
        let faults = self.faults();
        SwitchState {
            counters: self.counter_states(),
            meters: self.meter_states(),
            registers: self.register_states(),
            tables: (0..self.tables.len())
                .map(|id| self.table_state(id))
                .collect(),
            faults: vec![
                faults.too_many_passes,
                faults.too_many_copies,
                faults.too_many_steps,
            ],
            random: (self.lanes.iter())
                .map(|lane| lane.lock().lane_scratch.random)
                .collect(),
        }
    }

    /// Goes on from the state of a switch with the same program and entries.
    ///
    /// # Errors
    /// Part of the state may have been taken then: discard the switch.
    pub fn restore(&mut self, state: &SwitchState) -> Result<(), BadState> {
        self.settle();
        for (lane, random) in self.lanes.iter_mut().zip(&state.random) {
            lane.get_mut().lane_scratch.random = *random;
        }
        if let ([passes, copies, steps], Some(lane)) = (&state.faults[..], self.lanes.first_mut()) {
            lane.get_mut().faults = Faults {
                too_many_passes: *passes,
                too_many_copies: *copies,
                too_many_steps: *steps,
            };
        }
        self.restore_counters(state)?;
        self.restore_meters(state)?;
        self.restore_registers(state)?;
        state
            .tables
            .iter()
            .try_for_each(|table| self.restore_table(table))
    }

    fn counter_states(&self) -> Vec<CounterState> {
        let counters = self.program.counters().iter().zip(&self.objects.counters);
        let state = counters.map(|(spec, cells)| {
            let mut state = CounterState {
                name: spec.name.clone(),
                ..CounterState::default()
            };
            for (index, cell) in cells.iter().enumerate() {
                let value = cell.value();
                if value != CounterValue::default() {
                    state.indices.push(index as u64);
                    state.packets.push(value.packets);
                    state.bytes.push(value.bytes);
                }
            }
            state
        });
        state.collect()
    }

    fn restore_counters(&mut self, state: &SwitchState) -> Result<(), BadState> {
        for from in &state.counters {
            let id = self.program.counter(&from.name);
            let cells = id.and_then(|id| self.objects.counters.get_mut(id.0));
            let cells = cells.ok_or_else(|| bad(&from.name, "there is no such counter"))?;
            let values = from.packets.iter().zip(&from.bytes);
            for (index, (packets, bytes)) in from.indices.iter().zip(values) {
                let cell = cells.get_mut(*index as usize);
                let (packets, bytes) = (*packets, *bytes);
                *cell.ok_or_else(|| bad(&from.name, "it has fewer cells"))? =
                    CounterValue { packets, bytes }.into();
            }
        }
        Ok(())
    }

    fn meter_states(&self) -> Vec<MeterArrayState> {
        let meters = self.program.meters().iter().zip(&self.objects.meters);
        let state = meters.map(|(spec, cells)| {
            let mut state = MeterArrayState {
                name: spec.name.clone(),
                ..MeterArrayState::default()
            };
            for (index, meter) in cells.lock().iter().enumerate() {
                let meter = meter.state();
                if meter != MeterState::default() {
                    state.indices.push(index as u64);
                    state.meters.push(meter);
                }
            }
            state
        });
        state.collect()
    }

    fn restore_meters(&mut self, state: &SwitchState) -> Result<(), BadState> {
        for from in &state.meters {
            let id = self.program.meter(&from.name);
            let id = id.ok_or_else(|| bad(&from.name, "there is no such meter"))?;
            let cells = self.objects.meters[id.0].get_mut();
            for (index, meter) in from.indices.iter().zip(&from.meters) {
                let cell = cells.get_mut(*index as usize);
                let cell = cell.ok_or_else(|| bad(&from.name, "it has fewer cells"))?;
                if !cell.restore(meter) {
                    return Err(bad(&from.name, "a meter is configured otherwise"));
                }
            }
        }
        Ok(())
    }

    fn register_states(&self) -> Vec<RegisterState> {
        let registers = self
            .program
            .ir
            .registers
            .iter()
            .zip(&self.objects.registers);
        let state = registers.map(|(spec, cells)| {
            let mut state = RegisterState {
                name: spec.name.clone(),
                ..RegisterState::default()
            };
            for index in 0..cells.len() {
                let value = cells.read(index).unwrap_or(0);
                if value != 0 {
                    state.indices.push(index as u64);
                    state.low.push(value as u64);
                    state.high.push((value >> 64) as u64);
                }
            }
            state
        });
        state.collect()
    }

    fn restore_registers(&mut self, state: &SwitchState) -> Result<(), BadState> {
        for from in &state.registers {
            let id = self.program.register(&from.name);
            let id = id.ok_or_else(|| bad(&from.name, "there is no such register"))?;
            let (cells, spec) = (
                &self.objects.registers[id.0],
                &self.program.ir.registers[id.0],
            );
            let values = from.low.iter().zip(&from.high);
            for (index, (low, high)) in from.indices.iter().zip(values) {
                let value = u128::from(*high) << 64 | u128::from(*low);
                let fits = spec.width >= 128 || value >> spec.width == 0;
                if !fits || *index >= cells.len() as u64 {
                    return Err(bad(&from.name, "it has fewer cells, or narrower ones"));
                }
                cells.write(*index as usize, value, false);
            }
        }
        Ok(())
    }

    fn table_state(&self, id: usize) -> TableState {
        let (table, spec) = (&self.tables[id], &self.program.tables()[id]);
        let mut state = TableState {
            name: spec.name.clone(),
            keys: table.fingerprint(),
            ..TableState::default()
        };
        if let Ok(misses) = table.default_counter(spec) {
            state.misses = vec![misses.packets, misses.bytes];
        }
        for row in table.used_rows() {
            state.entries += 1;
            if let Some(counter) = table.counters.get(row).map(Counter::value) {
                state.packets.push(counter.packets);
                state.bytes.push(counter.bytes);
            }
            state.idle.extend(table.idle.state(row));
            state
                .meters
                .extend(table.meters.lock().get(row).map(crate::meter::Meter::state));
        }
        state
    }

    fn restore_table(&mut self, from: &TableState) -> Result<(), BadState> {
        let id = self.program.table(&from.name);
        let id = id.ok_or_else(|| bad(&from.name, "there is no such table"))?;
        let spec = &self.program.tables()[id.0];
        let table = &mut self.tables[id.0];
        if table.fingerprint() != from.keys || table.len() as u64 != from.entries {
            return Err(bad(&from.name, "it has other entries"));
        }
        if let [packets, bytes] = from.misses[..] {
            let _ = table.set_default_counter(spec, CounterValue { packets, bytes });
        }
        let rows: Vec<usize> = table.used_rows().collect();
        for (at, row) in rows.into_iter().enumerate() {
            if let (Some(counter), Some(packets), Some(bytes)) = (
                table.counters.get_mut(row),
                from.packets.get(at),
                from.bytes.get(at),
            ) {
                let (packets, bytes) = (*packets, *bytes);
                *counter = CounterValue { packets, bytes }.into();
            }
            if let Some(idle) = from.idle.get(at) {
                table.idle.restore(row, idle);
            }
            if let (Some(meter), Some(state)) =
                (table.meters.get_mut().get_mut(row), from.meters.get(at))
                && !meter.restore(state)
            {
                return Err(bad(&from.name, "an entry's meter is configured otherwise"));
            }
        }
        Ok(())
    }
}

fn bad(object: &str, cause: &'static str) -> BadState {
    let object = object.to_owned();
    BadState { object, cause }
}
