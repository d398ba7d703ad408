//! The shape of a digest's data: a struct or tuple of values, or one value.

use sluice_pipeline::Bits;

use super::scalar::Scalar;
use crate::fault::Fault;
use crate::proto::info::p4_data_type_spec::TypeSpec;
use crate::proto::info::{self, P4DataTypeSpec};
use crate::proto::p4rt::{P4Data, P4StructLike, p4_data::Data};
use crate::schema::sdn::Types;

#[derive(Clone, Debug)]
pub enum DigestShape {
    Struct(Vec<Scalar>),
    Tuple(Vec<Scalar>),
    One(Scalar),
}

impl DigestShape {
    pub fn members(&self) -> &[Scalar] {
        match self {
            Self::Struct(members) | Self::Tuple(members) => members,
            Self::One(member) => std::slice::from_ref(member),
        }
    }

    /// Widths of the members in bits, as the P4Info has them.
    pub fn widths(&self) -> Vec<u32> {
        self.members().iter().map(Scalar::info_width).collect()
    }

    /// Returns whether the program's fields, of so many bits, can be its members.
    pub fn fits(&self, widths: &[u32]) -> bool {
        let members = self.members();
        members.len() == widths.len()
            && members
                .iter()
                .zip(widths)
                .all(|(member, width)| member.fits(*width))
    }

    /// Byte strings as the data of one digest message.
    pub fn data(&self, fields: &[Vec<u8>]) -> P4Data {
        let value = |(member, bytes): (&Scalar, &Vec<u8>)| {
            let width = bytes.len() as u32 * 8;
            member.data(&Bits::new(width, bytes).unwrap_or_else(|_| Bits::zero(width)))
        };
        let values: Vec<_> = self.members().iter().zip(fields).map(value).collect();
        let data = match self {
            Self::Struct(_) => Data::Struct(P4StructLike { members: values }),
            Self::Tuple(_) => Data::Tuple(P4StructLike { members: values }),
            Self::One(_) => return values.into_iter().next().unwrap_or_default(),
        };
        P4Data { data: Some(data) }
    }
}

/// # Errors
/// `INVALID_ARGUMENT` for a type that the P4Info lacks, `UNIMPLEMENTED` for members of other kinds than [`Scalar`]'s.
pub fn digest_shape(
    digest: &info::Digest,
    p4info: &info::P4Info,
    types: &Types,
) -> Result<DigestShape, Fault> {
    let type_info = p4info.type_info.as_ref();
    let scalar = |name: &str, spec: Option<&P4DataTypeSpec>| {
        Scalar::new(spec, type_info, types).map_err(|fault| fault.at(&format!("member '{name}'")))
    };
    let spec = digest.type_spec.as_ref();
    match spec.and_then(|spec| spec.type_spec.as_ref()) {
        Some(TypeSpec::Struct(named)) => {
            let found = type_info.and_then(|types| types.structs.get(&named.name));
            let found = found.ok_or_else(|| {
                Fault::invalid(format!("struct '{}' is not in the P4Info", named.name))
            })?;
            let members = found.members.iter();
            Ok(DigestShape::Struct(
                members
                    .map(|member| scalar(&member.name, member.type_spec.as_ref()))
                    .collect::<Result<_, _>>()?,
            ))
        }
        Some(TypeSpec::Tuple(tuple)) => {
            let members = tuple.members.iter().enumerate();
            Ok(DigestShape::Tuple(
                members
                    .map(|(at, member)| scalar(&at.to_string(), Some(member)))
                    .collect::<Result<_, _>>()?,
            ))
        }
        _ => Ok(DigestShape::One(scalar("data", spec)?)),
    }
}
