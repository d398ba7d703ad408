//! The P4 extern `PayloadTail` (p4/gateway/payload_tail.p4): cuts the end of the payload while the program runs.

use std::time::Duration;

use sluice_pipeline::{Extern, ExternArg, ExternRegistry, Packet};

/// The type's name in P4.
const TYPE: &str = "PayloadTail";
const CUT: usize = 0;

struct PayloadTail;

/// Make `PayloadTail` known to programs.
pub fn register(registry: &mut ExternRegistry) {
    registry.register(TYPE, |_, _| Ok(Box::new(PayloadTail)));
}

impl Extern for PayloadTail {
    fn method(&self, name: &str, arity: usize) -> Option<usize> {
        (name == "cut" && arity == 1).then_some(CUT)
    }

    fn call(
        &self,
        _method: usize,
        args: &mut [ExternArg],
        packet: &mut Packet<'_>,
        _now: Duration,
    ) {
        if let [len] = args {
            packet
                .payload
                .truncate(usize::try_from(len.as_u64()).unwrap_or(usize::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_pipeline::{Bits, Payload};

    use super::*;

    fn cut(payload: &[u8], len: u128) -> Vec<u8> {
        let mut payload = Payload::from_bytes(payload);
        let mut args = [ExternArg::new(&Bits::from_u128(16, len))];
        PayloadTail.call(
            CUT,
            &mut args,
            &mut Packet::of(&mut payload),
            Duration::ZERO,
        );
        payload.bytes().to_vec()
    }

    #[test]
    fn keeps_the_front_and_never_grows() {
        assert_eq!(cut(b"payload", 3), b"pay");
        assert_eq!(cut(b"payload", 0), b"");
        assert_eq!(cut(b"payload", 65535), b"payload");
    }
}
