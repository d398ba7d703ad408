//! Values of translated types: `@p4runtime_translation` (P4Runtime 1.5, sections 8.5.6 and 18.1).
//!
//! ```text
//!   controller                                   data plane
//!   bit<sdn> 7      ──────── the same number ──► bit<W> 7           OUT_OF_RANGE when W bits do not hold it
//!   string "12"     ──────── its number ───────► bit<W> 12
//!   string "vrf-a"  ──────── the first use ────► bit<W> 2^W - 2     the next one 2^W - 3, and so on
//! ```
//! A name keeps its number as long as the program runs: entries, registers and digests may hold it anywhere. A number without a
//! name is shown in decimal, which is the name that leads back to it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sluice_pipeline::Bits;
use tonic::Code;

use crate::fault::Fault;
use crate::proto::info::p4_new_type_spec::Representation;
use crate::proto::info::p4_new_type_translation::SdnType;
use crate::proto::info::{P4NamedType, P4TypeInfo};

/// Bits of a number.
const MAX_WIDTH: u32 = 1 << 16;
/// Names of one type.
const MAX_NAMES: usize = 1 << 17;
/// Bytes of a name.
const MAX_NAME: usize = 255;

/// The form of a type's values between client and switch.
#[derive(Clone, Debug, Default)]
pub enum Sdn {
    /// The data plane's form.
    #[default]
    Plain,
    /// An unsigned number of so many bits.
    Bits(u32),
    Name(Arc<Names>),
}

/// The treatment of a name that has no number yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Give the name a number.
    Number,
    /// Refuse with `NOT_FOUND`: nothing holds the name.
    Refuse,
}

/// A bijection between the names of a type and numbers of the data plane.
#[derive(Debug, Default)]
pub struct Names(Mutex<Assigned>);

#[derive(Clone, Debug, Default)]
struct Assigned {
    numbers: HashMap<String, u128>,
    names: HashMap<u128, String>,
    /// The number that was given out last.
    last: Option<u128>,
}

/// The types of a P4Info. All that are of one type share its names.
#[derive(Debug, Default)]
pub struct Types {
    translated: HashMap<String, Sdn>,
}

impl Types {
    /// # Errors
    /// `INVALID_ARGUMENT` for a type that is translated to nothing, or to a number of no width.
    pub fn new(info: Option<&P4TypeInfo>) -> Result<Self, Fault> {
        let new_types = info.into_iter().flat_map(|info| &info.new_types);
        let mut translated = HashMap::new();
        for (name, spec) in new_types {
            let Some(Representation::TranslatedType(it)) = &spec.representation else {
                continue;
            };
            let place = |fault: Fault| fault.at(&format!("new type '{name}'"));
            let sdn = match it.sdn_type {
                Some(SdnType::SdnBitwidth(given)) => match u32::try_from(given) {
                    Ok(width @ 1..=MAX_WIDTH) => Sdn::Bits(width),
                    _ => {
                        let text = format!("sdn_bitwidth {given} is not in 1..{MAX_WIDTH}");
                        return Err(place(Fault::invalid(text)));
                    }
                },
                Some(SdnType::SdnString(_)) => Sdn::Name(Arc::default()),
                None => return Err(place(Fault::invalid("it is translated to no type"))),
            };
            translated.insert(name.clone(), sdn);
        }
        Ok(Self { translated })
    }

    /// The form of this type's values; `Plain` for every type that is not translated.
    pub fn sdn(&self, type_name: Option<&P4NamedType>) -> Sdn {
        type_name
            .and_then(|named| self.translated.get(&named.name))
            .cloned()
            .unwrap_or_default()
    }

    /// The numbers of all names, for another process.
    pub fn snapshot(&self) -> Vec<NamesState> {
        let types = self.translated.iter();
        let states = types.filter_map(|(name, sdn)| match sdn {
            Sdn::Name(names) => Some(names.snapshot(name)),
            _ => None,
        });
        states.collect()
    }

    /// Names have the numbers that they had in another process.
    pub fn resume(&self, states: &[NamesState]) {
        for state in states {
            if let Some(Sdn::Name(names)) = self.translated.get(&state.type_name) {
                names.resume(state);
            }
        }
    }

    /// Names keep the numbers that they have in `other`, where a type of that name is one of names too.
    pub fn adopt(&self, other: &Self) {
        for (name, sdn) in &self.translated {
            if let (Sdn::Name(own), Some(Sdn::Name(old))) = (sdn, other.translated.get(name)) {
                let assigned = old.0.lock().clone();
                *own.0.lock() = assigned;
            }
        }
    }
}

impl Sdn {
    /// The bit width that the P4Info gives for `width` bits of the data plane; names have 0.
    pub fn info_width(&self, width: u32) -> u32 {
        match self {
            Self::Plain => width,
            Self::Bits(sdn) => *sdn,
            Self::Name(_) => 0,
        }
    }

    /// The data plane's value, of `width` bits.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for what is not of the type, `OUT_OF_RANGE` for what the data plane has no room for,
    /// `RESOURCE_EXHAUSTED` when no number is left for a name, `NOT_FOUND` for an unknown one that is to be refused.
    pub fn parse(&self, width: u32, given: &[u8], unknown: Unknown) -> Result<Bits, Fault> {
        match self {
            Self::Plain => bits(width, given),
            Self::Bits(sdn) => {
                let value = bits(*sdn, given)?;
                Bits::new(width, value.bytes()).map_err(|_| {
                    Fault::out_of_range(format!("the data plane has {width} bits for it"))
                })
            }
            Self::Name(names) => {
                let number = names.number(width, given, unknown)?;
                Ok(Bits::from_u128(width, number))
            }
        }
    }

    /// A value of the data plane as clients know it, in canonical form.
    pub fn shown(&self, value: &Bits) -> Vec<u8> {
        match self {
            Self::Plain | Self::Bits(_) => value.canonical().to_vec(),
            Self::Name(names) => names.name(value.low_u128()).into_bytes(),
        }
    }
}

/// The names of a type, and the number of each: its low and its high half.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NamesState {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(string, repeated, tag = "2")]
    pub names: Vec<String>,
    #[prost(uint64, repeated, tag = "3")]
    pub low: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    pub high: Vec<u64>,
    /// The number that was given out last, likewise; empty when none was.
    #[prost(uint64, repeated, tag = "5")]
    pub last: Vec<u64>,
}

impl Names {
    fn snapshot(&self, type_name: &str) -> NamesState {
        let assigned = self.0.lock();
        let halves = |number: u128| [number as u64, (number >> 64) as u64];
        let mut state = NamesState {
            type_name: type_name.to_owned(),
            last: assigned.last.map(halves).into_iter().flatten().collect(),
            ..NamesState::default()
        };
        for (name, number) in &assigned.numbers {
            let [low, high] = halves(*number);
            state.names.push(name.clone());
            state.low.push(low);
            state.high.push(high);
        }
        state
    }

    fn resume(&self, state: &NamesState) {
        let whole = |low: u64, high: u64| u128::from(high) << 64 | u128::from(low);
        let numbers = state.low.iter().zip(&state.high);
        let numbers = numbers.map(|(low, high)| whole(*low, *high));
        let mut assigned = Assigned::default();
        for (name, number) in state.names.iter().zip(numbers) {
            assigned.numbers.insert(name.clone(), number);
            assigned.names.insert(number, name.clone());
        }
        if let [low, high] = state.last[..] {
            assigned.last = Some(whole(low, high));
        }
        *self.0.lock() = assigned;
    }

    fn number(&self, width: u32, given: &[u8], unknown: Unknown) -> Result<u128, Fault> {
        let name = std::str::from_utf8(given)
            .map_err(|_| Fault::invalid("the value is a name, which must be UTF-8"))?;
        if name.is_empty() || name.len() > MAX_NAME {
            let text = format!("the value is a name, which has 1 to {MAX_NAME} bytes");
            return Err(Fault::invalid(text));
        }
        let mut assigned = self.0.lock();
        let max = Bits::ones(width).low_u128();
        match assigned.numbers.get(name) {
            Some(number) if *number <= max => return Ok(*number),
            // The number is of a program that has more bits for the type.
            Some(number) => {
                let text = format!("its number {number} does not fit {width} bits");
                return Err(Fault::out_of_range(text));
            }
            None => {}
        }
        let own = own_number(name).filter(|number| *number <= max);
        if unknown == Unknown::Refuse {
            let free = own.filter(|number| !assigned.names.contains_key(number));
            return free.ok_or_else(|| Fault::not_found(format!("no value is named '{name}'")));
        }
        let full = || Fault::new(Code::ResourceExhausted, "its type has no number left");
        if assigned.numbers.len() >= MAX_NAMES {
            return Err(full());
        }
        let number = match own {
            Some(number) => match assigned.names.get(&number) {
                Some(other) => {
                    let text = format!("number {number} stands for the name '{other}' already");
                    return Err(Fault::new(Code::AlreadyExists, text));
                }
                None => number,
            },
            None => {
                // New numbers avoid 0 and the highest number, which programs like to give a meaning.
                let mut next = assigned.last.unwrap_or(max).saturating_sub(1);
                while assigned.names.contains_key(&next) {
                    next = next.saturating_sub(1);
                    if next == 0 {
                        break;
                    }
                }
                if next == 0 {
                    return Err(full());
                }
                assigned.last = Some(next);
                next
            }
        };
        assigned.numbers.insert(name.to_owned(), number);
        assigned.names.insert(number, name.to_owned());
        Ok(number)
    }

    fn name(&self, number: u128) -> String {
        let assigned = self.0.lock();
        assigned
            .names
            .get(&number)
            .cloned()
            .unwrap_or_else(|| number.to_string())
    }
}

/// The number that a name spells, in decimal without leading zeros.
fn own_number(name: &str) -> Option<u128> {
    let number: u128 = name.parse().ok()?;
    (number.to_string() == name).then_some(number)
}

fn bits(width: u32, bytes: &[u8]) -> Result<Bits, Fault> {
    if bytes.is_empty() {
        return Err(Fault::invalid("the value is empty: zero is one byte 00"));
    }
    Bits::new(width, bytes)
        .map_err(|_| Fault::invalid(format!("the value does not fit {width} bits")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn names() -> Sdn {
        Sdn::Name(Arc::default())
    }

    fn number(sdn: &Sdn, width: u32, name: &str) -> Result<u128, Code> {
        sdn.parse(width, name.as_bytes(), Unknown::Number)
            .map(|value| value.low_u128())
            .map_err(|fault| fault.code)
    }

    #[test]
    fn numbers_keep_their_value_where_the_data_plane_has_room() {
        let port = Sdn::Bits(32);
        let parse = |bytes: &[u8]| {
            port.parse(9, bytes, Unknown::Number)
                .map(|value| port.shown(&value))
                .map_err(|fault| fault.code)
        };
        assert_eq!(parse(&[0, 0, 1, 0xff]), Ok(vec![1, 0xff]));
        assert_eq!(parse(&[2, 0]), Err(Code::OutOfRange));
        assert_eq!(parse(&[1, 0, 0, 0, 0]), Err(Code::InvalidArgument));
        assert_eq!(parse(&[]), Err(Code::InvalidArgument));
        let narrow = Sdn::Bits(8).parse(9, &[1, 0], Unknown::Number);
        assert_eq!(narrow.unwrap_err().code, Code::InvalidArgument);
    }

    #[test]
    fn names_are_numbered_from_above_and_decimal_ones_are_their_own_number() {
        let vrf = names();
        assert_eq!(number(&vrf, 10, "vrf-a"), Ok(1022));
        assert_eq!(number(&vrf, 10, "7"), Ok(7));
        assert_eq!(number(&vrf, 10, "1021"), Ok(1021));
        assert_eq!(number(&vrf, 10, "vrf-b"), Ok(1020));
        assert_eq!(
            number(&vrf, 10, "07"),
            Ok(1019),
            "not the decimal form of 7"
        );
        assert_eq!(number(&vrf, 10, "1022"), Err(Code::AlreadyExists));
        assert_eq!(number(&vrf, 10, "vrf-a"), Ok(1022));
        assert_eq!(vrf.shown(&Bits::from_u128(10, 1020)), b"vrf-b");
        assert_eq!(vrf.shown(&Bits::from_u128(10, 55)), b"55");
    }

    #[test]
    fn a_type_is_full_when_its_numbers_are_used_up() {
        let small = names();
        let made: HashSet<_> = (0..6)
            .map(|n| number(&small, 3, &format!("n{n}")).unwrap())
            .collect();
        assert_eq!(made, (1..7).collect());
        assert_eq!(number(&small, 3, "one more"), Err(Code::ResourceExhausted));
        assert_eq!(number(&small, 3, "n3"), Ok(3));
        assert_eq!(number(&small, 3, "7"), Ok(7));
    }

    #[test]
    fn what_is_no_name_or_only_asked_for_gets_no_number() {
        let vrf = names();
        assert_eq!(number(&vrf, 10, ""), Err(Code::InvalidArgument));
        assert_eq!(
            number(&vrf, 10, &"x".repeat(256)),
            Err(Code::InvalidArgument)
        );
        let code = |bytes: &[u8], unknown| vrf.parse(10, bytes, unknown).unwrap_err().code;
        assert_eq!(code(&[0xff], Unknown::Number), Code::InvalidArgument);
        assert_eq!(code(b"vrf-a", Unknown::Refuse), Code::NotFound);
        let seven = vrf.parse(10, b"7", Unknown::Refuse).unwrap();
        assert_eq!(vrf.shown(&seven), b"7");
    }

    proptest! {
        #[test]
        fn names_come_back(given in prop::collection::vec("[a-c0-9]{1,2}", 1..60)) {
            let (sdn, mut seen) = (names(), HashMap::new());
            for name in given {
                if let Ok(value) = sdn.parse(8, name.as_bytes(), Unknown::Number) {
                    prop_assert_eq!(sdn.shown(&value), name.as_bytes());
                    prop_assert_eq!(seen.entry(value.low_u128()).or_insert(name.clone()), &name);
                }
            }
        }
    }
}
