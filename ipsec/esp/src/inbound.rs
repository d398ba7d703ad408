//! Opening: one inbound SA (RFC 4303 section 3.4).

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::cipher::{Cipher, Numbers};
use crate::key::{KeyError, KeyMaterial};
use crate::limits::{Lifetime, Limits};
use crate::retired::{Resumable, Spent};
use crate::window::ReplayWindow;
use crate::wire::{self, NEXT_HEADER_NONE, SEQUENCE, Spi};

pub struct InboundSa {
    spi: Spi,
    esn: bool,
    cipher: Cipher,
    window: ReplayWindow,
    lifetime: Lifetime,
}

/// The inner IP packet stands in `range` of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub range: Range<usize>,
    /// A soft limit is behind: time to rekey. Repeated every few hundred packets.
    pub soft_limit: bool,
    /// The sequence number is higher than every one before: the packet's source address is where the peer is.
    pub newest: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Too short, unaligned, wrong padding, or an inner packet that is not what the next header says.
    Malformed,
    /// The packet belongs to another SA.
    WrongSpi,
    /// Seen before, or older than the window. (With ESN, much older is taken for the next high half, and fails as
    /// `Icv`: appendix A2.2.)
    Replay,
    /// The integrity check failed: forged or damaged.
    Icv,
    /// RFC 4303 section 2.6: genuine, and nothing inside.
    Dummy,
    /// Genuine, but the SA is used up.
    HardLimit,
}

/// A packet of a batch: the packet, opened in place, and the result.
pub struct OpenJob<'a> {
    pub packet: &'a mut [u8],
    pub result: Result<Opened, OpenError>,
}

impl<'a> OpenJob<'a> {
    pub fn new(packet: &'a mut [u8]) -> Self {
        let result = Err(OpenError::Malformed);
        Self { packet, result }
    }
}

impl InboundSa {
    /// `replay_window` counts packets; below `MIN_REPLAY_WINDOW` it is raised to that. `esn`: as the peer's.
    pub fn new(
        spi: Spi,
        key: &KeyMaterial,
        esn: bool,
        replay_window: u16,
        soft: Limits,
        hard: Limits,
    ) -> Result<Self, KeyError> {
        Ok(Self {
            spi,
            esn,
            cipher: Cipher::new(key)?,
            window: ReplayWindow::resume_after(0, replay_window),
            lifetime: Lifetime::new(soft, hard),
        })
    }

    /// Opens in place a packet that starts at its SPI and ends with its ICV. After an error the buffer holds no packet.
    pub fn open(&mut self, packet: &mut [u8], now: Duration) -> Result<Opened, OpenError> {
        let shape = &self.cipher.shape;
        let header_len = shape.header();
        if !shape.plausible_len(packet.len()) {
            return Err(OpenError::Malformed);
        }
        let spi = wire::packet_spi(packet).ok_or(OpenError::Malformed)?;
        if spi != self.spi.get() {
            return Err(OpenError::WrongSpi);
        }
        let low = wire::be32(packet, SEQUENCE).ok_or(OpenError::Malformed)?;
        let sequence = self
            .sequence(low)
            .filter(|it| self.window.is_new(*it))
            .ok_or(OpenError::Replay)?;
        let numbers = Numbers {
            spi,
            sequence,
            esn: self.esn,
        };
        let plain = self
            .cipher
            .open(numbers, packet)
            .map_err(|_| OpenError::Icv)?;
        let newest = sequence > self.window.top();
        self.window.mark(sequence);

        let (payload, next_header) = wire::split_trailer(plain).ok_or(OpenError::Malformed)?;
        let inner_len = match wire::inner_packet(payload) {
            _ if next_header == NEXT_HEADER_NONE => 0,
            Some((own, len)) if own == next_header => len,
            _ => return Err(OpenError::Malformed),
        };
        let soft_limit = self
            .lifetime
            .count(inner_len, now)
            .map_err(|_| OpenError::HardLimit)?;
        if next_header == NEXT_HEADER_NONE {
            return Err(OpenError::Dummy);
        }
        Ok(Opened {
            range: header_len..header_len + inner_len,
            soft_limit,
            newest,
        })
    }

    /// Opens each job as `open` does, in order.
    pub fn open_batch(&mut self, jobs: &mut [OpenJob<'_>], now: Duration) {
        for job in jobs {
            job.result = self.open(job.packet, now);
        }
    }

    /// The number behind a received low half.
    fn sequence(&self, low: u32) -> Option<u64> {
        if self.esn {
            self.window.recover(low)
        } else {
            Some(low.into())
        }
    }

    /// Goes on with a key that was in use: numbers up to `sequence` are refused. Never goes back.
    pub fn resume_after(&mut self, sequence: u64) {
        if sequence > self.window.top() {
            self.window = ReplayWindow::resume_after(sequence, self.window.size());
        }
    }

    /// The highest sequence number accepted.
    pub(crate) fn top(&self) -> u64 {
        self.window.top()
    }

    pub(crate) fn window(&self) -> &ReplayWindow {
        &self.window
    }

    /// Goes on with the window of another process, unless this one is ahead.
    pub(crate) fn adopt_window(&mut self, window: ReplayWindow) {
        if window.top() >= self.window.top() {
            self.window = window;
        }
    }

    pub fn set_limits(&mut self, soft: Limits, hard: Limits) {
        self.lifetime.soft = soft;
        self.lifetime.hard = hard;
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

impl std::error::Error for OpenError {}
