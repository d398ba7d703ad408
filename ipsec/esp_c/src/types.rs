//! Types that cross the border by value or by pointer. Every bit pattern that C hands in is a valid value.

use std::ffi::CStr;
use std::sync::Mutex;

use esp::engine::{Engine, Verdict};

/// Bytes of the longest wrapped key; a shorter one is right-aligned behind zeros, and the suite tells its length.
pub const CULVERT_ESP_WRAPPED_KEY_LEN: usize = 72;
/// Sealing makes a packet longer by at most this many bytes, whatever the suite.
pub const CULVERT_ESP_OVERHEAD: usize = 64;
/// Bytes of the longest packet that is opened or sealed.
pub const CULVERT_ESP_MAX_PACKET: usize = 65535;

const _: () = assert!(CULVERT_ESP_WRAPPED_KEY_LEN == esp::WRAPPED_KEY_LEN);
const _: () = assert!(CULVERT_ESP_OVERHEAD >= esp::MAX_OVERHEAD);

/// An engine: SAs by slot, inbound and outbound. Any thread may use it; calls wait for each other.
pub struct CulvertEsp(pub(crate) Mutex<Engine>);

/// Result of a call's checks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CulvertEspStatus {
    /// The call was carried out; the packet's fate is in the verdict.
    Ok = 0,
    /// A pointer that must not be NULL is.
    NullPointer = 1,
    /// A pointer is not aligned for its type.
    Misaligned = 2,
    /// A packet is longer than CULVERT_ESP_MAX_PACKET, or a buffer's end is beyond the address space.
    TooLong = 3,
    /// `out` has less room than the packet and CULVERT_ESP_OVERHEAD need.
    NoRoom = 4,
    /// `inner` and `out` share bytes.
    Overlap = 5,
    /// A text is not UTF-8.
    NotText = 6,
    /// The list of allowed suites names one that does not exist.
    UnknownSuite = 7,
    /// An engine needs at least one slot.
    NoSlots = 8,
    /// The key-encryption key is not 32 bytes, or its file is none.
    KekSize = 9,
    /// The key-encryption key's file cannot be read.
    KekUnreadable = 10,
    /// The key-encryption key's file is open to others: its mode must be 0600 or 0400.
    KekExposed = 11,
    /// A fault inside the engine. This engine refuses all work from now on.
    Broken = 12,
}

/// The fate of a packet; as `Verdict` in p4/gateway/esp_engine.p4.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CulvertEspVerdict {
    Ok = 0,
    /// Done, and a soft limit is behind.
    SoftLimit = 1,
    Malformed = 2,
    Replay = 3,
    Icv = 4,
    Dummy = 5,
    HardLimit = 6,
    /// No SA can be made from these parameters, or the call was not well-formed.
    Key = 7,
}

/// Lifetime limits of an SA; 0 means no limit. Seconds count from its first packet in the engine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CulvertEspLimits {
    pub packets: u64,
    /// Bytes of inner packets.
    pub bytes: u64,
    pub seconds: u32,
}

/// An SA as a table entry describes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CulvertEspSa {
    pub slot: u32,
    pub spi: u32,
    /// Number of the suite, as in `Suite` of p4/gateway/esp_engine.p4.
    pub suite: u8,
    /// Extended sequence numbers (RFC 4303 section 2.2.1) unless 0.
    pub esn: u8,
    /// Packets; counts when an inbound SA is made, and is ignored when sealing.
    pub replay_window: u16,
    /// Key material wrapped under the key-encryption key (RFC 5649), right-aligned.
    pub wrapped_key: [u8; CULVERT_ESP_WRAPPED_KEY_LEN],
    pub soft: CulvertEspLimits,
    pub hard: CulvertEspLimits,
}

/// Result of opening. `offset` and `len` are 0 unless the verdict is OK or SOFT_LIMIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CulvertEspOpened {
    pub verdict: CulvertEspVerdict,
    /// Authenticated, and higher than every sequence number before, whatever the verdict.
    pub newest: bool,
    /// Offset of the inner IP packet in `packet`.
    pub offset: usize,
    /// Bytes of the inner IP packet.
    pub len: usize,
}

/// Result of sealing. `len` is 0 unless the verdict is OK or SOFT_LIMIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CulvertEspSealed {
    pub verdict: CulvertEspVerdict,
    /// Bytes of the ESP packet in `out`, from its SPI.
    pub len: usize,
}

impl CulvertEspOpened {
    pub(crate) const REFUSED: Self = Self {
        verdict: CulvertEspVerdict::Key,
        newest: false,
        offset: 0,
        len: 0,
    };
}

impl CulvertEspSealed {
    pub(crate) const REFUSED: Self = Self {
        verdict: CulvertEspVerdict::Key,
        len: 0,
    };
}

impl From<Verdict> for CulvertEspVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Ok => Self::Ok,
            Verdict::SoftLimit => Self::SoftLimit,
            Verdict::Malformed => Self::Malformed,
            Verdict::Replay => Self::Replay,
            Verdict::Icv => Self::Icv,
            Verdict::Dummy => Self::Dummy,
            Verdict::HardLimit => Self::HardLimit,
            Verdict::Key => Self::Key,
        }
    }
}

impl CulvertEspStatus {
    pub(crate) const ALL: [Self; 13] = [
        Self::Ok,
        Self::NullPointer,
        Self::Misaligned,
        Self::TooLong,
        Self::NoRoom,
        Self::Overlap,
        Self::NotText,
        Self::UnknownSuite,
        Self::NoSlots,
        Self::KekSize,
        Self::KekUnreadable,
        Self::KekExposed,
        Self::Broken,
    ];

    pub(crate) const fn text(self) -> &'static CStr {
        match self {
            Self::Ok => c"done",
            Self::NullPointer => c"a pointer is NULL",
            Self::Misaligned => c"a pointer is not aligned for its type",
            Self::TooLong => c"a packet is longer than 65535 bytes, or a buffer ends beyond memory",
            Self::NoRoom => c"the output buffer is too small",
            Self::Overlap => c"input and output share bytes",
            Self::NotText => c"a text is not UTF-8",
            Self::UnknownSuite => c"the list of allowed suites names one that does not exist",
            Self::NoSlots => c"an engine needs at least one slot",
            Self::KekSize => c"the key-encryption key is not exactly 32 raw bytes",
            Self::KekUnreadable => c"the key-encryption key's file cannot be read",
            Self::KekExposed => c"the key-encryption key's file is open to others: chmod 0600 it",
            Self::Broken => c"a fault inside the engine; it refuses all work",
        }
    }
}
