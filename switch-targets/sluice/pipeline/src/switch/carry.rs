//! Takes over packets' state from the program that ran before: of objects of the same name and shape.

use crate::switch::Switch;

impl Switch {
    /// Takes counters, registers, meters, those and the idle times of the entries that are here too, and the switch's own counts.
    pub fn carry_over(&mut self, old: &Switch) {
        self.go_on_from(old);
        for (id, counter) in self.program.counters().iter().enumerate() {
            if let Some(from) = old.program.counter(&counter.name)
                && let Some(cells) = old.objects.counters.get(from.0)
                && cells.len() == counter.size
            {
                let values = cells.iter().map(|cell| cell.value().into());
                self.objects.counters[id] = values.collect();
            }
        }
        for (id, meter) in self.program.meters().iter().enumerate() {
            if let Some(from) = old.program.meter(&meter.name)
                && old.program.meters()[from.0] == *meter
            {
                let cells = old.objects.meters[from.0].lock();
                self.objects.meters[id].get_mut().clone_from(&cells);
            }
        }
        for (id, register) in self.program.ir.registers.iter().enumerate() {
            if let Some(from) = old.program.register(&register.name)
                && let Some(cells) = old.objects.registers.get(from.0)
                && cells.len() == register.size
                && old.program.ir.registers[from.0].width == register.width
            {
                self.objects.registers[id].copy_from(cells);
            }
        }
        for (id, spec) in self.program.tables().iter().enumerate() {
            let from = old.program.table(&spec.name);
            let from = from.filter(|from| old.program.tables()[from.0].keys == spec.keys);
            let Some(from) = from else {
                continue;
            };
            if let Ok(misses) = old.default_counter_read(from) {
                let _ = self.tables[id].set_default_counter(spec, misses);
            }
            for (row, view) in old.entries_from(from, 0) {
                let (key, priority) = (&view.entry.key, view.entry.priority);
                // State of an entry that is not here is lost.
                if let Some(counter) = view.counter {
                    let _ = self.tables[id].set_counter(spec, key, priority, counter);
                }
                if let (Some(meter), Ok(here)) =
                    (view.meter, self.tables[id].meter_of(spec, key, priority))
                {
                    *here = meter;
                }
                self.tables[id].adopt_idle(spec, key, priority, (&old.tables[from.0], row));
            }
        }
    }
}
