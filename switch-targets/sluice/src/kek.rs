//! Key-encryption keys that change while packets pass, and how a controller reads and deletes them.
//!
//! ```text
//!   --kek FILE ── replaced ──► newest of the ring ◄── Read: extern entries, the fingerprint of each key, newest first
//!                              those before it    ◄── Write DELETE: no table holds a key that is wrapped under it any more
//! ```
//! P4Runtime (section 9.1 "ExternEntry") leaves extern entries to the architecture. A key itself comes from the file alone and
//! never crosses P4Runtime; its fingerprint does not reveal it.

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
/// Has the form of P4Info's ids, whose first byte is the type. No P4Info lists it.
pub const EXTERN_ID: u32 = 0x8100_0001;
/// An entry's content: the fingerprint, in a message that every protobuf library has.
const CONTENT_TYPE: &str = "type.googleapis.com/google.protobuf.BytesValue";

/// How often the file is checked for a change.
const LOOK: Duration = Duration::from_secs(2);

/// Makes the file's content the newest key each time the file changes, until the process ends. An unusable file is logged, and
/// the ring stays as it is.
pub async fn follow(path: PathBuf, keks: Arc<KekRing>) {
    let stamp = || {
        let found = std::fs::metadata(&path).ok()?;
        Some((found.ino(), found.ctime(), found.ctime_nsec(), found.len()))
    };
    // The file may have been replaced since the switch read it at its start.
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

/// Finds the keys that an entry asks for: all keys without a type or without content, otherwise the key of that fingerprint.
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
