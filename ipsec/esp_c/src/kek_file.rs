//! The file of the key-encryption key: 32 raw bytes that its owner alone may read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use esp::KEK_LEN;
use zeroize::Zeroizing;

use crate::types::CulvertEspStatus;

pub(crate) fn read(path: &Path) -> Result<Zeroizing<[u8; KEK_LEN]>, CulvertEspStatus> {
    // A FIFO in the file's place must not hold the caller.
    let mut file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|_| CulvertEspStatus::KekUnreadable)?;
    let metadata = file
        .metadata()
        .map_err(|_| CulvertEspStatus::KekUnreadable)?;
    // SAFETY: it takes nothing and cannot fail.
    let own = metadata.uid() == 0 || metadata.uid() == unsafe { libc::geteuid() };
    if !own || !matches!(metadata.mode() & 0o7777, 0o600 | 0o400) {
        return Err(CulvertEspStatus::KekExposed);
    }
    if !metadata.is_file() || metadata.len() != KEK_LEN as u64 {
        return Err(CulvertEspStatus::KekSize);
    }
    let mut kek = Zeroizing::new([0; KEK_LEN]);
    file.read_exact(kek.as_mut())
        .map_err(|_| CulvertEspStatus::KekUnreadable)?;
    Ok(kek)
}
