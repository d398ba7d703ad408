//! Connections of P4Runtime clients: accepted over TLS or dialled, limited, each with its kind of certificate.

pub mod admission;
mod backoff;
pub mod crowd;
pub mod dial;
pub mod listener;
pub mod prefix;
pub mod tls;
