//! The allocator keeps its contract, and memory that is not touched is not resident.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc as _, Layout};
use std::collections::HashSet;
use std::thread;

use culvert_pages::Pages;

#[global_allocator]
static PAGES: Pages = Pages::new();

const SIZES: [usize; 2] = [8 << 10, 16 << 10];
const PAGE: usize = 4096;
const MANY: usize = 2000;

/// Pages of the process that are in memory (proc_pid_statm(5)).
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm
        .split(' ')
        .nth(1)
        .and_then(|it| it.parse().ok())
        .unwrap()
}

#[test]
fn buffers_are_apart_and_untouched_pages_are_not_in_memory() {
    for size in SIZES {
        let before = resident();
        let mut buffers: Vec<Vec<u8>> = (0..MANY).map(|_| Vec::with_capacity(size)).collect();
        for (number, buffer) in buffers.iter_mut().enumerate() {
            buffer.extend_from_slice(&number.to_ne_bytes());
        }
        assert!(resident().saturating_sub(before) < MANY + MANY / 10);
        let places: HashSet<_> = buffers.iter().map(|it| it.as_ptr() as usize).collect();
        assert_eq!(places.len(), MANY);
        assert!(places.iter().all(|place| place % PAGE == 0));
        for (number, buffer) in buffers.iter().enumerate() {
            assert_eq!(buffer[..], number.to_ne_bytes());
        }
        drop(buffers);
        let again = Vec::<u8>::with_capacity(size);
        assert!(places.contains(&(again.as_ptr() as usize)));
    }
}

#[test]
fn a_buffer_that_grows_and_shrinks_keeps_its_contents() {
    let mut grown: Vec<u8> = Vec::new();
    for byte in 0..=u16::MAX {
        grown.push(byte as u8);
    }
    for length in [40_000, 16 << 10, 16_000, 8 << 10, 8_000, 8 << 10, 10] {
        grown.truncate(length);
        grown.shrink_to(length);
        assert!(grown.iter().enumerate().all(|(at, it)| *it == at as u8));
    }
}

#[test]
fn memory_that_was_used_is_zeroed_on_request() {
    for size in SIZES {
        let used = vec![7u8; size];
        drop(used);
        for _ in 0..4 {
            assert!(vec![0u8; size].iter().all(|it| *it == 0));
        }
    }
}

#[test]
fn other_alignments_and_sizes_are_served() {
    for (size, align) in [(8 << 10, 8 << 10), ((8 << 10) - 1, 1), ((16 << 10) + 1, 64)] {
        let layout = Layout::from_size_align(size, align).unwrap();
        // SAFETY: what is allocated is given back with its layout.
        unsafe {
            let memory = PAGES.alloc(layout);
            assert_eq!(memory as usize % align, 0);
            memory.write_bytes(1, size);
            PAGES.dealloc(memory, layout);
        }
    }
}

#[test]
fn threads_use_the_pages_at_once() {
    let workers: Vec<_> = (0..4u8)
        .map(|mark| {
            thread::spawn(move || {
                for _ in 0..2000 {
                    let one = vec![mark; 16 << 10];
                    let other = vec![mark; 8 << 10];
                    assert!(one.iter().chain(&other).all(|it| *it == mark));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
}
