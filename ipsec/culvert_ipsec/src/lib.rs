//! The userspace IPsec datapath for Python: TUN and UDP around the esp crate.
