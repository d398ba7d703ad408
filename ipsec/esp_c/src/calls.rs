//! The functions that C calls. All unsafe code of this crate is here.
//!
//! The caller's promise, which no check can see, for every function: a pointer that is neither NULL nor misaligned
//! points to as many initialised bytes as its length says, nobody else writes them during the call, texts end with a
//! zero byte, and an engine comes from `culvert_esp_new*` and was not freed.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use esp::engine::{Engine, SaEntry};
use esp::{AllowedSuites, KEK_LEN, Kek, Limits, Suite};

use crate::kek_file;
use crate::types::{
    CULVERT_ESP_MAX_PACKET, CULVERT_ESP_OVERHEAD, CulvertEsp, CulvertEspLimits, CulvertEspOpened,
    CulvertEspSa, CulvertEspSealed, CulvertEspStatus,
};

/// Makes an engine whose key-encryption key is in the file `kek_path`: 32 raw bytes, mode 0600 or 0400.
///
/// `allow` names the legacy suites to allow, separated by commas (`null-hmac-sha256-128,aes-cbc-hmac-sha1-96`); NULL or
/// empty: none. The engine has slots 0 to `slots - 1` in each direction. `*engine` is NULL unless the status is OK.
///
/// # Safety
/// The caller's promise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn culvert_esp_new_from_file(
    kek_path: *const c_char,
    allow: *const c_char,
    slots: u32,
    engine: *mut *mut CulvertEsp,
) -> CulvertEspStatus {
    guarded(|| {
        let kek = || {
            // SAFETY: the caller's promise.
            let path = unsafe { text(kek_path)? };
            let kek = kek_file::read(Path::new(OsStr::from_bytes(path.to_bytes())))?;
            Ok(Kek::from_bytes(&kek))
        };
        // SAFETY: the caller's promise.
        unsafe { make(engine, allow, slots, kek) }
    })
}

/// Makes an engine as `culvert_esp_new_from_file` does, from the key-encryption key itself. `kek` may be wiped after the call.
///
/// # Safety
/// The caller's promise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn culvert_esp_new(
    kek: *const u8,
    kek_len: usize,
    allow: *const c_char,
    slots: u32,
    engine: *mut *mut CulvertEsp,
) -> CulvertEspStatus {
    guarded(|| {
        let kek = || {
            checked(kek)?;
            if kek_len != KEK_LEN {
                return Err(CulvertEspStatus::KekSize);
            }
            // SAFETY: not NULL, of KEK_LEN bytes, and the caller's promise.
            Ok(Kek::from_bytes(unsafe { &*kek.cast() }))
        };
        // SAFETY: the caller's promise.
        unsafe { make(engine, allow, slots, kek) }
    })
}

/// Ends an engine and wipes its keys. NULL is no engine, and no error.
///
/// # Safety
/// No other call uses the engine, now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn culvert_esp_free(engine: *mut CulvertEsp) {
    if checked(engine).is_ok() {
        // SAFETY: made by Box::into_raw in `make`, and the caller's promise.
        let engine = unsafe { Box::from_raw(engine) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(engine)));
    }
}

/// Opens, in place, the `len` bytes of ESP at `packet`, from the SPI to the end of the ICV. `now_ms` is a monotonic
/// clock in milliseconds. The bytes at `packet` may have changed whatever the verdict.
///
/// # Safety
/// The caller's promise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn culvert_esp_open(
    engine: *const CulvertEsp,
    sa: *const CulvertEspSa,
    now_ms: u64,
    packet: *mut u8,
    len: usize,
    opened: *mut CulvertEspOpened,
) -> CulvertEspStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        unsafe { put(opened, CulvertEspOpened::REFUSED)? };
        // SAFETY: the caller's promise.
        let (engine, sa) = unsafe { (borrowed(engine)?, borrowed(sa)?) };
        checked(packet)?;
        fits(packet, len)?;
        if len > CULVERT_ESP_MAX_PACKET {
            return Err(CulvertEspStatus::TooLong);
        }
        // SAFETY: not NULL, `len` is bounded and ends within memory, and the caller's promise.
        let packet = unsafe { std::slice::from_raw_parts_mut(packet, len) };
        let engine = engine.0.lock().map_err(|_| CulvertEspStatus::Broken)?;
        let now = Duration::from_millis(now_ms);
        let outcome = engine.open(&entry(sa), sa.replay_window, packet, now);
        // SAFETY: checked by the first `put`.
        unsafe {
            put(
                opened,
                CulvertEspOpened {
                    verdict: outcome.verdict.into(),
                    newest: outcome.newest,
                    offset: outcome.range.start,
                    len: outcome.range.len(),
                },
            )
        }
    })
}

/// Seals the IP packet at the start of the `len` bytes at `inner` (what follows it is link padding) into `out`, which
/// has `room` bytes, at least `len + CULVERT_ESP_OVERHEAD`. `now_ms` is a monotonic clock in milliseconds.
///
/// # Safety
/// The caller's promise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn culvert_esp_seal(
    engine: *const CulvertEsp,
    sa: *const CulvertEspSa,
    now_ms: u64,
    inner: *const u8,
    len: usize,
    out: *mut u8,
    room: usize,
    sealed: *mut CulvertEspSealed,
) -> CulvertEspStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        unsafe { put(sealed, CulvertEspSealed::REFUSED)? };
        // SAFETY: the caller's promise.
        let (engine, sa) = unsafe { (borrowed(engine)?, borrowed(sa)?) };
        checked(inner)?;
        checked(out)?;
        fits(inner, len)?;
        fits(out, room)?;
        if len > CULVERT_ESP_MAX_PACKET {
            return Err(CulvertEspStatus::TooLong);
        }
        if room < len + CULVERT_ESP_OVERHEAD {
            return Err(CulvertEspStatus::NoRoom);
        }
        if inner.addr() < out.addr() + room && out.addr() < inner.addr() + len {
            return Err(CulvertEspStatus::Overlap);
        }
        // SAFETY: neither is NULL, both end within memory, they share no byte, and the caller's promise.
        let (inner, out) = unsafe {
            (
                std::slice::from_raw_parts(inner, len),
                std::slice::from_raw_parts_mut(out, room),
            )
        };
        let engine = engine.0.lock().map_err(|_| CulvertEspStatus::Broken)?;
        let outcome = engine.seal(&entry(sa), inner, out, Duration::from_millis(now_ms));
        // SAFETY: checked by the first `put`.
        unsafe {
            put(
                sealed,
                CulvertEspSealed {
                    verdict: outcome.verdict.into(),
                    len: outcome.len,
                },
            )
        }
    })
}

/// A `CulvertEspStatus` in words, for a log. Never NULL; it lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn culvert_esp_status_text(status: u32) -> *const c_char {
    CulvertEspStatus::ALL
        .iter()
        .find(|known| **known as u32 == status)
        .map_or(c"no such status", |known| known.text())
        .as_ptr()
}

/// # Safety
/// `engine` and `allow` are as the caller promised.
unsafe fn make(
    engine: *mut *mut CulvertEsp,
    allow: *const c_char,
    slots: u32,
    kek: impl FnOnce() -> Result<Kek, CulvertEspStatus>,
) -> Result<(), CulvertEspStatus> {
    // SAFETY: the caller's promise.
    unsafe { put(engine, ptr::null_mut())? };
    let allowed = if allow.is_null() {
        AllowedSuites::MODERN
    } else {
        // SAFETY: not NULL, and the caller's promise.
        suites(unsafe { text(allow)? })?
    };
    if slots == 0 {
        return Err(CulvertEspStatus::NoSlots);
    }
    let made = Box::new(CulvertEsp(Mutex::new(Engine::new(
        Arc::new(kek()?.into()),
        slots,
        allowed,
    ))));
    // SAFETY: checked by the first `put`.
    unsafe { put(engine, Box::into_raw(made)) }
}

/// A panic must not cross into C. The engine that it came from is poisoned: it refuses all work.
fn guarded(call: impl FnOnce() -> Result<(), CulvertEspStatus>) -> CulvertEspStatus {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => CulvertEspStatus::Ok,
        Ok(Err(status)) => status,
        Err(_) => CulvertEspStatus::Broken,
    }
}

fn checked<T>(pointer: *const T) -> Result<(), CulvertEspStatus> {
    if pointer.is_null() {
        return Err(CulvertEspStatus::NullPointer);
    }
    if !pointer.is_aligned() {
        return Err(CulvertEspStatus::Misaligned);
    }
    Ok(())
}

/// A slice is at most isize::MAX bytes and does not wrap around.
fn fits(start: *const u8, len: usize) -> Result<(), CulvertEspStatus> {
    match isize::try_from(len) {
        Ok(_) if start.addr().checked_add(len).is_some() => Ok(()),
        _ => Err(CulvertEspStatus::TooLong),
    }
}

/// # Safety
/// If `pointer` is neither NULL nor misaligned, it points to a `T` that may be written.
unsafe fn put<T>(pointer: *mut T, value: T) -> Result<(), CulvertEspStatus> {
    checked(pointer)?;
    // SAFETY: checked, and the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// # Safety
/// If `pointer` is neither NULL nor misaligned, it points to a `T` that nobody writes meanwhile.
unsafe fn borrowed<'a, T>(pointer: *const T) -> Result<&'a T, CulvertEspStatus> {
    checked(pointer)?;
    // SAFETY: checked, and the caller's promise.
    Ok(unsafe { &*pointer })
}

/// # Safety
/// If `pointer` is not NULL, it points to a text that ends with a zero byte and that nobody writes meanwhile.
unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a CStr, CulvertEspStatus> {
    checked(pointer)?;
    // SAFETY: not NULL, and the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

fn suites(names: &CStr) -> Result<AllowedSuites, CulvertEspStatus> {
    let names = names.to_str().map_err(|_| CulvertEspStatus::NotText)?;
    let named = names.split(',').map(str::trim).filter(|it| !it.is_empty());
    named
        .map(|name| name.parse::<Suite>())
        .collect::<Result<_, _>>()
        .map_err(|_| CulvertEspStatus::UnknownSuite)
}

fn entry(sa: &CulvertEspSa) -> SaEntry<'_> {
    SaEntry {
        slot: sa.slot,
        suite: sa.suite,
        wrapped_key: &sa.wrapped_key,
        spi: sa.spi,
        esn: sa.esn != 0,
        soft: limits(sa.soft),
        hard: limits(sa.hard),
    }
}

fn limits(limits: CulvertEspLimits) -> Limits {
    Limits {
        packets: limits.packets,
        bytes: limits.bytes,
        seconds: limits.seconds.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn a_panic_stops_at_the_border() {
        assert_eq!(guarded(|| panic!("a fault")), CulvertEspStatus::Broken);
    }
}
