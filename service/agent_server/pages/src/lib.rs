//! Memory for HTTP/2's buffers. A connection has one of 16 and one of 8 KiB for as long as it lasts, and an idle one needs a
//! few hundred bytes of each. In a heap they get what others have used before, all of which stays in memory; here each
//! begins with a page that nobody has touched, and what it does not touch takes none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::{Mutex, PoisonError};

const PAGE: usize = 4096;
/// Bytes that are mapped at once.
const REGION: usize = 4 << 20;

/// Returns freed memory from the C allocator to the system. After a flood the allocator may keep most of it. Takes milliseconds.
///
/// The allocator cannot return locked pages. Memory that is locked as a whole is therefore unlocked in this time.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: none of these takes a pointer, and each may be called at any time.
    unsafe {
        let locked = memory_is_locked();
        if locked {
            libc::munlockall();
        }
        libc::malloc_trim(0);
        if locked {
            libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
        }
    }
}

/// Returns whether new pages are locked (MCL_FUTURE).
#[cfg(target_env = "gnu")]
fn memory_is_locked() -> bool {
    // SAFETY: the mapping is new and nobody else's.
    unsafe {
        let page = mapped(PAGE);
        let locked = !page.is_null() && libc::madvise(page, PAGE, libc::MADV_DONTNEED) != 0;
        if !page.is_null() {
            libc::munmap(page, PAGE);
        }
        locked
    }
}

/// A new mapping of so many bytes; null when the system has no more.
fn mapped(bytes: usize) -> *mut libc::c_void {
    // SAFETY: a new mapping touches nothing that is there.
    let region = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    match region {
        libc::MAP_FAILED => ptr::null_mut(),
        region => region,
    }
}

/// An allocator for `#[global_allocator]`: layouts of a buffer's size get pages, the system allocates all others.
pub struct Pages {
    slots: [Mutex<Slots>; 2],
}

impl Pages {
    pub const fn new() -> Self {
        Self {
            slots: [
                Mutex::new(Slots::of(8 << 10)),
                Mutex::new(Slots::of(16 << 10)),
            ],
        }
    }

    fn slots(&self, layout: Layout) -> Option<&Mutex<Slots>> {
        match layout.size() {
            _ if layout.align() > PAGE => None,
            0x2000 => self.slots.first(),
            0x4000 => self.slots.last(),
            _ => None,
        }
    }
}

impl Default for Pages {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: a slot is nobody else's between `take` and `give`, is as long as its layouts, and is aligned to a page. Which
// layouts have slots depends on the layout alone.
unsafe impl GlobalAlloc for Pages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.slots(layout) {
            Some(slots) => locked(slots, Slots::take),
            // SAFETY: the caller's layout.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(slots) = self.slots(layout) else {
            // SAFETY: the caller's layout.
            return unsafe { System.alloc_zeroed(layout) };
        };
        let slot = locked(slots, Slots::take);
        if !slot.is_null() {
            // SAFETY: it is as long as the layout.
            unsafe { slot.write_bytes(0, layout.size()) };
        }
        slot
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match self.slots(layout) {
            // SAFETY: it came from `take` of the same slots, and its owner gives it up.
            Some(slots) => locked(slots, |slots| unsafe { slots.give(memory) }),
            // SAFETY: it came from the system's.
            None => unsafe { System.dealloc(memory, layout) },
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise for `realloc`.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if self.slots(layout).is_none() && self.slots(wanted).is_none() {
            // SAFETY: the system's before and after.
            return unsafe { System.realloc(memory, layout, size) };
        }
        // SAFETY: `wanted` is a layout, and both pieces are as long as what is copied.
        unsafe {
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(memory, moved, layout.size().min(size));
                self.dealloc(memory, layout);
            }
            moved
        }
    }
}

fn locked<T>(slots: &Mutex<Slots>, work: impl FnOnce(&mut Slots) -> T) -> T {
    work(&mut slots.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Slots of one size. Those that were given back are a list; each has the next one's address in front.
struct Slots {
    size: usize,
    given: *mut u8,
    fresh: *mut u8,
    left: usize,
}

// SAFETY: the memory is the whole process's.
unsafe impl Send for Slots {}

impl Slots {
    const fn of(size: usize) -> Self {
        Self {
            size,
            given: ptr::null_mut(),
            fresh: ptr::null_mut(),
            left: 0,
        }
    }

    /// Null when the system has no more.
    fn take(&mut self) -> *mut u8 {
        if !self.given.is_null() {
            let slot = self.given;
            // SAFETY: `give` has put an address there.
            self.given = unsafe { slot.cast::<*mut u8>().read() };
            return slot;
        }
        if self.left == 0 {
            let region = mapped(REGION);
            if region.is_null() {
                return ptr::null_mut();
            }
            // A huge page would be in memory whole. A kernel that knows none is as good.
            // SAFETY: the mapping made above.
            unsafe { libc::madvise(region, REGION, libc::MADV_NOHUGEPAGE) };
            self.fresh = region.cast();
            self.left = REGION / self.size;
        }
        let slot = self.fresh;
        self.fresh = slot.wrapping_add(self.size);
        self.left -= 1;
        slot
    }

    /// # Safety
    /// `slot` came from `take`, and nobody uses it any more.
    unsafe fn give(&mut self, slot: *mut u8) {
        // SAFETY: whole pages that are nobody's; the list's address takes one of them again.
        unsafe {
            // The first also returns locked pages, but Linux before 5.18 does not have it.
            if libc::madvise(slot.cast(), self.size, libc::MADV_DONTNEED_LOCKED) != 0 {
                libc::madvise(slot.cast(), self.size, libc::MADV_DONTNEED);
            }
            slot.cast::<*mut u8>().write(self.given);
        }
        self.given = slot;
    }
}
