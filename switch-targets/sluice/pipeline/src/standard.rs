//! v1model's standard metadata, with simple_switch's numbers.

use crate::queue::QueueField;

/// simple_switch's number for "nowhere".
pub const DROP_PORT: u128 = 511;

/// `standard_metadata.instance_type` (simple_switch).
pub mod instance {
    pub const NORMAL: u128 = 0;
    pub const INGRESS_CLONE: u128 = 1;
    pub const EGRESS_CLONE: u128 = 2;
    pub const RECIRCULATED: u128 = 4;
    pub const REPLICATED: u128 = 5;
    pub const RESUBMITTED: u128 = 6;

    /// The way in which a packet comes to the parser.
    pub fn name(instance_type: Option<&u128>) -> &'static str {
        match instance_type {
            Some(&INGRESS_CLONE) => "cloned",
            Some(&RECIRCULATED) => "recirculated",
            Some(&RESUBMITTED) => "resubmitted",
            _ => "received",
        }
    }
}

/// Slots of the standard metadata that the switch itself reads or writes.
#[derive(Clone, Debug, Default)]
pub struct Standard {
    pub ingress_port: Option<usize>,
    pub egress_spec: Option<usize>,
    pub egress_port: Option<usize>,
    pub instance_type: Option<usize>,
    pub packet_length: Option<usize>,
    pub parser_error: Option<usize>,
    pub checksum_error: Option<usize>,
    pub mcast_grp: Option<usize>,
    pub egress_rid: Option<usize>,
    pub ingress_timestamp: Option<usize>,
    pub egress_timestamp: Option<usize>,
    pub enqueue_timestamp: Option<usize>,
    /// The fields of the port's queue that the program uses.
    pub queue: Vec<QueueField>,
}
