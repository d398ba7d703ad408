//! A value as `P4Data`: a register's cell, or a member of a digest (section 8.5).

use sluice_pipeline::Bits;

use crate::fault::Fault;
use crate::proto::info::p4_bitstring_like_type_spec::TypeSpec as BitsSpec;
use crate::proto::info::p4_data_type_spec::TypeSpec;
use crate::proto::info::p4_new_type_spec::Representation;
use crate::proto::info::{P4DataTypeSpec, P4TypeInfo};
use crate::proto::p4rt::{P4Data, p4_data::Data};
use crate::schema::sdn::{Sdn, Types, Unknown};

/// Widths are in bits.
#[derive(Clone, Debug)]
pub enum Scalar {
    Bits(u32),
    /// A serializable enum, given by its value.
    Enum(u32),
    Bool,
    /// The P4Info has no data plane width for it.
    Translated(Sdn),
}

impl Scalar {
    /// # Errors
    /// `INVALID_ARGUMENT` for a type that the P4Info lacks, `UNIMPLEMENTED` for one of another kind.
    pub fn new(
        spec: Option<&P4DataTypeSpec>,
        info: Option<&P4TypeInfo>,
        types: &Types,
    ) -> Result<Self, Fault> {
        let missing =
            |name: &str| Fault::invalid(format!("the type '{name}' is not in the P4Info"));
        match spec.and_then(|spec| spec.type_spec.as_ref()) {
            Some(TypeSpec::Bitstring(bits)) => match &bits.type_spec {
                Some(BitsSpec::Bit(bit)) => Ok(Self::Bits(width(bit.bitwidth)?)),
                _ => Err(Fault::unsupported("it is not of an unsigned type")),
            },
            Some(TypeSpec::Bool(_)) => Ok(Self::Bool),
            Some(TypeSpec::SerializableEnum(named)) => info
                .and_then(|info| info.serializable_enums.get(&named.name))
                .and_then(|found| found.underlying_type.as_ref())
                .ok_or_else(|| missing(&named.name))
                .and_then(|bit| Ok(Self::Enum(width(bit.bitwidth)?))),
            Some(TypeSpec::NewType(named)) => {
                let found = info.and_then(|info| info.new_types.get(&named.name));
                match found.and_then(|found| found.representation.as_ref()) {
                    Some(Representation::OriginalType(spec)) => match &spec.type_spec {
                        Some(TypeSpec::NewType(_)) => {
                            Err(Fault::invalid("a new type's original type is built in"))
                        }
                        _ => Self::new(Some(spec), info, types),
                    },
                    Some(Representation::TranslatedType(_)) => {
                        Ok(Self::Translated(types.sdn(Some(named))))
                    }
                    None => Err(missing(&named.name)),
                }
            }
            _ => Err(Fault::unsupported("it is not a bit string")),
        }
    }

    /// Returns whether `width` bits of the data plane can be of this type.
    pub fn fits(&self, width: u32) -> bool {
        match self {
            Self::Bits(own) | Self::Enum(own) => *own == width,
            Self::Bool => width == 1,
            Self::Translated(_) => true,
        }
    }

    /// Width in the P4Info; names have 0.
    pub fn info_width(&self) -> u32 {
        match self {
            Self::Bits(width) | Self::Enum(width) => *width,
            Self::Bool => 1,
            Self::Translated(sdn) => sdn.info_width(0),
        }
    }

    pub fn data(&self, value: &Bits) -> P4Data {
        let data = match self {
            Self::Bits(_) => Data::Bitstring(value.canonical().to_vec()),
            Self::Enum(_) => Data::EnumValue(value.canonical().to_vec()),
            Self::Bool => Data::Bool(value.low_u128() != 0),
            Self::Translated(sdn) => Data::Bitstring(sdn.shown(value)),
        };
        P4Data { data: Some(data) }
    }

    /// A value of `width` bits.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for data of another type, `OUT_OF_RANGE` for a bit string that is empty or too wide (section 8.4).
    pub fn parse(&self, width: u32, data: &P4Data) -> Result<Bits, Fault> {
        let bits = |bytes: &[u8]| match Bits::new(width, bytes) {
            Ok(value) if !bytes.is_empty() => Ok(value),
            Ok(_) => Err(Fault::out_of_range(
                "the value is empty: zero is one byte 00",
            )),
            Err(error) => Err(Fault::out_of_range(error.to_string())),
        };
        match (self, &data.data) {
            (Self::Bits(_), Some(Data::Bitstring(bytes)))
            | (Self::Enum(_), Some(Data::EnumValue(bytes))) => bits(bytes),
            (Self::Bool, Some(Data::Bool(value))) => Ok(Bits::from_u128(width, (*value).into())),
            (Self::Translated(sdn), Some(Data::Bitstring(bytes))) => {
                sdn.parse(width, bytes, Unknown::Number)
            }
            _ => {
                let kind = match self {
                    Self::Enum(_) => "enum_value",
                    Self::Bool => "bool",
                    Self::Bits(_) | Self::Translated(_) => "bitstring",
                };
                Err(Fault::invalid(format!("the data must be given as {kind}")))
            }
        }
    }
}

fn width(given: i32) -> Result<u32, Fault> {
    let text = format!("its width of {given} bits is not one");
    u32::try_from(given).map_err(|_| Fault::invalid(text))
}
