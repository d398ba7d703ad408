//! Key-encryption keys that change while packets pass, and how a controller sees and forgets them.
//!
//! ```text
//!   --kek FILE ── replaced ──► newest of the ring ◄── Read: extern entries, the fingerprint of each key, newest first
//!                              those before it    ◄── Write DELETE: the controller has rewrapped what was under it
//! ```
//! P4Runtime (section 9.1 "ExternEntry") leaves extern entries to the architecture. A key itself comes from the file alone and
//! never crosses P4Runtime; its fingerprint does not tell it.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use esp::{ForgetError, Kek, KekRing};
use prost::Message as _;
use prost_types::Any;
use tracing::{info, warn};

use crate::config::read_kek;
use crate::fault::Fault;
use crate::proto::p4rt::{self, entity::Entity, update::Type};

/// The first of P4Info's ids for externs of an architecture (`P4Ids.OTHER_EXTERNS_START`).
pub const EXTERN_TYPE: u32 = 0x81;
/// In the form of P4Info's ids: the type is the first byte. No P4Info lists it.
pub const EXTERN_ID: u32 = 0x8100_0001;
/// An entry's content: the fingerprint, in a message that every protobuf library has.
const CONTENT_TYPE: &str = "type.googleapis.com/google.protobuf.BytesValue";

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Takes what is in the file as the newest key whenever it is replaced, for as long as the process lives. What cannot be used
/// is said, and the keys of before stay.
pub async fn follow(path: PathBuf, keks: Arc<KekRing>) {
    let stamp = || {
        let found = std::fs::metadata(&path).ok()?;
        Some((found.ino(), found.ctime(), found.ctime_nsec(), found.len()))
    };
    // What the file was at the start may have been replaced since.
    let mut seen = None;
    loop {
        let now = stamp();
        if now != seen {
            seen = now;
            match read_kek(&path) {
                Ok(kek) if keks.renew(Kek::from_bytes(&kek)) => {
                    info!(
                        "new entries may be wrapped under the key-encryption key that is in the file now"
                    );
                }
                Ok(_) => {}
                Err(error) => warn!(%error, "going on with the key-encryption keys of before"),
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The keys that an entry asks for: without a type or without content all of them, otherwise those of its fingerprint.
///
/// # Errors
/// `UNIMPLEMENTED` for another type.
pub fn read(
    keks: Option<&KekRing>,
    asked: &p4rt::ExternEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    if asked.extern_type_id != 0 && (keks.is_none() || !is_kek(asked)) {
        return Err(unsupported(asked));
    }
    let wanted = fingerprint(asked);
    let fingerprints = keks
        .map(KekRing::fingerprints)
        .unwrap_or_default()
        .into_iter();
    found.extend(
        fingerprints
            .filter(|one| wanted.as_deref().is_none_or(|wanted| wanted == one))
            .map(|one| {
                Entity::ExternEntry(p4rt::ExternEntry {
                    extern_type_id: EXTERN_TYPE,
                    extern_id: EXTERN_ID,
                    entry: Some(Any {
                        type_url: CONTENT_TYPE.into(),
                        value: one.to_vec().encode_to_vec(),
                    }),
                })
            }),
    );
    Ok(())
}

/// Forgets a key that is not the newest.
///
/// # Errors
/// `UNIMPLEMENTED` for another type, `INVALID_ARGUMENT` for another update or content, `NOT_FOUND`, or `FAILED_PRECONDITION` for
/// the newest key.
pub fn write(keks: Option<&KekRing>, kind: Type, entry: &p4rt::ExternEntry) -> Result<(), Fault> {
    let keks = keks.filter(|_| is_kek(entry));
    let keks = keks.ok_or_else(|| unsupported(entry))?;
    if kind != Type::Delete {
        return Err(Fault::invalid(
            "a key-encryption key comes from the file --kek: it can be deleted only",
        ));
    }
    let fingerprint = fingerprint(entry)
        .ok_or_else(|| Fault::invalid("the entry is no google.protobuf.BytesValue"))?;
    keks.forget(&fingerprint).map_err(|error| match error {
        ForgetError::Unknown => Fault::not_found("no key-encryption key of that fingerprint"),
        ForgetError::Newest => Fault::new(
            tonic::Code::FailedPrecondition,
            "the newest key-encryption key stays: replace the file --kek first",
        ),
    })?;
    info!("a former key-encryption key is forgotten");
    Ok(())
}

fn unsupported(entry: &p4rt::ExternEntry) -> Fault {
    let kind = entry.extern_type_id;
    Fault::unsupported(format!(
        "extern_entry of type {kind} is not supported by this switch"
    ))
}

fn is_kek(entry: &p4rt::ExternEntry) -> bool {
    entry.extern_type_id == EXTERN_TYPE && matches!(entry.extern_id, 0 | EXTERN_ID)
}

fn fingerprint(entry: &p4rt::ExternEntry) -> Option<Vec<u8>> {
    let content = entry.entry.as_ref()?;
    let name = content.type_url.rsplit('/').next()?;
    (name == "google.protobuf.BytesValue")
        .then(|| Vec::decode(content.value.as_slice()).ok())
        .flatten()
}
