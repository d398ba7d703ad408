//! Key-encryption keys that change while packets pass, and how a controller reads and deletes them.
//!
//! ```text
//!   --kek FILE ── replaced ──► newest of the ring ◄── Read: extern entries, the fingerprint of each key, newest first
//!                              those before it    ◄── Write DELETE: no table holds a key that is wrapped under it any more
//! ```
//! P4Runtime (section 9.1 "ExternEntry") leaves extern entries to the architecture. A key itself comes from the file alone and
//! never crosses P4Runtime; its fingerprint does not reveal it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use esp::KEK_LEN;
use esp::{ForgetError, Kek, KekRing};
use prost::Message as _;
use prost_types::Any;
use thiserror::Error;
use tracing::{info, warn};
use zeroize::Zeroizing;

use crate::fault::Fault;
use crate::proto::p4rt::{self, entity::Entity, update::Type};

/// The first of P4Info's ids for externs of an architecture (`P4Ids.OTHER_EXTERNS_START`).
pub const EXTERN_TYPE: u32 = 0x81;
/// Has the form of P4Info's ids, whose first byte is the type. No P4Info lists it.
pub const EXTERN_ID: u32 = 0x8100_0001;
/// An entry's content: the fingerprint, in a message that every protobuf library has.
const CONTENT_TYPE: &str = "type.googleapis.com/google.protobuf.BytesValue";

/// Interval at which the file is checked for a change.
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

#[derive(Debug, Error)]
pub enum KekError {
    #[error("cannot read the key-encryption key in {}: {cause}", path.display())]
    Unreadable {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("the key-encryption key in {} is open to others (mode {mode:04o}): chmod 0600 it", path.display())]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the key-encryption key in {} belongs to user {owner}, neither root nor who runs this: chown it", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{} is no key-encryption key: it must hold exactly {KEK_LEN} raw bytes", path.display())]
    WrongSize { path: PathBuf },
}

/// # Errors
/// The file can't be read, it is another user's, others may read it, or it is not 32 bytes long.
pub fn read_kek(path: &Path) -> Result<Zeroizing<[u8; KEK_LEN]>, KekError> {
    let unreadable = |cause| KekError::Unreadable {
        path: path.to_owned(),
        cause,
    };
    // A FIFO in the file's place must not hold the start.
    let mut file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let owner = metadata.uid();
    // A process owns its folder in /proc.
    if owner != 0 && owner != std::fs::metadata("/proc/self").map_err(unreadable)?.uid() {
        return Err(KekError::Foreign {
            path: path.to_owned(),
            owner,
        });
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if !matches!(mode, 0o600 | 0o400) {
        return Err(KekError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let wrong_size = || KekError::WrongSize {
        path: path.to_owned(),
    };
    if !metadata.is_file() || metadata.len() != KEK_LEN as u64 {
        return Err(wrong_size());
    }
    let mut kek = Zeroizing::new([0; KEK_LEN]);
    file.read_exact(kek.as_mut()).map_err(|_| wrong_size())?;
    Ok(kek)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_encryption_key_must_be_private_and_whole() {
        let path = std::env::temp_dir().join(format!("culvert-test-{}-kek", std::process::id()));
        let with = |bytes: &[u8], mode| {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            read_kek(&path).map(|kek| kek.to_vec())
        };
        assert_eq!(with(&[7; 32], 0o600).unwrap(), [7; 32]);
        assert_eq!(with(&[7; 32], 0o400).unwrap(), [7; 32]);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(
            with(&[7; 32], 0o640),
            Err(KekError::Exposed { mode: 0o640, .. })
        ));
        assert!(matches!(
            with(&[7; 33], 0o600),
            Err(KekError::WrongSize { .. })
        ));
        assert!(matches!(with(&[], 0o600), Err(KekError::WrongSize { .. })));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read_kek(&path), Err(KekError::Unreadable { .. })));
    }
}
