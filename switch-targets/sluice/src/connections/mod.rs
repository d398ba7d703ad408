//! Connections of P4Runtime clients: accepted over TLS, limited, each with its kind of certificate.

pub mod admission;
pub mod crowd;
pub mod listener;
pub mod prefix;
pub mod tls;
