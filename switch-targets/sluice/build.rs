//! Generates the P4Runtime service from the descriptors that the Python package `p4runtime` ships.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, error::Error};

use prost::Message;
use prost_types::FileDescriptorSet;

fn main() -> ExitCode {
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=p4runtime_descriptors.py");
    println!("cargo:rerun-if-env-changed=CULVERT_PYTHON");
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let python = python(&root.join("../.."));
    let output = Command::new(&python)
        .arg(root.join("p4runtime_descriptors.py"))
        .output()
        .map_err(|error| format!("cannot run {}: {error}\n{REMEDY}", python.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{} gave no P4Runtime descriptors:\n{said}{REMEDY}",
            python.display()
        )
        .into());
    }
    std::fs::write(
        PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin"),
        &output.stdout,
    )?;
    let descriptors = FileDescriptorSet::decode(output.stdout.as_slice())?;
    tonic_prost_build::configure()
        .build_client(false)
        // Parts of the request's buffer, where every value of every update would be an allocation.
        .bytes(".p4.v1.Action.Param")
        .bytes(".p4.v1.FieldMatch")
        .compile_fds(descriptors)?;
    Ok(())
}

const REMEDY: &str = "The build needs a Python with the package `p4runtime`: run `make setup`, or install it and name that \
                      Python in CULVERT_PYTHON.";

fn python(workspace: &Path) -> PathBuf {
    if let Some(named) = env::var_os("CULVERT_PYTHON") {
        return named.into();
    }
    let own = workspace.join(".venv/bin/python");
    if own.exists() { own } else { "python3".into() }
}
