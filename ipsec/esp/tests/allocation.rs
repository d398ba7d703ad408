//! No packet allocates: neither in Rust nor in the C of aws-lc, which a global allocator of Rust would not see.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use esp::engine::{Engine, SaEntry, Verdict};
use esp::{
    AllowedSuites, InboundSa, Kek, KeyMaterial, Limits, OpenError, OutboundSa, SUITES, SealError,
    Spi, Suite,
};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Allocated and not freed.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

fn taken(block: *mut c_void) -> *mut c_void {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    HELD.set(
        HELD.get()
            .wrapping_add(unsafe { malloc_usable_size(block) }),
    );
    block
}

fn given_back(block: *mut c_void) {
    HELD.set(
        HELD.get()
            .wrapping_sub(unsafe { malloc_usable_size(block) }),
    );
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
    fn malloc_usable_size(block: *mut c_void) -> usize;
}

// These functions take the place of glibc's for this whole program.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    taken(unsafe { __libc_malloc(size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(number: usize, size: usize) -> *mut c_void {
    taken(unsafe { __libc_calloc(number, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(old: *mut c_void, size: usize) -> *mut c_void {
    given_back(old);
    taken(unsafe { __libc_realloc(old, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    unsafe { *to = taken(__libc_memalign(alignment, size)) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    given_back(block);
    unsafe { __libc_free(block) }
}

fn allocations(act: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

const NOW: Duration = Duration::ZERO;

fn key(suite: Suite) -> KeyMaterial {
    let admitted = AllowedSuites::MODERN.with(suite).admit(suite).unwrap();
    KeyMaterial::new(admitted, &vec![9; suite.key_material_len()]).unwrap()
}

fn inner() -> [u8; 1400] {
    let mut inner = [0; 1400];
    inner[0] = 0x45;
    inner[2..4].copy_from_slice(&1400u16.to_be_bytes());
    inner
}

#[test]
fn allocations_in_rust_and_in_c_are_seen() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
    let key = key(Suite::AesGcm256);
    let make = || {
        drop(OutboundSa::new(
            Spi::new(256).unwrap(),
            &key,
            true,
            Limits::NONE,
            Limits::NONE,
        ))
    };
    assert!(allocations(make) > 0, "aws-lc's context");
}

#[test]
fn no_packet_allocates() {
    for suite in SUITES {
        for esn in [true, false] {
            let (spi, none, key) = (Spi::new(256).unwrap(), Limits::NONE, key(suite));
            let mut outbound = OutboundSa::new(spi, &key, esn, none, none).unwrap();
            let mut inbound = InboundSa::new(spi, &key, esn, 1024, none, none).unwrap();
            let (inner, mut out) = (inner(), [0; 1500]);
            let mut turn = || {
                let len = outbound.seal(&inner, &mut out, NOW).unwrap().len;
                let mut forged = out;
                assert!(inbound.open(&mut forged[..len - 16], NOW).is_err());
                forged[40] ^= 1;
                assert_eq!(inbound.open(&mut forged[..len], NOW), Err(OpenError::Icv));
                assert!(inbound.open(&mut out[..len], NOW).is_ok());
                let short = outbound.seal(&inner[..100], &mut out, NOW);
                assert_eq!(short, Err(SealError::Malformed));
                let len = outbound.seal_dummy(100, &mut out, NOW).unwrap().len;
                assert_eq!(inbound.open(&mut out[..len], NOW), Err(OpenError::Dummy));
            };
            // The first random bytes of a thread set its generator up.
            turn();
            let made = allocations(|| (0..1000).for_each(|_| turn()));
            assert_eq!(made, 0, "{suite} {esn}");
        }
    }
}

#[test]
fn no_packet_of_a_known_sa_allocates_in_the_engine() {
    let allowed: AllowedSuites = SUITES.into_iter().collect();
    let kek = [7; 32];
    let engine = Engine::new(Arc::new(Kek::from_bytes(&kek).into()), 16, allowed);
    for (slot, suite) in SUITES.into_iter().enumerate() {
        let wrapped_key = Kek::from_bytes(&kek).wrap(&key(suite)).unwrap();
        let entry = SaEntry {
            slot: slot as u32,
            suite: suite as u8,
            wrapped_key: &wrapped_key,
            spi: 256,
            esn: true,
            soft: Limits::NONE,
            hard: Limits::NONE,
        };
        let (inner, mut out) = (inner(), [0; 1500]);
        let mut turn = || {
            let sealed = engine.seal(&entry, &inner, &mut out, NOW);
            let opened = engine.open(&entry, 1024, &mut out[..sealed.len], NOW);
            assert_eq!((sealed.verdict, opened.verdict), (Verdict::Ok, Verdict::Ok));
        };
        turn();
        let made = allocations(|| (0..1000).for_each(|_| turn()));
        assert_eq!(made, 0, "{suite}");
    }
}

/// An SA takes memory from its first packet on; before, it takes none here.
#[test]
fn an_sa_in_use_takes_little_memory() {
    const SAS: u32 = 1000;
    let kek = [7; 32];
    let admitted = AllowedSuites::MODERN.admit(Suite::AesGcm256).unwrap();
    let engine = Engine::new(
        Arc::new(Kek::from_bytes(&kek).into()),
        SAS,
        AllowedSuites::MODERN,
    );
    let (inner, mut out) = (inner(), [0; 1500]);
    let mut use_all = |opens: bool| {
        let before = HELD.get();
        for slot in 0..SAS {
            let mut material = [9; 36];
            material[..4].copy_from_slice(&slot.to_be_bytes());
            let key = KeyMaterial::new(admitted, &material).unwrap();
            let entry = SaEntry {
                slot,
                suite: Suite::AesGcm256 as u8,
                wrapped_key: &Kek::from_bytes(&kek).wrap(&key).unwrap(),
                spi: 256 + slot,
                esn: true,
                soft: Limits::NONE,
                hard: Limits::NONE,
            };
            if opens {
                engine.open(&entry, 1024, &mut out[..100], NOW);
            } else {
                engine.seal(&entry, &inner, &mut out, NOW);
            }
        }
        (HELD.get() - before) / SAS as usize
    };
    let (outbound, inbound) = (use_all(false), use_all(true));
    assert!(
        outbound < 1024 && inbound < 1280,
        "{outbound} and {inbound} bytes"
    );
}
