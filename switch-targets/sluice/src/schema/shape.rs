//! The shape of a digest's data: a struct or tuple of bit strings, or one bit string.

use crate::fault::Fault;
use crate::proto::info::p4_bitstring_like_type_spec::TypeSpec as BitsSpec;
use crate::proto::info::p4_data_type_spec::TypeSpec;
use crate::proto::info::{self, P4DataTypeSpec};
use crate::proto::p4rt::{P4Data, P4StructLike, p4_data::Data};

/// Field widths are in bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Struct(Vec<u32>),
    Tuple(Vec<u32>),
    Bits(u32),
}

impl Shape {
    pub fn widths(&self) -> &[u32] {
        match self {
            Self::Struct(widths) | Self::Tuple(widths) => widths,
            Self::Bits(width) => std::slice::from_ref(width),
        }
    }

    /// Canonical byte strings as the data of one digest message.
    pub fn data(&self, fields: &[Vec<u8>]) -> P4Data {
        let bits = |field: &Vec<u8>| P4Data {
            data: Some(Data::Bitstring(field.clone())),
        };
        let like = || P4StructLike {
            members: fields.iter().map(bits).collect(),
        };
        let data = match self {
            Self::Struct(_) => Data::Struct(like()),
            Self::Tuple(_) => Data::Tuple(like()),
            Self::Bits(_) => Data::Bitstring(fields.first().cloned().unwrap_or_default()),
        };
        P4Data { data: Some(data) }
    }
}

/// # Errors
/// `INVALID_ARGUMENT` for a struct that the P4Info lacks, `UNIMPLEMENTED` for members that are not bit strings.
pub fn digest_shape(digest: &info::Digest, p4info: &info::P4Info) -> Result<Shape, Fault> {
    match digest
        .type_spec
        .as_ref()
        .and_then(|spec| spec.type_spec.as_ref())
    {
        Some(TypeSpec::Struct(named)) => {
            let found = p4info
                .type_info
                .as_ref()
                .and_then(|types| types.structs.get(&named.name));
            let found = found.ok_or_else(|| {
                Fault::invalid(format!("struct '{}' is not in the P4Info", named.name))
            })?;
            let members = found
                .members
                .iter()
                .map(|member| (member.name.as_str(), member.type_spec.as_ref()));
            Ok(Shape::Struct(
                members
                    .map(|(name, spec)| width(name, spec))
                    .collect::<Result<_, _>>()?,
            ))
        }
        Some(TypeSpec::Tuple(tuple)) => {
            let members = tuple
                .members
                .iter()
                .map(|member| width("tuple member", Some(member)));
            Ok(Shape::Tuple(members.collect::<Result<_, _>>()?))
        }
        other => Ok(Shape::Bits(width(
            "data",
            other
                .map(|it| P4DataTypeSpec {
                    type_spec: Some(it.clone()),
                })
                .as_ref(),
        )?)),
    }
}

fn width(name: &str, spec: Option<&P4DataTypeSpec>) -> Result<u32, Fault> {
    let Some(TypeSpec::Bitstring(bits)) = spec.and_then(|spec| spec.type_spec.as_ref()) else {
        return Err(Fault::unsupported(format!(
            "member '{name}' is not a bit string"
        )));
    };
    match &bits.type_spec {
        Some(BitsSpec::Bit(bit)) => Ok(bit.bitwidth.unsigned_abs()),
        _ => Err(Fault::unsupported(format!(
            "member '{name}' is not of an unsigned type"
        ))),
    }
}
