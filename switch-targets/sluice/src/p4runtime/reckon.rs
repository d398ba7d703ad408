//! Reckons the memory that a message takes when it is decoded and handled, from its bytes on the wire.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

/// prost refuses what is nested deeper.
const DEEPEST: usize = 100;
/// An element of a list, with its place in a list that has doubled its room.
const ELEMENT: usize = 512;
/// A string of its own on the heap, with what points to it.
const STRING: usize = 64;
/// A value of JSON while it is loaded.
const JSON_VALUE: usize = 80;

/// Elements that have another size than [`ELEMENT`]; those of a batch with their results and what these say.
const SIZES: [(&str, usize); 4] = [
    ("p4.v1.Update", 1536),
    ("p4.v1.Entity", 1536),
    ("p4.v1.FieldMatch", 192),
    ("p4.v1.Action.Param", 96),
];

/// Returns at least the bytes that the message takes, and stops counting beyond `most`. A malformed message counts as far as it is
/// read, for it is decoded no further.
pub fn reckon(message: &MessageDescriptor, wire: &[u8], most: usize) -> usize {
    let mut bytes = 0;
    add(message, wire, most, 0, &mut bytes);
    bytes
}

fn add(message: &MessageDescriptor, wire: &[u8], most: usize, depth: usize, bytes: &mut usize) {
    let mut rest = wire;
    while !rest.is_empty() && depth <= DEEPEST && *bytes <= most {
        let Ok((tag, kind)) = decode_key(&mut rest) else {
            return;
        };
        if kind != WireType::LengthDelimited {
            *bytes += size_of::<u64>();
            if skip_field(kind, tag, &mut rest, DecodeContext::default()).is_err() {
                return;
            }
            continue;
        }
        let length = decode_varint(&mut rest).ok();
        let length = length.and_then(|length| usize::try_from(length).ok());
        let Some((inner, behind)) = length.and_then(|length| rest.split_at_checked(length)) else {
            return;
        };
        rest = behind;
        if let Some(field) = message.get_field(tag) {
            add_field(&field, inner, most, depth, bytes);
        }
    }
}

fn add_field(field: &FieldDescriptor, inner: &[u8], most: usize, depth: usize, bytes: &mut usize) {
    match field.kind() {
        Kind::Message(message) => {
            if field.is_list() || field.is_map() {
                let own = SIZES.iter().find(|(name, _)| *name == message.full_name());
                *bytes += own.map_or(ELEMENT, |(_, size)| *size);
            }
            add(&message, inner, most, depth + 1, bytes);
        }
        Kind::Bytes if field.name() == "p4_device_config" => {
            let values = inner.iter().filter(|byte| b",[{".contains(byte)).count();
            *bytes += inner.len() + JSON_VALUE * values;
        }
        Kind::String | Kind::Bytes => *bytes += STRING + inner.len(),
        // Packed, a byte each at least.
        _ => *bytes += size_of::<u64>() * inner.len(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use prost::Message as _;
    use prost_reflect::DescriptorPool;

    use super::*;
    use crate::proto::{DESCRIPTORS, p4rt};

    fn descriptor(name: &str) -> MessageDescriptor {
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        pool.get_message_by_name(name).unwrap()
    }

    fn write(wire: &[u8]) -> usize {
        reckon(&descriptor("p4.v1.WriteRequest"), wire, usize::MAX)
    }

    #[test]
    fn empty_elements_count() {
        let updates = vec![p4rt::Update::default(); 1000];
        let request = p4rt::WriteRequest {
            updates,
            ..Default::default()
        };
        let wire = request.encode_to_vec();
        assert!(wire.len() <= 2000);
        assert!(write(&wire) >= 1000 * size_of::<p4rt::Update>());
    }

    #[test]
    fn a_batch_of_ordinary_entries_is_not_overrated() {
        let entry = p4rt::TableEntry {
            table_id: 1 << 25,
            r#match: vec![p4rt::FieldMatch::default(); 4],
            ..Default::default()
        };
        let entity = Some(p4rt::Entity {
            entity: Some(p4rt::entity::Entity::TableEntry(entry)),
        });
        let update = p4rt::Update { r#type: 1, entity };
        let request = p4rt::WriteRequest {
            updates: vec![update; 1000],
            ..Default::default()
        };
        assert!(write(&request.encode_to_vec()) < 1000 * 2500);
    }

    #[test]
    fn a_program_counts_for_its_values() {
        let config = p4rt::ForwardingPipelineConfig {
            p4_device_config: b"[[],[],{}]".to_vec(),
            ..Default::default()
        };
        let wire = config.encode_to_vec();
        let bytes = reckon(
            &descriptor("p4.v1.ForwardingPipelineConfig"),
            &wire,
            usize::MAX,
        );
        assert_eq!(bytes, 10 + 6 * JSON_VALUE);
    }

    #[test]
    fn nesting_ends() {
        // P4Data in P4StructLike in P4Data …: each level is a tag and a length.
        let mut wire = Vec::new();
        for _ in 0..5000 {
            let mut outer = vec![0x1a];
            prost::encoding::encode_varint(wire.len() as u64, &mut outer);
            outer.extend(&wire);
            wire = outer;
        }
        reckon(&descriptor("p4.v1.P4Data"), &wire, usize::MAX);
    }

    proptest! {
        #[test]
        fn any_bytes_end(wire: Vec<u8>, most in 0..10_000_usize) {
            reckon(&descriptor("p4.v1.WriteRequest"), &wire, most);
        }
    }
}
