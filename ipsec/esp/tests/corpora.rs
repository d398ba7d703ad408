//! The fuzz targets over their committed corpora.
#![allow(clippy::unwrap_used)]

#[path = "../fuzz/bodies.rs"]
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
fn open() {
    replay("open", bodies::open);
}

#[test]
fn seal() {
    replay("seal", bodies::seal);
}

#[test]
fn nat_t() {
    replay("nat_t", bodies::nat_t);
}
