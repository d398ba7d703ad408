//! Counters and registers: state that packets of several threads change at once.
//!
//! Counters are added to in any order. A cell of a register of up to 64 bits is read and written whole; a wider one under the
//! lock of its array. An action that reads and writes one register is one step to the others: it holds the register's
//! lock, which single writes to such a register take too. Between two actions another thread may come.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};

/// The value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub struct Counter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    #[inline]
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub fn value(&self) -> CounterValue {
        CounterValue {
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}

impl From<CounterValue> for Counter {
    fn from(value: CounterValue) -> Counter {
        Counter {
            packets: value.packets.into(),
            bytes: value.bytes.into(),
        }
    }
}

/// The cells of a register.
#[derive(Debug)]
pub struct Register {
    cells: Cells,
    /// Held by an action that reads and writes; `None` when the program has no such action.
    step: Option<Mutex<()>>,
}

#[derive(Debug)]
enum Cells {
    Narrow(Box<[AtomicU64]>),
    Wide(Mutex<Box<[u128]>>),
}

impl Register {
    /// Makes a register whose cells are 0. `in_steps`: an action reads and writes it.
    pub fn new(width: u32, size: usize, in_steps: bool) -> Register {
        let cells = match width {
            ..=64 => Cells::Narrow((0..size).map(|_| AtomicU64::new(0)).collect()),
            _ => Cells::Wide(Mutex::new(vec![0; size].into())),
        };
        Register {
            cells,
            step: in_steps.then(Mutex::default),
        }
    }

    pub fn len(&self) -> usize {
        match &self.cells {
            Cells::Narrow(cells) => cells.len(),
            Cells::Wide(cells) => cells.lock().len(),
        }
    }

    #[inline]
    pub fn read(&self, index: usize) -> Option<u128> {
        match &self.cells {
            Cells::Narrow(cells) => cells.get(index).map(|cell| cell.load(Relaxed).into()),
            Cells::Wide(cells) => cells.lock().get(index).copied(),
        }
    }

    /// `value` has no bit outside the register's width; outside the array nothing is set. `lock`: another lane may be in
    /// the middle of a step, and the caller does not hold it.
    #[inline]
    pub fn write(&self, index: usize, value: u128, lock: bool) {
        let _step = self.step.as_ref().filter(|_| lock).map(Mutex::lock);
        match &self.cells {
            Cells::Narrow(cells) => {
                if let Some(cell) = cells.get(index) {
                    cell.store(value as u64, Relaxed);
                }
            }
            Cells::Wide(cells) => {
                if let Some(cell) = cells.lock().get_mut(index) {
                    *cell = value;
                }
            }
        }
    }

    /// Begins the step of an action that reads and writes.
    pub fn step(&self) -> Option<MutexGuard<'_, ()>> {
        self.step.as_ref().map(Mutex::lock)
    }

    /// Takes the values of a register of the same width and size.
    pub fn copy_from(&mut self, other: &Register) {
        for index in 0..self.len() {
            self.write(index, other.read(index).unwrap_or(0), false);
        }
    }
}
