//! The extern `PacketHash` as a P4 program sees it (tests/programs/packet_hash.p4): published vectors as packets.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrapPadded as _};
use esp::Kek;
use proptest::prelude::*;
use sluice::dataplane::packet_hash::{self, HashKey};
use sluice_pipeline::{
    ActionCall, Bits, Entry, ExternRegistry, MatchValue, Outcome, Program, Switch,
};

const KEK: [u8; 32] = [7; 32];
const PORT: u16 = 1;
/// The digests in an answer: of 20 bits, 64, 256 and 512.
const DIGESTS: usize = 3 + 8 + 32 + 64;

struct Rig {
    switch: Switch,
    refused: Arc<AtomicU64>,
}

impl Rig {
    /// Packets at [`PORT`] run `action`.
    fn new(action: &str, args: Vec<Bits>) -> Rig {
        Rig::at(PORT, action, args)
    }

    fn at(port: u16, action: &str, args: Vec<Bits>) -> Rig {
        let mut externs = ExternRegistry::new();
        let refused = packet_hash::register(&mut externs, Arc::new(Kek::from_bytes(&KEK).into()));
        let program = Program::load(include_bytes!("programs/packet_hash.json")).unwrap();
        let table = program.table("Hash.job").unwrap();
        let action = program.action(table, &format!("Hash.{action}")).unwrap();
        let mut switch = Switch::new(program, &externs).unwrap();
        let entry = Entry {
            key: vec![MatchValue::Exact(Bits::from_u128(9, u128::from(port)))],
            priority: 0,
            action: ActionCall { action, args }.into(),
        };
        switch.insert(table, entry).unwrap();
        Rig { switch, refused }
    }

    /// The verdict, the digests in front of the packet, and the packet.
    fn answer(&mut self, packet: &[u8]) -> (u8, Vec<u8>, Vec<u8>) {
        let mut out = Outcome::new();
        self.switch.process(PORT, packet, Duration::ZERO, &mut out);
        let answer = &out.sent[0].bytes;
        let (digests, back) = answer[1..].split_at(DIGESTS);
        (answer[0], digests.to_vec(), back.to_vec())
    }

    fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// `plain` under the switch's key-encryption key, in the room that `kind` has in P4.
fn wrapped(kind: HashKey, plain: &[u8]) -> Bits {
    let mut room = [0; 96];
    let kek = AesKek::new(&AES_256, &KEK).unwrap();
    let wrapped = kek.wrap_with_padding(plain, &mut room).unwrap();
    let mut bytes = vec![0; kind.wrapped_len()];
    let at = bytes.len() - wrapped.len();
    bytes[at..].copy_from_slice(wrapped);
    Bits::new(8 * kind.wrapped_len() as u32, &bytes).unwrap()
}

/// `key`, filled up with zeros, which changes no HMAC (RFC 2104 section 2).
fn key(kind: HashKey, key: &[u8]) -> Bits {
    let mut plain = vec![kind as u8];
    plain.extend_from_slice(key);
    plain.resize(1 + kind.key_len(), 0);
    wrapped(kind, &plain)
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// The digests of an answer that has `digest` alone.
fn digests(digest: &[u8]) -> Vec<u8> {
    let mut all = vec![0; DIGESTS];
    let at = match digest.len() {
        3 => 0,
        8 => 3,
        32 => 11,
        _ => 43,
    };
    all[at..at + digest.len()].copy_from_slice(digest);
    all
}

/// Runs `action` on `packet`, which comes back, and asserts the digest; the others must be zero.
fn assert_digest(action: &str, args: Vec<Bits>, packet: &[u8], digest: &str) {
    let mut rig = Rig::new(action, args);
    let expected = digests(&unhex(digest));
    assert_eq!(
        rig.answer(packet),
        (0, expected, packet.to_vec()),
        "{action}"
    );
    assert_eq!(rig.refused(), 0);
}

/// The reference implementation's vectors: the key is 00 01 … 0f, the input 00 01 ….
#[test]
fn siphash_2_4_gives_the_reference_vectors() {
    let input: Vec<u8> = (0..64).collect();
    let key = key(HashKey::SipHash24, &input[..16]);
    for (len, digest) in [
        (0, "310e0edd47db6f72"),
        (1, "fd67dc93c539f874"),
        (8, "6224939a79f5f593"),
        (15, "e545be4961ca29a1"),
        (63, "724506eb4c328a95"),
    ] {
        assert_digest("siphash_2_4", vec![key.clone()], &input[..len], digest);
    }
}

/// RFC 4231, test cases 1 to 3.
#[test]
fn hmacs_give_the_vectors_of_rfc_4231() {
    for (secret, packet, sha256, sha512) in [
        (
            &[0x0b; 20][..],
            &b"Hi There"[..],
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        ),
        (
            &[0xaa; 20],
            &[0xdd; 50],
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb",
        ),
    ] {
        let args = vec![key(HashKey::HmacSha256, secret)];
        assert_digest("hmac_sha256", args, packet, sha256);
        let args = vec![key(HashKey::HmacSha512, secret)];
        assert_digest("hmac_sha512", args, packet, sha512);
    }
}

/// RFC 7693 appendix A; the example of FIPS 202.
#[test]
fn hashes_without_a_key_give_their_vectors() {
    assert_digest(
        "blake2b",
        vec![],
        b"abc",
        "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
    );
    assert_digest(
        "sha3_512",
        vec![],
        b"abc",
        "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
    );
}

#[test]
fn a_key_that_does_not_open_gives_no_digest_and_is_counted() {
    let good = key(HashKey::HmacSha256, b"secret");
    let mut damaged = good.bytes().to_vec();
    damaged[9] ^= 1;
    let tag = HashKey::HmacSha256 as u8;
    let kind = HashKey::HmacSha256;
    for (what, bad) in [
        ("damaged", Bits::new(384, &damaged).unwrap()),
        ("none", Bits::zero(384)),
        (
            "of another hash",
            wrapped(kind, &[HashKey::SipHash24 as u8; 33]),
        ),
        ("too short", wrapped(kind, &[tag; 32])),
        ("too long", wrapped(kind, &[tag; 34])),
        ("of a security association", wrapped(kind, &[tag; 36])),
    ] {
        let mut rig = Rig::new("hmac_sha256", vec![bad]);
        for packets in 1..=2 {
            let answer = rig.answer(b"a packet to be hashed");
            assert_eq!(
                answer,
                (1, vec![0; DIGESTS], b"a packet to be hashed".to_vec()),
                "{what}"
            );
            assert_eq!(rig.refused(), packets, "{what}");
        }
    }
}

#[test]
fn a_narrow_digest_is_the_first_bits_of_the_packet_as_it_is_now() {
    let mut before = vec![0x11; 100];
    let source = Bits::from_u128(48, 0x0200_0000_0009);
    let (_, digest, after) = Rig::new("cut", vec![source]).answer(&before);
    before[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    assert_eq!(after, before);
    let (_, whole, _) = Rig::new("blake2b", vec![]).answer(&before);
    let first = &whole[43..];
    assert_eq!(digest, digests(&[first[0], first[1], first[2] & 0xf0]));
}

proptest! {
    /// Every packet comes back whole, and the same bytes have the same digest wherever headers end.
    #[test]
    fn any_packet_is_hashed_and_unharmed(packet in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut rig = Rig::new("sha3_512", vec![]);
        let (verdict, digest, back) = rig.answer(&packet);
        prop_assert_eq!(verdict, 0);
        prop_assert_eq!(&back, &packet);
        let expected = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA3_512, &packet);
        prop_assert_eq!(digest, digests(expected.as_ref()));
    }
}

/// Packets of one flow are left to traces where they can be; headers are part of a hash all the same.
#[test]
fn each_packet_of_a_flow_has_its_own_digest() {
    let rig = Rig::at(256, "stamp", vec![]);
    for number in 0..500_u16 {
        let mut packet = vec![0x5a; 64];
        packet[6..8].copy_from_slice(&number.to_be_bytes());
        let mut out = Outcome::new();
        rig.switch.process(256, &packet, Duration::ZERO, &mut out);
        let (_, digest, _) = Rig::new("blake2b", vec![]).answer(&packet);
        assert_eq!(out.sent[0].bytes[..6], digest[43..49], "packet {number}");
        assert_eq!(out.sent[0].bytes[6..], packet[6..]);
    }
}
