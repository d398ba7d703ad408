//! The state in which a pass starts, as far as a trace may depend on it.

use crate::ir::Ir;
use crate::layout::Home;
use crate::standard::instance;

/// Bytes of a packet that a trace may read, from the first on. Headers are shorter.
pub const INPUT: usize = 256;

/// A packet's first bytes. Bytes behind its end are arbitrary. Eight bytes can be read from any offset below [`INPUT`].
pub type Input = [u8; INPUT + 8];

/// The start of a pass: a packet from a port, or a recirculated packet.
#[derive(Debug, Default)]
pub struct PassStart {
    /// The field list that a recirculation kept; `None` for a packet from a port.
    pub list: Option<usize>,
    /// Microseconds since the start, then the ingress port or the kept fields.
    pub initial: Vec<u128>,
}

impl PassStart {
    /// Returns whether a recirculation with this field list can start a trace: all its fields must be narrow metadata.
    pub fn takes(ir: &Ir, list: usize) -> bool {
        ir.field_lists[list].iter().all(|place| {
            matches!(place.home, Home::Slot(_)) && ir.layout.headers[place.header].metadata
        })
    }

    /// The slots that the initial values go to, and their widths.
    pub fn slots<'a>(&self, ir: &'a Ir) -> impl Iterator<Item = (Option<usize>, u32)> + 'a {
        let cached = self.list.map_or(&[][..], |list| &ir.field_lists[list]);
        let port = self
            .list
            .is_none()
            .then_some((ir.standard.ingress_port, 16));
        let cached = cached.iter().map(|place| match place.home {
            Home::Slot(slot) => (Some(slot), place.width),
            _ => (None, place.width),
        });
        std::iter::once((ir.standard.ingress_timestamp, 48))
            .chain(port)
            .chain(cached)
    }

    pub fn instance_type(&self) -> u128 {
        match self.list {
            None => instance::NORMAL,
            Some(_) => instance::RECIRCULATED,
        }
    }

    /// The start's index among the program's starts.
    pub fn index(&self) -> usize {
        self.list.map_or(0, |list| list + 1)
    }
}
