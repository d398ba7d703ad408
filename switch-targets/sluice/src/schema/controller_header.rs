//! The header between a packet and its metadata, as `@controller_header` declares it (sections 6.4.6 and 16.1).
//!
//! ```text
//!   packet_out: metadata ─ emit ─► header bytes ─┐            packet_in: header bytes ─ parse ─► metadata
//!                          payload ──────────────┴─► CPU port ─────────► rest of the frame ───► payload
//! ```

use std::collections::BTreeSet;

use sluice_pipeline::Bits;

use crate::fault::Fault;
use crate::proto::info::{ControllerPacketMetadata, P4Info};
use crate::proto::p4rt::PacketMetadata;
use crate::schema::role::owner;

/// Bits of a whole header at most.
const MAX_BITS: u32 = 4096;

/// The fields in the order of the header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerHeader {
    /// Id in the P4Info.
    pub id: u32,
    /// The role that it is annotated with.
    pub owner: Option<String>,
    /// The reason for which no packet can carry the header: the program runs without.
    unusable: Option<String>,
    fields: Vec<HeaderField>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HeaderField {
    id: u32,
    name: String,
    /// Width in bits.
    width: u32,
    /// Annotated `@padding`: a client may leave it out.
    padding: bool,
}

impl ControllerHeader {
    /// The header of that name, if the P4Info has one.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the place in the P4Info.
    pub fn new(name: &str, p4info: &P4Info) -> Result<Option<Self>, Fault> {
        let named = |it: &&ControllerPacketMetadata| {
            it.preamble
                .as_ref()
                .is_some_and(|preamble| preamble.name == name)
        };
        let mut found = p4info.controller_packet_metadata.iter().filter(named);
        let Some(header) = found.next() else {
            return Ok(None);
        };
        let place = |fault: Fault| fault.at(&format!("controller header '{name}'"));
        if found.next().is_some() {
            return Err(place(Fault::invalid("it is declared twice")));
        }
        let (mut fields, mut ids, mut bits) = (Vec::new(), BTreeSet::new(), 0);
        let mut unusable = None;
        for field in &header.metadata {
            let place = |fault: Fault| place(fault.at(&format!("field '{}'", field.name)));
            let translated = field.type_name.as_ref().is_some_and(|named| {
                let types = p4info.type_info.as_ref().map(|types| &types.new_types);
                let spec = types.and_then(|types| types.get(&named.name));
                spec.is_some_and(|spec| {
                    use crate::proto::info::p4_new_type_spec::Representation;
                    matches!(spec.representation, Some(Representation::TranslatedType(_)))
                })
            });
            if translated {
                // The P4Info has the controller's width, which need not be the program's.
                let text = format!("field '{}' has a translated type", field.name);
                unusable = Some(format!("controller header '{name}': {text}"));
            }
            let width = u32::try_from(field.bitwidth).unwrap_or(0);
            bits += width.min(MAX_BITS + 1);
            if (width == 0 && !translated) || bits > MAX_BITS {
                let text = format!("it has no width, or the header more than {MAX_BITS} bits");
                return Err(place(Fault::invalid(text)));
            }
            if field.id == 0 || !ids.insert(field.id) {
                return Err(place(Fault::invalid("its id is 0, or another field's too")));
            }
            fields.push(HeaderField {
                id: field.id,
                name: field.name.clone(),
                width,
                padding: field.annotations.iter().any(|it| it == "@padding"),
            });
        }
        let preamble = header.preamble.as_ref();
        Ok(Some(Self {
            id: preamble.map_or(0, |preamble| preamble.id),
            owner: preamble.and_then(owner),
            unusable,
            fields,
        }))
    }

    /// Length in whole bytes.
    fn byte_len(&self) -> usize {
        let bits: usize = self.fields.iter().map(|field| field.width as usize).sum();
        bits.div_ceil(8)
    }

    /// The header's bytes.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when the metadata is not that of the P4Info, `UNIMPLEMENTED` for a header with translated types.
    pub fn emit(&self, metadata: &[PacketMetadata]) -> Result<Vec<u8>, Fault> {
        if let Some(why) = &self.unusable {
            return Err(Fault::unsupported(why));
        }
        for (at, given) in metadata.iter().enumerate() {
            let id = given.metadata_id;
            if self.fields.iter().all(|field| field.id != id) {
                return Err(Fault::invalid(format!("no metadata field has the id {id}")));
            }
            if metadata[..at].iter().any(|other| other.metadata_id == id) {
                return Err(Fault::invalid(format!(
                    "metadata field {id} is given twice"
                )));
            }
        }
        let (mut bytes, mut at) = (vec![0; self.byte_len()], 0);
        for field in &self.fields {
            let given = metadata.iter().find(|given| given.metadata_id == field.id);
            let place = format!("metadata field '{}'", field.name);
            match given {
                Some(given) if given.value.is_empty() => {
                    return Err(Fault::invalid(format!(
                        "{place}: the value is empty: zero is one byte 00"
                    )));
                }
                Some(given) => {
                    let value = Bits::new(field.width, &given.value)
                        .map_err(|error| Fault::invalid(error.to_string()).at(&place))?;
                    put(&mut bytes, at, &value);
                }
                None if field.padding => {}
                None => return Err(Fault::invalid(format!("{place} is missing"))),
            }
            at += field.width as usize;
        }
        Ok(bytes)
    }

    /// The metadata of a frame and what is behind the header; `None` for a frame that is shorter than it, and for a header with
    /// translated types.
    pub fn parse<'a>(&self, frame: &'a [u8]) -> Option<(Vec<PacketMetadata>, &'a [u8])> {
        if self.unusable.is_some() {
            return None;
        }
        let (header, payload) = frame.split_at_checked(self.byte_len())?;
        let mut at = 0;
        let metadata = self.fields.iter().map(|field| {
            let value = take(header, at, field.width);
            at += field.width as usize;
            PacketMetadata {
                metadata_id: field.id,
                value: value.canonical().to_vec(),
            }
        });
        Some((metadata.collect(), payload))
    }
}

/// Sets the bits of `value` from bit `at` on, which are 0.
fn put(bytes: &mut [u8], at: usize, value: &Bits) {
    let width = value.width() as usize;
    let padding = value.bytes().len() * 8 - width;
    for bit in 0..width {
        let from = padding + bit;
        if value.bytes()[from / 8] & 0x80 >> (from % 8) != 0 {
            bytes[(at + bit) / 8] |= 0x80 >> ((at + bit) % 8);
        }
    }
}

fn take(bytes: &[u8], at: usize, width: u32) -> Bits {
    let mut value = vec![0_u8; (width as usize).div_ceil(8)];
    let padding = value.len() * 8 - width as usize;
    for bit in 0..width as usize {
        if bytes[(at + bit) / 8] & 0x80 >> ((at + bit) % 8) != 0 {
            value[(padding + bit) / 8] |= 0x80 >> ((padding + bit) % 8);
        }
    }
    Bits::new(width, &value).unwrap_or_else(|_| Bits::zero(width))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn header(widths: &[u32]) -> ControllerHeader {
        let field = |(id, width): (usize, &u32)| HeaderField {
            id: id as u32 + 1,
            name: format!("f{id}"),
            width: *width,
            padding: id == 2,
        };
        let fields = widths.iter().enumerate().map(field).collect();
        ControllerHeader {
            id: 1,
            owner: None,
            unusable: None,
            fields,
        }
    }

    fn given(values: &[(u32, &[u8])]) -> Vec<PacketMetadata> {
        let each = values.iter().map(|(metadata_id, value)| PacketMetadata {
            metadata_id: *metadata_id,
            value: value.to_vec(),
        });
        each.collect()
    }

    #[test]
    fn fields_are_packed_without_gaps() {
        let header = header(&[9, 1, 6]);
        let bytes = header.emit(&given(&[(1, &[1, 0xff]), (2, &[0])])).unwrap();
        assert_eq!(bytes, [0xff, 0x80]);
        let bytes = header.emit(&given(&[(2, &[1]), (1, &[0, 2]), (3, &[0x2a])]));
        let bytes = bytes.unwrap();
        assert_eq!(bytes, [0x01, 0x6a]);
        let frame = [bytes.as_slice(), b"rest"].concat();
        let (metadata, payload) = header.parse(&frame).unwrap();
        assert_eq!(metadata, given(&[(1, &[2]), (2, &[1]), (3, &[0x2a])]));
        assert_eq!(payload, b"rest");
        assert_eq!(header.parse(&[0]), None);
    }

    #[test]
    fn metadata_that_is_not_the_p4infos_is_refused() {
        let header = header(&[9, 1, 6]);
        type Given = &'static [(u32, &'static [u8])];
        let refused: [(Given, &str); 5] = [
            (&[(1, &[1])], "'f1' is missing"),
            (&[(1, &[1]), (2, &[1]), (7, &[1])], "the id 7"),
            (&[(1, &[1]), (1, &[1]), (2, &[1])], "1 is given twice"),
            (&[(1, &[2, 0]), (2, &[1])], "'f0': value does not fit 9"),
            (&[(1, &[]), (2, &[1])], "'f0': the value is empty"),
        ];
        for (metadata, text) in refused {
            let fault = header.emit(&given(metadata)).unwrap_err();
            assert!(fault.message.contains(text), "{}", fault.message);
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            fields in prop::collection::vec((1_u32..130, prop::collection::vec(any::<u8>(), 17)), 1..8),
            payload in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let widths: Vec<u32> = fields.iter().map(|(width, _)| *width).collect();
            let header = header(&widths);
            let mut metadata = Vec::new();
            for (at, width) in widths.iter().enumerate() {
                let random = &fields[at].1;
                let value = take(random, 0, *width).canonical().to_vec();
                metadata.push(PacketMetadata { metadata_id: at as u32 + 1, value });
            }
            let frame = [header.emit(&metadata).unwrap(), payload.clone()].concat();
            prop_assert_eq!(header.parse(&frame), Some((metadata, payload.as_slice())));
        }
    }
}
