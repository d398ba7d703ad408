//! The messages of `handover`: ports on their way to another process.

/// A thread's part of a port. An open one has a descriptor beside it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GivenPort {
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// None: the port is closed.
    #[prost(message, optional, tag = "2")]
    pub socket: Option<GivenSocket>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GivenSocket {
    /// None: the socket only sends.
    #[prost(message, optional, tag = "1")]
    pub ring: Option<GivenRing>,
    /// None: without super-frames.
    #[prost(message, optional, tag = "2")]
    pub offload: Option<GivenOffload>,
    /// The kernel's id of its fanout group, if it is in one.
    #[prost(uint32, optional, tag = "3")]
    pub group: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GivenRing {
    #[prost(uint64, tag = "1")]
    pub slot: u64,
    #[prost(uint64, tag = "2")]
    pub slots: u64,
    /// The slot that is read next.
    #[prost(uint64, tag = "3")]
    pub next: u64,
}

/// The super-frames that the interface has not refused.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GivenOffload {
    #[prost(bool, tag = "1")]
    pub tcp: bool,
    #[prost(bool, tag = "2")]
    pub udp: bool,
}
