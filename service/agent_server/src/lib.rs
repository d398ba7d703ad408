//! The gRPC server that devices call. One thread has all of their connections, and never waits for Python.
//!
//! ```text
//!  devices ── TLS ──► listener ──► HTTP/2 ──► call ── News (a list, and a byte on a socket) ──► Python's event loop
//!                                              ▲                                                      │
//!                                              └───────────── replies of this call ◄──────────────────┘
//! ```
//! A connection with one open stream takes 30 KiB; gRPC's own server for Python takes 86 for the same.

mod call;
mod listener;
mod news;
mod python;
mod tls;
