//! The suites: their names, the lengths that follow from them, and the permission to use one.
//!
//! A legacy suite is one that RFC 8221 no longer asks for, or that hides nothing. It exists for old peers, and only an
//! [`AllowedSuites`] that names it lets a key of it be made.

use std::fmt;
use std::str::FromStr;

use crate::contract::{SUITES, Shape, Suite};

impl Shape {
    pub(crate) const fn material(&self) -> usize {
        self.key + self.salt + self.integrity
    }

    /// RFC 5649 section 4.1: padded to 8 bytes, and 8 more.
    pub(crate) const fn wrapped(&self) -> usize {
        self.material().next_multiple_of(8) + 8
    }
}

impl Suite {
    pub const fn name(self) -> &'static str {
        self.shape().name
    }

    pub const fn is_legacy(self) -> bool {
        self.shape().legacy
    }

    /// Bytes of key material.
    pub const fn key_material_len(self) -> usize {
        self.shape().material()
    }

    /// The bit of a legacy suite: the numbers of all legacy suites differ in the last three bits.
    const fn bit(self) -> u8 {
        1 << (self as u8 & 7)
    }
}

impl TryFrom<u8> for Suite {
    type Error = UnknownSuite;

    fn try_from(number: u8) -> Result<Self, UnknownSuite> {
        let found = SUITES.into_iter().find(|suite| *suite as u8 == number);
        found.ok_or(UnknownSuite)
    }
}

impl FromStr for Suite {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<Self, UnknownSuite> {
        let found = SUITES.into_iter().find(|suite| suite.name() == name);
        found.ok_or(UnknownSuite)
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No suite has this number or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownSuite;

impl fmt::Display for UnknownSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such suite; there are")?;
        SUITES.iter().try_for_each(|suite| write!(f, " {suite}"))
    }
}

impl std::error::Error for UnknownSuite {}

/// Suites that may be used: all that are not legacy, and the legacy ones that are turned on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowedSuites {
    legacy: u8,
}

/// A suite that may be used. A key is made for no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmittedSuite(Suite);

impl AllowedSuites {
    pub const MODERN: Self = Self { legacy: 0 };

    pub const fn with(self, suite: Suite) -> Self {
        if !suite.is_legacy() {
            return self;
        }
        Self {
            legacy: self.legacy | suite.bit(),
        }
    }

    pub const fn admit(self, suite: Suite) -> Option<AdmittedSuite> {
        if suite.is_legacy() && self.legacy & suite.bit() == 0 {
            return None;
        }
        Some(AdmittedSuite(suite))
    }
}

impl FromIterator<Suite> for AllowedSuites {
    fn from_iter<T: IntoIterator<Item = Suite>>(suites: T) -> Self {
        suites.into_iter().fold(Self::MODERN, Self::with)
    }
}

impl AdmittedSuite {
    pub const AES_GCM_256: Self = Self(Suite::AesGcm256);

    pub const fn suite(self) -> Suite {
        self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_the_suite() {
        for suite in SUITES {
            assert_eq!(Suite::try_from(suite as u8), Ok(suite));
            assert_eq!(suite.name().parse(), Ok(suite));
            let shape = suite.shape();
            assert!(shape.wrapped() <= crate::WRAPPED_KEY_LEN);
            assert!(shape.block % 4 == 0);
            for len in 0..3000 {
                assert!(suite.sealed_len(len) <= len + crate::MAX_OVERHEAD);
            }
        }
        assert_eq!(Suite::try_from(0), Err(UnknownSuite));
        assert_eq!("null".parse::<Suite>(), Err(UnknownSuite));
    }

    #[test]
    fn a_legacy_suite_is_admitted_only_by_name() {
        for suite in SUITES {
            let admitted = AllowedSuites::MODERN.admit(suite);
            assert_eq!(admitted.is_none(), suite.is_legacy());
            for other in SUITES {
                let allowed = AllowedSuites::MODERN.with(other);
                assert_eq!(
                    allowed.admit(suite).is_some(),
                    !suite.is_legacy() || suite == other
                );
            }
        }
    }
}
