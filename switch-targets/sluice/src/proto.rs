//! The one import point of the generated P4Runtime messages.

#![allow(clippy::all, clippy::pedantic, missing_docs)]

pub mod google {
    pub mod rpc {
        tonic::include_proto!("google.rpc");
    }
}

pub mod p4 {
    pub mod config {
        pub mod v1 {
            tonic::include_proto!("p4.config.v1");
        }
    }
    pub mod v1 {
        tonic::include_proto!("p4.v1");
    }
}

/// The `FileDescriptorSet` that the messages are generated from.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

pub use google::rpc::Status as RpcStatus;
pub use p4::config::v1 as info;
pub use p4::v1 as p4rt;
