//! A packet whose way is told goes the same way.

#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

mod gateway_lab;

use std::time::Duration;

use gateway_lab::*;
use proptest::prelude::*;
use sluice_pipeline::{Outcome, Step};

fn frames() -> Vec<Vec<u8>> {
    let inner = ipv4(INNER, WEB, 6, 64, &[0; 40]);
    vec![
        esp_in_udp(&esp(SPI, 0, &inner)),
        esp_in_udp(&esp(SPI + 1, 0, &inner)),
        from_web(INNER, 64, &[0; 30]),
        from_web(INNER, 1, &[0; 30]),
        vec![0xff; 70],
    ]
}

proptest! {
    // Each case loads two gateways.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn telling_changes_nothing(
        which in any::<prop::sample::Index>(),
        port in 1_u16..4,
        flips in prop::collection::vec((0_usize..70, any::<u8>()), 0..4),
    ) {
        let mut frame = which.get(&frames()).clone();
        for (at, byte) in flips {
            if let Some(to) = frame.get_mut(at) {
                *to ^= byte;
            }
        }
        let (told, untold) = (gateway(), gateway());
        let (mut one, mut other) = (Outcome::new(), Outcome::new());
        let steps = told.switch.explain(port, &frame, Duration::ZERO, &mut one);
        untold.switch.process(port, &frame, Duration::ZERO, &mut other);
        prop_assert_eq!(&one.sent, &other.sent);
        prop_assert_eq!(&one.digests, &other.digests);
        prop_assert_eq!(told.drops(), untold.drops());
        let sent = steps.iter().filter(|step| matches!(step, Step::Sent { .. })).count();
        prop_assert_eq!(sent, one.sent.len());
        let first = Step::Pass { reason: "received", port, bytes: frame.len() };
        prop_assert_eq!(&steps[0], &first);
    }
}
