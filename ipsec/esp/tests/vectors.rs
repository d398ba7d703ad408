//! The shared vectors: what an independent implementation and the published drafts say.
#![allow(clippy::unwrap_used)]

#[path = "../src/vectors.rs"]
mod shared;

use std::time::Duration;

use esp::{
    AdmittedSuite, AllowedSuites, InboundSa, Kek, KeyMaterial, Limits, MAX_OVERHEAD, OpenError,
    OutboundSa, Spi, Suite, WRAPPED_KEY_LEN,
};
use serde_json::Value;
use shared::{bytes, cases};

const NONE: Limits = Limits::NONE;
const NOW: Duration = Duration::ZERO;

fn suite(case: &Value) -> AdmittedSuite {
    let suite: Suite = case["suite"].as_str().unwrap().parse().unwrap();
    AllowedSuites::MODERN.with(suite).admit(suite).unwrap()
}

fn key(case: &Value) -> KeyMaterial {
    KeyMaterial::new(suite(case), &bytes(case, "key")).unwrap()
}

fn esn(case: &Value) -> bool {
    case["esn"].as_bool().unwrap()
}

fn spi(case: &Value) -> Spi {
    Spi::new(case["spi"].as_u64().unwrap() as u32).unwrap()
}

#[test]
fn keys_wrap_and_unwrap_as_rfc_5649_says() {
    for case in cases("key_wrap") {
        let kek = Kek::from_bytes(bytes(&case, "kek").as_slice().try_into().unwrap());
        let mut wrapped = [0; WRAPPED_KEY_LEN];
        let given = bytes(&case, "wrapped");
        wrapped[WRAPPED_KEY_LEN - given.len()..].copy_from_slice(&given);
        let suite = suite(&case);
        assert_eq!(kek.wrap(&key(&case)).unwrap(), wrapped);
        assert_eq!(
            kek.wrap(&kek.unwrap(suite, &wrapped).unwrap()).unwrap(),
            wrapped
        );
        for bit in 0..wrapped.len() * 8 {
            let mut damaged = wrapped;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(kek.unwrap(suite, &damaged).is_err());
        }
    }
}

#[test]
fn sealed_packets_are_the_same_bytes() {
    for case in cases("seal") {
        let mut sa = OutboundSa::new(spi(&case), &key(&case), esn(&case), NONE, NONE).unwrap();
        sa.resume_after(case["sequence"].as_u64().unwrap() - 1);
        let inner = bytes(&case, "inner");
        let mut out = vec![0xaa; inner.len() + MAX_OVERHEAD];
        let sealed = sa.seal(&inner, &mut out, NOW).unwrap();
        assert_eq!(out[..sealed.len], bytes(&case, "packet"));
    }
}

#[test]
fn received_packets_open_or_fail_for_the_stated_cause() {
    for case in cases("open") {
        let mut sa = InboundSa::new(spi(&case), &key(&case), esn(&case), 1024, NONE, NONE).unwrap();
        sa.resume_after(case["after"].as_u64().unwrap());
        let mut packet = bytes(&case, "packet");
        let (result, inner) = match sa.open(&mut packet, NOW) {
            Ok(opened) => ("ok", packet[opened.range].to_vec()),
            Err(OpenError::Malformed) => ("malformed", vec![]),
            Err(OpenError::WrongSpi) => ("wrong_spi", vec![]),
            Err(OpenError::Replay) => ("replay", vec![]),
            Err(OpenError::Icv) => ("icv", vec![]),
            Err(OpenError::Dummy) => ("dummy", vec![]),
            Err(OpenError::HardLimit) => ("hard_limit", vec![]),
        };
        assert_eq!(result, case["result"], "{}", case["name"]);
        assert_eq!(inner, bytes(&case, "inner"), "{}", case["name"]);
    }
}
