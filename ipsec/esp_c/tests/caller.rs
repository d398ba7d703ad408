//! Compiles `caller.c` against the committed header and the static library, and runs it.

#![allow(clippy::unwrap_used)]

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use esp::{AllowedSuites, Kek, KeyMaterial, SUITES};

const KEK: [u8; 32] = [7; 32];

#[test]
fn a_c_program_seals_and_opens_and_its_misuse_is_answered() {
    let directory = scratch("caller");
    let program = directory.join("caller");
    let (library, source) = (static_library(), here().join("tests/caller.c"));
    let native = ["-lpthread", "-ldl", "-lm"];
    compiled(
        Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args([&source, &library])
            .args(native)
            .arg("-o")
            .arg(&program),
    );
    let mut run = Command::new(program)
        .arg(&directory)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    run.stdin.take().unwrap().write_all(&keys()).unwrap();
    assert!(run.wait().unwrap().success());
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn the_header_is_cpp_too() {
    let directory = scratch("cpp");
    let source = directory.join("include.cpp");
    fs::write(&source, "#include <culvert_esp.h>\nCulvertEspSa sa{};\n").unwrap();
    compiled(
        Command::new("c++")
            .args(["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .arg("-fsyntax-only")
            .arg(&source),
    );
    fs::remove_dir_all(directory).unwrap();
}

/// The number of each suite and a key of its own, wrapped.
fn keys() -> Vec<u8> {
    let all: AllowedSuites = SUITES.into_iter().collect();
    let mut keys = Vec::new();
    for suite in SUITES {
        let material = vec![suite as u8; suite.key_material_len()];
        let material = KeyMaterial::new(all.admit(suite).unwrap(), &material).unwrap();
        keys.push(suite as u8);
        keys.extend(Kek::from_bytes(&KEK).wrap(&material).unwrap());
    }
    keys
}

fn compiled(compiler: &mut Command) {
    compiler.arg("-I").arg(here().join("include"));
    let output = compiler.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Cargo made it beside this test.
fn static_library() -> PathBuf {
    let mut directory = env::current_exe().unwrap();
    directory.pop();
    directory.join("libculvert_esp.a")
}

fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
