//! Sealing: one outbound SA (RFC 4303 section 3.3).

use std::fmt;
use std::time::Duration;

use crate::cipher::{Cipher, Numbers};
use crate::key::{KeyError, KeyMaterial};
use crate::limits::{Lifetime, Limits};
use crate::retired::{Resumable, Spent};
use crate::wire::{self, NEXT_HEADER_NONE, Spi};

pub struct OutboundSa {
    spi: Spi,
    esn: bool,
    cipher: Cipher,
    sequence: u64,
    lifetime: Lifetime,
    pad_to: usize,
}

/// An ESP packet stands in the first `len` bytes of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    pub len: usize,
    /// A soft limit is behind: time to rekey. Repeated every few hundred packets.
    pub soft_limit: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The inner bytes are not a whole IPv4 or IPv6 packet.
    Malformed,
    /// The buffer is shorter than `OutboundSa::sealed_len` of the inner packet.
    BufferTooSmall,
    /// A hard limit, or the last sequence number, is reached.
    HardLimit,
    /// The system has no randomness for an IV.
    NoRandomness,
}

/// A packet of a batch: the packet to seal, the buffer for the result, and the result.
pub struct SealJob<'a> {
    pub inner: &'a [u8],
    pub out: &'a mut [u8],
    pub result: Result<Sealed, SealError>,
}

impl<'a> SealJob<'a> {
    pub fn new(inner: &'a [u8], out: &'a mut [u8]) -> Self {
        let result = Err(SealError::Malformed);
        Self { inner, out, result }
    }
}

impl OutboundSa {
    /// `esn`: 64-bit sequence numbers (RFC 4303 section 2.2.1); without it the SA ends after 2^32 - 1 packets.
    pub fn new(
        spi: Spi,
        key: &KeyMaterial,
        esn: bool,
        soft: Limits,
        hard: Limits,
    ) -> Result<Self, KeyError> {
        Ok(Self {
            spi,
            esn,
            cipher: Cipher::new(key)?,
            sequence: 0,
            lifetime: Lifetime::new(soft, hard),
            pad_to: 0,
        })
    }

    /// Seals the IP packet at the start of `inner`, as long as its own header says, into `out`.
    pub fn seal(
        &mut self,
        inner: &[u8],
        out: &mut [u8],
        now: Duration,
    ) -> Result<Sealed, SealError> {
        let (next_header, inner_len) = wire::inner_packet(inner).ok_or(SealError::Malformed)?;
        let inner = inner.get(..inner_len).ok_or(SealError::Malformed)?;
        self.seal_payload(inner, next_header, out, now)
    }

    /// Seals in place the IP packet that stands at `inner_at` of `out`, as long as its own header says, which is at most
    /// `inner_len`. The bytes around it are overwritten.
    pub fn seal_in_place(
        &mut self,
        inner_len: usize,
        out: &mut [u8],
        now: Duration,
    ) -> Result<Sealed, SealError> {
        let at = self.inner_at();
        let inner = out
            .get(at..at.saturating_add(inner_len))
            .ok_or(SealError::BufferTooSmall)?;
        let (next_header, inner_len) = wire::inner_packet(inner).ok_or(SealError::Malformed)?;
        self.seal_placed(inner_len, next_header, out, now)
    }

    /// The offset of the inner packet in an ESP packet.
    pub fn inner_at(&self) -> usize {
        self.cipher.shape.header()
    }

    /// Seals a dummy packet (RFC 4303 section 2.6) with `len` random bytes inside; the peer drops it.
    pub fn seal_dummy(
        &mut self,
        len: usize,
        out: &mut [u8],
        now: Duration,
    ) -> Result<Sealed, SealError> {
        let mut noise = [0; MAX_DUMMY_LEN];
        let noise = noise.get_mut(..len).ok_or(SealError::Malformed)?;
        aws_lc_rs::rand::fill(noise).map_err(|_| SealError::NoRandomness)?;
        self.seal_payload(noise, NEXT_HEADER_NONE, out, now)
    }

    /// Seals each job as `seal` does, in order.
    pub fn seal_batch(&mut self, jobs: &mut [SealJob<'_>], now: Duration) {
        for job in jobs {
            job.result = self.seal(job.inner, job.out, now);
        }
    }

    fn seal_payload(
        &mut self,
        payload: &[u8],
        next_header: u8,
        out: &mut [u8],
        now: Duration,
    ) -> Result<Sealed, SealError> {
        let at = self.inner_at();
        let room = out
            .get_mut(at..at + payload.len())
            .ok_or(SealError::BufferTooSmall)?;
        room.copy_from_slice(payload);
        self.seal_placed(payload.len(), next_header, out, now)
    }

    fn seal_placed(
        &mut self,
        payload_len: usize,
        next_header: u8,
        out: &mut [u8],
        now: Duration,
    ) -> Result<Sealed, SealError> {
        let out = out
            .get_mut(..self.sealed_len(payload_len))
            .ok_or(SealError::BufferTooSmall)?;
        let last = if self.esn { u64::MAX } else { u32::MAX.into() };
        let sequence = self
            .sequence
            .checked_add(1)
            .filter(|sequence| *sequence <= last)
            .ok_or(SealError::HardLimit)?;
        let soft_limit = self
            .lifetime
            .count(payload_len, now)
            .map_err(|_| SealError::HardLimit)?;
        // Spent before it is used: no failure below can bring the same IV again.
        self.sequence = sequence;

        let shape = &self.cipher.shape;
        let plain_end = out.len() - shape.icv;
        let plain = out
            .get_mut(shape.header()..plain_end)
            .ok_or(SealError::BufferTooSmall)?;
        wire::write_trailer(plain, payload_len, self.pad_to, next_header);
        let numbers = Numbers {
            spi: self.spi.get(),
            sequence,
            esn: self.esn,
        };
        // The only failure that a packet of this length can have.
        self.cipher
            .seal(numbers, out)
            .map_err(|_| SealError::NoRandomness)?;
        Ok(Sealed {
            len: out.len(),
            soft_limit,
        })
    }

    /// Length of the ESP packet around an inner packet of `inner_len` bytes.
    pub fn sealed_len(&self, inner_len: usize) -> usize {
        wire::sealed_len(&self.cipher.shape, inner_len.max(self.pad_to))
    }

    /// Traffic flow confidentiality (RFC 4303 section 2.7): from now on, inner packets shorter than `len` bytes look as
    /// if they had so many. 0 turns it off.
    pub fn pad_to(&mut self, len: u16) {
        self.pad_to = len.into();
    }

    /// Goes on with a key that was in use: numbers up to `sequence` are spent. Never goes back.
    pub fn resume_after(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    pub fn set_limits(&mut self, soft: Limits, hard: Limits) {
        self.lifetime.soft = soft;
        self.lifetime.hard = hard;
    }
}

/// A dummy of this size fills a link of 1500 bytes with any suite.
pub const MAX_DUMMY_LEN: usize = 1500;

impl Resumable for OutboundSa {
    fn spent(&self) -> Spent {
        Spent {
            sequence: self.sequence,
            used: self.lifetime.used(),
        }
    }

    fn resume(&mut self, spent: Spent) {
        self.resume_after(spent.sequence);
        self.lifetime.resume(spent.used);
    }
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not a whole IP packet",
            Self::BufferTooSmall => "no room for the ESP packet",
            Self::HardLimit => "the SA is used up",
            Self::NoRandomness => "the system has no randomness for an IV",
        })
    }
}

impl std::error::Error for SealError {}
