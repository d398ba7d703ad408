//! The filter of a trace: by port and bytes before a packet runs through the program, by its steps afterwards.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use sluice_pipeline::{Bits, Step};

/// Conditions for a packet; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The port; `None` stands for any.
    pub port: Option<u16>,
    /// Number of packets to show.
    pub count: usize,
    pub pattern: Option<Pattern>,
    pub fields: Vec<FieldTest>,
    /// Only packets of which at least one copy was dropped.
    pub dropped: bool,
}

impl Filter {
    /// Returns whether the packet may match, as far as can be seen before it runs.
    pub fn takes(&self, port: u16, frame: &[u8]) -> bool {
        self.port.is_none_or(|asked| asked == port)
            && self.pattern.as_ref().is_none_or(|it| it.fits(frame))
    }

    /// Returns whether [`Filter::wants`] can refuse a packet.
    pub fn looks_at_steps(&self) -> bool {
        self.dropped || !self.fields.is_empty()
    }

    /// Returns whether the packet's steps match.
    pub fn wants(&self, steps: &[Step]) -> bool {
        let is_drop = |step: &Step| matches!(step, Step::Dropped { .. });
        (!self.dropped || steps.iter().any(is_drop))
            && self.fields.iter().all(|field| field.holds(steps))
    }
}

/// Bytes that must stand at an offset, as far as the mask goes: `12:0800`, or `14:40/f0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    offset: usize,
    bytes: Vec<u8>,
    /// Mask of the same length as `bytes`.
    mask: Vec<u8>,
}

impl Pattern {
    fn fits(&self, frame: &[u8]) -> bool {
        let end = self.offset.saturating_add(self.bytes.len());
        let found = frame.get(self.offset..end);
        found.is_some_and(|found| {
            let masked = found.iter().zip(&self.bytes).zip(&self.mask);
            masked.into_iter().all(|((a, b), mask)| (a ^ b) & mask == 0)
        })
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (offset, bytes) = text
            .split_once(':')
            .ok_or("must be OFFSET:HEX, for example 12:0800")?;
        let offset = offset
            .parse()
            .map_err(|_| "the offset must be a number of bytes")?;
        let (bytes, mask) = match bytes.split_once('/') {
            Some((bytes, mask)) => (bytes, Some(mask)),
            None => (bytes, None),
        };
        let hex = |digits| unhex(digits).ok_or("the bytes must be hex, two digits each");
        let bytes = hex(bytes)?;
        let mask = mask.map_or(Ok(vec![0xff; bytes.len()]), hex)?;
        if mask.len() != bytes.len() {
            return Err("the mask must be as long as the bytes".into());
        }
        Ok(Self {
            offset,
            bytes,
            mask,
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:", self.offset)?;
        self.bytes
            .iter()
            .try_for_each(|byte| write!(out, "{byte:02x}"))?;
        out.write_str("/")?;
        self.mask
            .iter()
            .try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// A field that the parser has extracted, in whichever pass: `ipv4.dst=10.0.0.0/8`, `ethernet.type=0x0800`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTest {
    header: String,
    field: String,
    value: u128,
    /// Number of the field's first bits that count; `None` stands for all.
    prefix: Option<u32>,
}

impl FieldTest {
    fn holds(&self, steps: &[Step]) -> bool {
        steps.iter().any(|step| match step {
            Step::Extracted { header, fields } => {
                self.is_of(header)
                    && fields
                        .iter()
                        .any(|(name, value)| *name == self.field && self.equals(value))
            }
            _ => false,
        })
    }

    /// `h.ipv4`, as a program calls it, is `ipv4` too.
    fn is_of(&self, header: &str) -> bool {
        let front = self.header.strip_suffix(header);
        front.is_some_and(|front| front.is_empty() || front.ends_with('.'))
    }

    fn equals(&self, value: &Bits) -> bool {
        let width = value.width();
        let behind = width.saturating_sub(self.prefix.unwrap_or(width));
        let differ = value.low_u128() ^ self.value;
        width <= u128::BITS && differ.checked_shr(behind).unwrap_or(0) == 0
    }
}

impl FromStr for FieldTest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "must be HEADER.FIELD=VALUE, for example ipv4.dst=10.0.0.0/8";
        let (name, value) = text.split_once('=').ok_or(form)?;
        let (header, field) = name.rsplit_once('.').ok_or(form)?;
        let (value, prefix) = match value.split_once('/') {
            Some((value, prefix)) => (value, Some(prefix)),
            None => (value, None),
        };
        let prefix = prefix.map(str::parse).transpose();
        Ok(Self {
            header: header.to_owned(),
            field: field.to_owned(),
            value: number(value).ok_or("the value must be a number, an IP or a MAC address")?,
            prefix: prefix.map_err(|_| "behind the / stands the length of a prefix, in bits")?,
        })
    }
}

impl fmt::Display for FieldTest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}={:#x}", self.header, self.field, self.value)?;
        self.prefix.map_or(Ok(()), |bits| write!(out, "/{bits}"))
    }
}

/// Decimal, hex behind `0x`, or an address.
fn number(text: &str) -> Option<u128> {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(u32::from(address).into());
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u128::from_str_radix(digits, 16).ok();
    }
    let pairs: Vec<&str> = text.split(':').collect();
    if pairs.len() == 6 && pairs.iter().all(|pair| pair.len() == 2) {
        return u128::from_str_radix(&pairs.concat(), 16).ok();
    }
    let address = text.parse::<Ipv6Addr>().map(u128::from);
    address.ok().or_else(|| text.parse().ok())
}

/// `None` when it is not hex; colons and white space may stand between bytes.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|it| !it.is_whitespace() && *it != ':')
        .map(|it| u8::try_from(it.to_digit(16)?).ok())
        .collect();
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len() % 2 == 0)?;
    Some(
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn extracted(width: u32, value: u128) -> Vec<Step> {
        let field = ("dst".to_owned(), Bits::from_u128(width, value));
        vec![Step::Extracted {
            header: "ipv4".into(),
            fields: vec![field],
        }]
    }

    #[test]
    fn fields_are_compared_as_far_as_their_prefix() {
        let ten = extracted(32, 0x0a01_0203);
        for (text, holds) in [
            ("ipv4.dst=10.1.2.3", true),
            ("h.ipv4.dst=0x0a010203", true),
            ("ipv4.dst=167838211", true),
            ("ipv4.dst=10.0.0.1/8", true),
            ("ipv4.dst=0/0", true),
            ("ipv4.dst=11.0.0.0/8", false),
            ("ipv4.dst=10.1.2.3/99", true),
            ("ipv4.src=10.1.2.3", false),
            ("outer_ipv4.dst=10.1.2.3", false),
        ] {
            let test: FieldTest = text.parse().unwrap();
            assert_eq!(test.holds(&ten), holds, "{text}");
            assert_eq!(test.to_string().parse(), Ok(test), "{text}");
        }
        let wide = extracted(128, u128::MAX);
        assert!(
            "ipv4.dst=ffff::/16"
                .parse::<FieldTest>()
                .unwrap()
                .holds(&wide)
        );
        let mac = extracted(48, 0x0200_0000_0001);
        assert!(
            "ipv4.dst=02:00:00:00:00:01"
                .parse::<FieldTest>()
                .unwrap()
                .holds(&mac)
        );
    }

    #[test]
    fn what_is_no_filter_says_why() {
        for (text, why) in [
            ("ipv4", "HEADER.FIELD=VALUE"),
            ("dst=1", "HEADER.FIELD=VALUE"),
            ("ipv4.dst=x", "must be a number"),
            ("ipv4.dst=1/x", "length of a prefix"),
        ] {
            assert!(
                text.parse::<FieldTest>().unwrap_err().contains(why),
                "{text}"
            );
        }
        for (text, why) in [
            ("0800", "OFFSET:HEX"),
            ("x:08", "number of bytes"),
            ("0:080", "two digits"),
            ("0:0800/ff", "as long as"),
        ] {
            assert!(text.parse::<Pattern>().unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn bytes_are_compared_under_their_mask() {
        let frame = [0, 0x45, 0x12];
        for (text, fits) in [
            ("1:45", true),
            ("1:40/f0", true),
            ("1:4512/ff00", true),
            ("1:46", false),
            ("2:1200", false),
            ("18446744073709551615:00", false),
        ] {
            let pattern: Pattern = text.parse().unwrap();
            assert_eq!(pattern.fits(&frame), fits, "{text}");
            assert_eq!(pattern.to_string().parse(), Ok(pattern), "{text}");
        }
    }

    #[test]
    fn a_drop_is_a_step() {
        let filter = Filter {
            dropped: true,
            ..Filter::default()
        };
        assert!(!filter.wants(&extracted(32, 1)));
        let reason = "egress_spec is 511";
        assert!(filter.wants(&[Step::Dropped { reason }]));
    }

    #[test]
    fn hex_may_have_colons() {
        assert_eq!(unhex("08:00 ff"), Some(vec![8, 0, 255]));
        for bad in ["", "8", "0x08", "zz"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }
}
