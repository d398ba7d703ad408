//! The front of the controller's two ports. One thread for each port handles all of its connections and never waits for
//! Python. `port` is the part that both share; `admission` decides about connections and rates.
//!
//! ```text
//!  devices ── TLS ──► listener ──► HTTP/2 ──► call ── News (a list, and a byte on a socket) ──► Python's event loop
//!                                              ▲                                                      │
//!                                              └───────────── replies of this call ◄──────────────────┘
//!  gateways ─ TLS ─► listener ──► gateways ── bytes, over a Unix socket ──► P4Runtime client in Python
//!  anyone  ── TLS ──► rest ──► HTTP/1.1 ── News: a socket pair for each request ──────────────► uvicorn, in that loop
//! ```
//! A connection with one open stream takes 28 KiB; gRPC's own server for Python takes 86 for the same.

use culvert_pages::Pages;

mod call;
mod devices;
mod gateways;
mod introduction;
mod listener;
mod news;
mod port;
mod python;
mod rest;
mod tls;
mod wire;

#[global_allocator]
static PAGES: Pages = Pages::new();
