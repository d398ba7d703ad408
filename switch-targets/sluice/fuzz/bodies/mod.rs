//! The body of each fuzz target. `cargo test -p sluice --test corpora` runs them over the committed corpora.
//!
//! ```text
//!  packet    program, then steps: frames of any kind and table changes, through an interpreting and a recording switch
//!  program   JSON and P4Info of a program, or any bytes; what loads runs packets
//!  write     program, then batches of updates; `Read` tells what each has done
//!  super_frames  frames and what the kernel says of them; frames of one flow
//! ```
#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::panic)]

mod input;
mod packet;
mod program;
mod programs;
mod super_frames;
mod write;

pub use packet::packet;
pub use program::program;
pub use super_frames::super_frames;
pub use write::write;
