//! A P4 pipeline from p4c's bmv2 JSON, sans-IO: packet in, packets out.
