//! The committed header is what cbindgen makes of the sources. `CULVERT_WRITE_HEADER=1 cargo test -p esp-c` makes it anew.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

#[test]
fn the_committed_header_is_fresh() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap())
        .with_src(here.join("src/types.rs"))
        .with_src(here.join("src/calls.rs"))
        .generate()
        .unwrap()
        .write(&mut made);
    let path = here.join("include/culvert_esp.h");
    if std::env::var_os("CULVERT_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        String::from_utf8(made).unwrap(),
        "run: CULVERT_WRITE_HEADER=1 cargo test -p esp-c"
    );
}
