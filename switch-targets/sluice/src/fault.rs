//! Causes of failed operations, and their form on the wire: one gRPC status, or one for each update in a batch's status details.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use prost::Message as _;
use tonic::{Code, Status};

use crate::proto::{RpcStatus, p4rt};

/// A failed operation: a canonical gRPC code and a text that names the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: Code,
    pub message: String,
}

impl Fault {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(Code::OutOfRange, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    /// The same fault, with the place where it happened in front.
    #[must_use]
    pub fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        Self::new(fault.code, fault.message)
    }
}

/// The status of a batch: one `p4.v1.Error` for each element, in order (P4Runtime 1.5, sections 12.3 and 13.3).
///
/// # Errors
/// `UNKNOWN` with the details as soon as one element failed.
pub fn batch_status(operation: &str, results: &[Result<(), Fault>]) -> Result<(), Status> {
    let failed = results.iter().filter(|result| result.is_err()).count();
    if failed == 0 {
        return Ok(());
    }
    let message = format!("{operation}: {failed} of {} failed", results.len());
    let details = results.iter().map(|result| {
        let error = match result {
            Ok(()) => p4rt::Error::default(),
            Err(fault) => p4rt::Error {
                canonical_code: fault.code as i32,
                message: fault.message.clone(),
                space: "sluice".into(),
                ..Default::default()
            },
        };
        prost_types::Any {
            type_url: "type.googleapis.com/p4.v1.Error".into(),
            value: error.encode_to_vec(),
        }
    });
    let status = RpcStatus {
        code: Code::Unknown as i32,
        message: message.clone(),
        details: details.collect(),
    };
    Err(Status::with_details(
        Code::Unknown,
        message,
        status.encode_to_vec().into(),
    ))
}

/// gRPC's codes are 0 to 16.
const CODES: i32 = 17;

/// Requests that change the switch, by what they were answered.
#[derive(Default)]
pub struct Requests(pub Mutex<BTreeMap<&'static str, u64>>);

impl Requests {
    /// The counts, by the number of the code.
    pub fn counts(&self) -> Vec<u64> {
        let counts = self.0.lock();
        let count = |code| counts.get(name(Code::from_i32(code))).copied();
        (0..CODES).map(|code| count(code).unwrap_or(0)).collect()
    }

    /// Adds the counts of another process.
    pub fn resume(&self, counts: &[u64]) {
        let mut own = self.0.lock();
        for (code, count) in (0..CODES).zip(counts).filter(|(_, count)| **count > 0) {
            *own.entry(name(Code::from_i32(code))).or_default() += count;
        }
    }

    pub fn answered(&self, code: Code) {
        *self.0.lock().entry(name(code)).or_default() += 1;
    }
}

/// The code's name in gRPC's specification.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_batch_reports_every_element_in_order() {
        let results = [Ok(()), Err(Fault::not_found("no such entry")), Ok(())];
        let status = batch_status("Write", &results).unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        let rpc = RpcStatus::decode(status.details()).unwrap();
        let codes: Vec<i32> = rpc
            .details
            .iter()
            .map(|any| {
                p4rt::Error::decode(any.value.as_slice())
                    .unwrap()
                    .canonical_code
            })
            .collect();
        assert_eq!(codes, [0, Code::NotFound as i32, 0]);
        assert!(batch_status("Write", &results[..1]).is_ok());
    }
}
