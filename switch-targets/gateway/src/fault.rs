//! A fault, and the next step of the person who reads it.

use std::fmt::Display;

use thiserror::Error;

/// `what` is a whole sentence with its cause; `remedy` is what to do about it.
#[derive(Debug, Error)]
#[error("{what}\nRemedy: {remedy}")]
pub struct Fault {
    pub what: String,
    pub remedy: String,
}

impl Fault {
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// A file or program that could not be used.
    pub fn of_system(what: impl Display, cause: &std::io::Error) -> Self {
        let remedy = match cause.kind() {
            std::io::ErrorKind::PermissionDenied => "Run this as root.",
            std::io::ErrorKind::StorageFull => "Make room on that disk, and run this again.",
            std::io::ErrorKind::ReadOnlyFilesystem => {
                "Mount that file system for writing, and run this again."
            }
            _ => "Mend this, and run the same command again.",
        };
        Self::new(format!("{what}: {cause}."), remedy)
    }
}

pub type Outcome<T> = Result<T, Fault>;
