//! An allocator that overwrites memory before it gives it back, for a process that handles credentials inside libraries which do not: a value
//! that passed through their buffers is gone when the buffers are.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Name it as the `#[global_allocator]`, and switch it on with [`start`] in the process that needs it.
pub struct Wiping;

static ON: AtomicBool = AtomicBool::new(false);

/// From now on freed memory is overwritten.
pub fn start() {
    ON.store(true, Ordering::Relaxed);
}

// SAFETY: every call is the system allocator's, with the same arguments. Memory is only written to between its last use and `dealloc`.
unsafe impl GlobalAlloc for Wiping {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the conditions of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the conditions of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if ON.load(Ordering::Relaxed) {
            // SAFETY: the block is the caller's until it is given back below, and has this size.
            unsafe { std::ptr::write_bytes(place, 0, layout.size()) };
            // The compiler knows that freed memory is not read; this keeps the writes.
            std::hint::black_box(place);
        }
        // SAFETY: the caller keeps the conditions of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !ON.load(Ordering::Relaxed) {
            // SAFETY: the caller keeps the conditions of `realloc`.
            return unsafe { System.realloc(place, layout, size) };
        }
        // SAFETY: the caller has checked that `size` with this alignment is a layout; the new block has room for what is copied, and the old one
        // is the caller's until it is given back.
        unsafe {
            let new = System.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(place, new, layout.size().min(size));
                self.dealloc(place, layout);
            }
            new
        }
    }
}
