//! One direction of protection: `OutboundSa` seals (RFC 4303 section 3.3), `InboundSa` opens (section 3.4).

use std::fmt;
use std::ops::Range;

use aws_lc_rs::aead::{Aad, Nonce};

use crate::key::{Cipher, KeyError, KeyMaterial};
use crate::limits::{Lifetime, Limits};
use crate::retired::{Resumable, Spent};
use crate::window::ReplayWindow;
use crate::wire::{self, HEADER_LEN, ICV_LEN, IV, SEQUENCE, Spi};

pub struct OutboundSa {
    spi: Spi,
    cipher: Cipher,
    sequence: u64,
    lifetime: Lifetime,
}

pub struct InboundSa {
    spi: Spi,
    cipher: Cipher,
    window: ReplayWindow,
    lifetime: Lifetime,
}

/// An ESP packet stands in the first `len` bytes of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    pub len: usize,
    /// A soft limit is behind: time to rekey. Repeated every few hundred packets.
    pub soft_limit: bool,
}

/// The inner IP packet stands in `range` of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub range: Range<usize>,
    /// A soft limit is behind: time to rekey. Repeated every few hundred packets.
    pub soft_limit: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// Not a whole IPv4 or IPv6 packet.
    Malformed,
    /// The buffer is shorter than `sealed_len` of the inner packet.
    BufferTooSmall,
    /// A hard limit, or the last sequence number, is reached.
    HardLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Too short, unaligned, wrong padding, or an inner packet that is not what the next header says.
    Malformed,
    /// The packet belongs to another SA.
    WrongSpi,
    /// Seen before, or older than the window. (Much older is taken for the next high half, and fails as `Icv`:
    /// appendix A2.2.)
    Replay,
    /// The integrity check failed: forged or damaged.
    Icv,
    /// RFC 4303 section 2.6: genuine, and nothing inside.
    Dummy,
    /// Genuine, but the SA is used up.
    HardLimit,
}

impl OutboundSa {
    pub fn new(spi: Spi, key: &KeyMaterial, soft: Limits, hard: Limits) -> Result<Self, KeyError> {
        Ok(Self {
            spi,
            cipher: key.cipher()?,
            sequence: 0,
            lifetime: Lifetime::new(soft, hard),
        })
    }

    /// Seals the IP packet at the start of `inner`, as long as its own header says, into `out`.
    pub fn seal(&mut self, inner: &[u8], out: &mut [u8]) -> Result<Sealed, SealError> {
        let (next_header, inner_len) = wire::inner_packet(inner).ok_or(SealError::Malformed)?;
        let out = out
            .get_mut(..wire::sealed_len(inner_len))
            .ok_or(SealError::BufferTooSmall)?;
        let sequence = self.sequence.checked_add(1).ok_or(SealError::HardLimit)?;
        let soft_limit = self
            .lifetime
            .count(inner_len)
            .map_err(|_| SealError::HardLimit)?;
        // Spent before it is used: no failure below can bring the same IV again.
        self.sequence = sequence;

        let iv = sequence.to_be_bytes();
        let (header, rest) = out.split_at_mut(HEADER_LEN);
        header[..SEQUENCE].copy_from_slice(&self.spi.get().to_be_bytes());
        header[SEQUENCE..IV].copy_from_slice(&iv[4..]);
        header[IV..].copy_from_slice(&iv);
        let (plain, icv) = rest.split_at_mut(rest.len() - ICV_LEN);
        plain[..inner_len].copy_from_slice(&inner[..inner_len]);
        wire::write_trailer(&mut plain[inner_len..], next_header);

        let nonce = Nonce::assume_unique_for_key(wire::nonce(self.cipher.salt, iv));
        let aad = Aad::from(wire::aad(self.spi.get(), sequence));
        // AES-GCM refuses only packets of 64 GiB.
        let tag = self
            .cipher
            .key
            .seal_in_place_separate_tag(nonce, aad, plain)
            .map_err(|_| SealError::Malformed)?;
        icv.copy_from_slice(tag.as_ref());
        Ok(Sealed {
            len: out.len(),
            soft_limit,
        })
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

impl InboundSa {
    /// `replay_window` counts packets; below `MIN_REPLAY_WINDOW` it is raised to that.
    pub fn new(
        spi: Spi,
        key: &KeyMaterial,
        replay_window: u16,
        soft: Limits,
        hard: Limits,
    ) -> Result<Self, KeyError> {
        let window = ReplayWindow::resume_after(0, replay_window);
        Ok(Self {
            spi,
            cipher: key.cipher()?,
            window,
            lifetime: Lifetime::new(soft, hard),
        })
    }

    /// Opens in place a packet that starts at its SPI and ends with its ICV. After an error the buffer holds no packet.
    pub fn open(&mut self, packet: &mut [u8]) -> Result<Opened, OpenError> {
        if !wire::plausible_len(packet.len()) {
            return Err(OpenError::Malformed);
        }
        let spi = wire::packet_spi(packet).ok_or(OpenError::Malformed)?;
        if spi != self.spi.get() {
            return Err(OpenError::WrongSpi);
        }
        let low = wire::be32(packet, SEQUENCE).ok_or(OpenError::Malformed)?;
        let sequence = self
            .window
            .recover(low)
            .filter(|it| self.window.is_new(*it))
            .ok_or(OpenError::Replay)?;

        let (header, rest) = packet.split_at_mut(HEADER_LEN);
        let iv = *header.last_chunk().ok_or(OpenError::Malformed)?;
        let (plain, icv) = rest.split_at_mut(rest.len() - ICV_LEN);
        let nonce = Nonce::assume_unique_for_key(wire::nonce(self.cipher.salt, iv));
        let aad = Aad::from(wire::aad(spi, sequence));
        self.cipher
            .key
            .open_in_place_separate_tag(nonce, aad, icv, plain)
            .map_err(|_| OpenError::Icv)?;
        self.window.mark(sequence);

        let (payload, next_header) = wire::split_trailer(plain).ok_or(OpenError::Malformed)?;
        let inner_len = match wire::inner_packet(payload) {
            _ if next_header == wire::NEXT_HEADER_NONE => 0,
            Some((own, len)) if own == next_header => len,
            _ => return Err(OpenError::Malformed),
        };
        let soft_limit = self
            .lifetime
            .count(inner_len)
            .map_err(|_| OpenError::HardLimit)?;
        if next_header == wire::NEXT_HEADER_NONE {
            return Err(OpenError::Dummy);
        }
        Ok(Opened {
            range: HEADER_LEN..HEADER_LEN + inner_len,
            soft_limit,
        })
    }

    /// Goes on with a key that was in use: numbers up to `sequence` are refused. Never goes back.
    pub fn resume_after(&mut self, sequence: u64) {
        if sequence > self.window.top() {
            self.window = ReplayWindow::resume_after(sequence, self.window.size());
        }
    }

    pub fn set_limits(&mut self, soft: Limits, hard: Limits) {
        self.lifetime.soft = soft;
        self.lifetime.hard = hard;
    }
}

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

impl Resumable for InboundSa {
    fn spent(&self) -> Spent {
        Spent {
            sequence: self.window.top(),
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
        })
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed ESP packet",
            Self::WrongSpi => "the packet belongs to another SA",
            Self::Replay => "replayed or too old",
            Self::Icv => "integrity check failed",
            Self::Dummy => "dummy packet",
            Self::HardLimit => "the SA is used up",
        })
    }
}

impl std::error::Error for SealError {}
impl std::error::Error for OpenError {}
