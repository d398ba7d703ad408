//! The body of each fuzz target. `cargo test -p esp` runs them over the committed corpora.
//!
//! ```text
//!  open    kind of SA, then steps: raw bytes │ any payload, sealed genuinely │ that, damaged │ the last packet again
//!  seal    kind of SA, padding, then inner packets; what is sealed must open to the same bytes
//!  nat_t   datagrams: demultiplexed, then opened by the SA that they name
//! ```
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::collections::HashSet;
use std::time::Duration;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::hmac;
use esp::nat_t::{Datagram, demultiplex};
use esp::{
    AllowedSuites, InboundSa, KeyMaterial, Limits, MAX_OVERHEAD, OutboundSa, SUITES, SealError,
    Spi, Suite, TrafficClass,
};

const NOW: Duration = Duration::ZERO;
const SPI: u32 = 0x1234_5678;
const WINDOW: u16 = 1024;

/// Takes the input apart from its start.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    /// Takes as many bytes as the next byte says, times 8 if its upper bit is set; fewer at the end.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.byte()?;
        let len = if len < 128 {
            usize::from(len)
        } else {
            usize::from(len - 128) * 8
        };
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Some(bytes)
    }
}

#[derive(Clone, Copy)]
struct Kind {
    suite: Suite,
    esn: bool,
}

impl Kind {
    fn of(selector: u8) -> Self {
        Self {
            suite: SUITES[usize::from(selector >> 1) % SUITES.len()],
            esn: selector & 1 == 1,
        }
    }

    fn key(self) -> KeyMaterial {
        let allowed = AllowedSuites::MODERN.with(self.suite);
        KeyMaterial::new(allowed.admit(self.suite).unwrap(), &self.key_bytes()).unwrap()
    }

    fn key_bytes(self) -> Vec<u8> {
        (0..self.suite.key_material_len() as u8).collect()
    }

    fn inbound(self, spi: u32) -> InboundSa {
        let (none, spi) = (Limits::NONE, Spi::new(spi).unwrap());
        InboundSa::new(spi, &self.key(), self.esn, WINDOW, none, none).unwrap()
    }

    fn outbound(self) -> OutboundSa {
        let (none, spi) = (Limits::NONE, Spi::new(SPI).unwrap());
        OutboundSa::new(spi, &self.key(), self.esn, none, none).unwrap()
    }

    /// A packet with a right ICV around any payload and trailer; CTR and CBC need a proper one.
    fn genuine(self, payload: &[u8], sequence: u64) -> Option<Vec<u8>> {
        let key = self.key_bytes();
        let mut packet = [SPI.to_be_bytes(), (sequence as u32).to_be_bytes()].concat();
        let algorithm = match self.suite {
            Suite::AesGcm256 => &AES_256_GCM,
            Suite::AesGcm128 => &AES_128_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Suite::NullHmacSha256 => {
                packet.extend(payload);
                let mut authenticated = packet.clone();
                if self.esn {
                    authenticated.extend(((sequence >> 32) as u32).to_be_bytes());
                }
                let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
                packet.extend(&hmac::sign(&key, &authenticated).as_ref()[..16]);
                return Some(packet);
            }
            _ => {
                let mut sa = self.outbound();
                sa.resume_after(sequence.checked_sub(1)?);
                let mut out = vec![0; payload.len() + MAX_OVERHEAD];
                let len = sa.seal(payload, &mut out, NOW).ok()?.len;
                out.truncate(len);
                return Some(out);
            }
        };
        let aad = if self.esn {
            [&packet[..4], &sequence.to_be_bytes()].concat()
        } else {
            packet.clone()
        };
        let (key, salt) = key.split_last_chunk::<4>().unwrap();
        let iv = sequence.to_be_bytes();
        let nonce = Nonce::try_assume_unique_for_key(&[&salt[..], &iv].concat()).unwrap();
        let mut sealed = payload.to_vec();
        LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap())
            .seal_in_place_append_tag(nonce, Aad::from(aad), &mut sealed)
            .unwrap();
        packet.extend(iv);
        packet.extend(sealed);
        Some(packet)
    }
}

/// A packet that is not genuine never opens, a genuine one opens at most once, and what opens is a whole IP packet.
pub fn open(input: &[u8]) {
    let mut input = Input(input);
    let Some(kind) = input.byte().map(Kind::of) else {
        return;
    };
    let mut sa = kind.inbound(SPI);
    let (mut accepted, mut top) = (HashSet::new(), 0u64);
    let mut last = None;
    let mut start = 0u64;
    if kind.esn && input.byte().is_some_and(|it| it > 128) {
        start = u64::from(u32::MAX) - 20;
        sa.resume_after(start);
        top = start;
    }
    while let (Some(step), Some(offset)) = (input.byte(), input.word()) {
        let Some(bytes) = input.bytes() else { return };
        let mut packet = bytes.to_vec();
        let mut genuine = None;
        match step % 4 {
            0 if step > 128 && packet.len() >= 4 => {
                packet[..4].copy_from_slice(&SPI.to_be_bytes());
            }
            0 => {}
            3 => {
                let Some((again, sequence)) = last.clone() else {
                    continue;
                };
                (packet, genuine) = (again, Some(sequence));
            }
            fresh => {
                let sequence = start + u64::from(offset);
                let Some(sealed) = kind.genuine(bytes, sequence) else {
                    continue;
                };
                last = Some((sealed.clone(), sequence));
                packet = sealed;
                if fresh == 2 {
                    let bit = usize::from(step) * 7 % (packet.len() * 8);
                    packet[bit / 8] ^= 1 << (bit % 8);
                } else {
                    genuine = Some(sequence);
                }
            }
        }
        let Ok(opened) = sa.open(&mut packet, NOW) else {
            continue;
        };
        let Some(sequence) = genuine else {
            panic!("forged")
        };
        assert!(accepted.insert(sequence), "replayed");
        // Dummies move the window too, so this is one direction only.
        assert!(!opened.newest || sequence > top, "not the newest");
        top = top.max(sequence);
        let inner = &packet[opened.range];
        let class = TrafficClass::of(inner).unwrap();
        assert!(class.decapsulate(class).is_ok());
        let total = match inner[0] >> 4 {
            4 => u16::from_be_bytes([inner[2], inner[3]]).into(),
            _ => 40 + usize::from(u16::from_be_bytes([inner[4], inner[5]])),
        };
        assert_eq!(total, inner.len());
    }
}

/// Sealed bytes have the stated length and open to the same bytes; a refused packet changes nothing.
pub fn seal(input: &[u8]) {
    let mut input = Input(input);
    let (Some(kind), Some(pad)) = (input.byte().map(Kind::of), input.word()) else {
        return;
    };
    let (mut outbound, mut inbound) = (kind.outbound(), kind.inbound(SPI));
    let pad_to = pad % 2048;
    outbound.pad_to(pad_to);
    let mut sequence = 0u32;
    while let (Some(step), Some(inner)) = (input.byte(), input.bytes()) {
        let room = match step % 4 {
            0 => usize::from(step),
            _ => outbound.sealed_len(inner.len()) + usize::from(step % 4 - 1),
        };
        let mut out = vec![0xaa; room];
        let dummy = step > 240;
        let result = if dummy {
            outbound.seal_dummy(inner.len(), &mut out, NOW)
        } else {
            outbound.seal(inner, &mut out, NOW)
        };
        let sealed = match result {
            Ok(sealed) => sealed,
            Err(SealError::Malformed | SealError::BufferTooSmall) => continue,
            Err(other) => panic!("{other}"),
        };
        sequence += 1;
        assert_eq!(out[4..8], sequence.to_be_bytes());
        assert!(out[sealed.len..].iter().all(|byte| *byte == 0xaa));
        let opened = inbound.open(&mut out[..sealed.len], NOW);
        if dummy {
            assert_eq!(opened, Err(esp::OpenError::Dummy));
            continue;
        }
        let range = opened.unwrap().range;
        assert_eq!(
            sealed.len,
            kind.suite.sealed_len(range.len().max(pad_to.into()))
        );
        assert_eq!(out[range.clone()], inner[..range.len()]);
    }
}

/// Classifies each datagram as one kind; it opens only if the SA's own key sealed it.
pub fn nat_t(input: &[u8]) {
    let mut input = Input(input);
    let kinds = [0, 3, 9, 12].map(Kind::of);
    let mut sas = [256, 257, SPI, u32::MAX].map(|spi| kinds.map(|kind| kind.inbound(spi)));
    while let Some(bytes) = input.bytes() {
        let mut datagram = bytes.to_vec();
        match demultiplex(bytes) {
            Datagram::Keepalive => assert_eq!(bytes, [0xff]),
            Datagram::NonEsp => assert_eq!(bytes[..4], [0; 4]),
            Datagram::Malformed => assert!(bytes.len() < 4 || bytes[..3] == [0; 3]),
            Datagram::Esp(spi) => {
                assert_eq!(bytes[..4], spi.get().to_be_bytes());
                for sa in sas.iter_mut().flatten() {
                    assert!(sa.open(&mut datagram, NOW).is_err(), "forged");
                }
            }
        }
        let mut inner = bytes.to_vec();
        if let Some(class) = TrafficClass::of(&inner) {
            TrafficClass(!class.0).write(&mut inner);
            assert_eq!(TrafficClass::of(&inner), Some(TrafficClass(!class.0)));
            class.write(&mut inner);
            assert_eq!(TrafficClass::of(&inner), Some(class));
        }
    }
}
