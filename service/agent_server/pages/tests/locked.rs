//! A process whose memory is locked returns it to the system all the same, and what it keeps stays locked.

#![allow(clippy::unwrap_used)]

use std::fs;

use culvert_pages::{Pages, give_back};

#[global_allocator]
static PAGES: Pages = Pages::new();

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const BUFFERS: usize = 4000;
const SMALL: usize = 100_000;

/// Bytes of a field of /proc/self/status.
fn status(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|it| it.split_whitespace().nth(1));
    kib.and_then(|it| it.parse::<usize>().ok()).unwrap() << 10
}

#[test]
fn memory_that_is_locked_is_given_back_and_the_rest_stays_locked() {
    // SAFETY: it takes no pointer.
    let refused =
        unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    if refused != 0 {
        eprintln!("not run: this user may not lock memory");
        return;
    }
    let before = status("VmRSS");
    drop(vec![vec![1_u8; 16 << 10]; BUFFERS]);
    // Each buffer keeps the page that names the next one.
    let slots = status("VmRSS");
    assert!(
        slots < before + BUFFERS * PAGE + 4 * MIB,
        "{before} {slots}"
    );
    let mut small = vec![vec![1_u8; 1000]; SMALL];
    let last = small.pop();
    drop(small);
    give_back();
    // The C library counts memory at a heap's end as given back as soon as it is free, and does not try again.
    let left = status("VmRSS");
    assert!(left < slots + SMALL * 1000 / 2, "{slots} {left}");
    let locked = status("VmLck");
    let new = vec![1_u8; 64 * MIB];
    assert!(status("VmLck") >= locked + new.len());
    drop((last, new));
}
