//! `sluice trace`: a packet's way through the program, told to who develops it.
//!
//! ```text
//!   offline   program + entries + packets ─► Switch::explain ─► render ─► stdout
//!   live      data plane ─► Tap, Filter ─► control (Unix socket) ─► render ─► the client's stdout
//! ```

mod filter;
mod render;
mod tap;

pub use filter::{FieldTest, Filter, Pattern, unhex};
pub use render::{Format, render};
pub use tap::{Explained, Tap};
