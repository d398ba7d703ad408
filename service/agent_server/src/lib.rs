//! The gRPC server that devices call. One thread has all of their connections, and never waits for Python.
//!
//! ```text
//!  devices ── TLS ──► listener ──► HTTP/2 ──► call ── News (a list, and a byte on a socket) ──► Python's event loop
//!                                              ▲                                                      │
//!                                              └───────────── replies of this call ◄──────────────────┘
//! ```
//! A connection with one open stream takes 28 KiB; gRPC's own server for Python takes 86 for the same.

use culvert_pages::Pages;

mod call;
mod listener;
mod news;
mod python;
mod tls;

#[global_allocator]
static PAGES: Pages = Pages::new();
