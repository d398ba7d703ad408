//! Prometheus metrics: what the switch has counted, on a page of its own (`--metrics`).
//!
//! ```text
//!   data plane ── atomics, once a batch ──► Traffic ─┐
//!   tables, streams, program ── at each scrape ──────┴─► Snapshot ─► text ─► page
//! ```

mod page;
mod snapshot;

pub use page::serve;
pub use snapshot::Source;
