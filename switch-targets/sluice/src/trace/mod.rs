//! `sluice trace`: a packet's way through the program, told to who develops it.
//!
//! ```text
//!   offline   program + entries + packets ─► Switch::explain ─► render ─► stdout
//!   live      data plane ─► Tap ─► control (Unix socket) ─► render ─► the client's stdout
//! ```

pub mod control;
pub mod offline;
mod render;
mod tap;

pub use render::{Format, render};
pub use tap::{Explained, Filter, Tap};
