//! The memory that an AF_XDP socket shares with the kernel: chunks for frames, and rings that say whose a chunk is.

#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, off_t};

/// A mapping of our own, or of the socket's.
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, and no method needs a particular thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Zeroed memory.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        Self::new(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn new(length: usize, flags: c_int, fd: c_int, offset: off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_POPULATE;
        // SAFETY: a new mapping, which nothing else knows; the result is checked.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, fd, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, length }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// The bytes of a chunk that is ours now; none outside of the mapping.
    pub fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        self.holds(&range).then(|| {
            // SAFETY: the range lies in the mapping, and the kernel writes to no chunk that is ours.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(range.start), range.len()) }
        })
    }

    pub fn bytes_mut(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        self.holds(&range).then(|| {
            // SAFETY: as above, and `self` is borrowed alone.
            unsafe {
                std::slice::from_raw_parts_mut(self.start.as_ptr().add(range.start), range.len())
            }
        })
    }

    fn holds(&self, range: &Range<usize>) -> bool {
        range.start <= range.end && range.end <= self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A ring with one producer and one consumer; we are one of them, the kernel is the other. `T` is what the kernel has in it: a
/// descriptor, or the address of a chunk.
pub(super) struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    size: u32,
    kind: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// `size` is a power of two, and the socket's ring at `page` has as many entries.
    pub fn map(
        fd: BorrowedFd<'_>,
        page: off_t,
        at: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let place = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
        let entries = place(at.desc)?;
        let length = entries + size as usize * size_of::<T>();
        let flags = libc::MAP_SHARED;
        Ok(Self {
            mapping: Mapping::new(length, flags, fd.as_raw_fd(), page)?,
            producer: place(at.producer)?,
            consumer: place(at.consumer)?,
            entries,
            size,
            kind: std::marker::PhantomData,
        })
    }

    /// Entries that the producer has put there and the consumer has not taken.
    pub fn len(&self) -> u32 {
        let (producer, consumer) = (self.index(self.producer), self.index(self.consumer));
        let consumer = consumer.load(Ordering::Acquire);
        producer.load(Ordering::Acquire).wrapping_sub(consumer)
    }

    /// The oldest entry, which is then taken.
    pub fn pop(&mut self) -> Option<T> {
        if self.len() == 0 {
            return None;
        }
        let at = self.index(self.consumer).load(Ordering::Relaxed);
        // SAFETY: the kernel has published this entry and does not write to it until we give it back.
        let entry = unsafe { self.entry(at).read() };
        self.index(self.consumer)
            .store(at.wrapping_add(1), Ordering::Release);
        Some(entry)
    }

    /// False: it is full.
    pub fn push(&mut self, entry: T) -> bool {
        if self.len() >= self.size {
            return false;
        }
        let at = self.index(self.producer).load(Ordering::Relaxed);
        // SAFETY: this entry is free, and the kernel does not read it before it is published.
        unsafe { self.entry(at).write(entry) };
        self.index(self.producer)
            .store(at.wrapping_add(1), Ordering::Release);
        true
    }

    fn index(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the kernel says that an aligned 32-bit word is there, which both sides access atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.start.as_ptr().add(offset).cast()) }
    }

    fn entry(&self, at: u32) -> *mut T {
        let offset = self.entries + (at & (self.size - 1)) as usize * size_of::<T>();
        self.mapping.start.as_ptr().wrapping_add(offset).cast()
    }
}
