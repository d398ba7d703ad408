//! The fuzz targets over their committed corpora.
#![allow(clippy::unwrap_used)]

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;

use std::fs;
use std::path::Path;

fn replay(target: &str, body: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let inputs: Vec<_> = fs::read_dir(corpus).unwrap().collect();
    assert!(inputs.len() > 10, "the corpus is missing");
    for input in inputs {
        body(&fs::read(input.unwrap().path()).unwrap());
    }
}

#[test]
fn packet() {
    replay("packet", bodies::packet);
}

#[test]
fn program() {
    replay("program", bodies::program);
}

#[test]
fn write() {
    replay("write", bodies::write);
}

#[test]
fn super_frames() {
    replay("super_frames", bodies::super_frames);
}
