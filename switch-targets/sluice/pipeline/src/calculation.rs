//! Checksums and hashes over fields, headers and the payload.

use crate::bitstream::{Writer, mask};
use crate::expr::{Args, Scope};
use crate::hash;
use crate::ir::{CalcInput, Checksum, Ir};
use crate::layout::{HeaderIx, Home, Layout};
use crate::packet_state::PacketState;
use crate::phv::Phv;

/// The result of a calculation for this packet. Parts of an invalid header are left out.
pub fn run(ir: &Ir, calculation: usize, packet: &PacketState, scratch: &mut Vec<u8>) -> u64 {
    let calculation = &ir.calculations[calculation];
    if let Some(sum) = calculation
        .sum
        .as_ref()
        .filter(|sum| packet.phv.is_valid(sum.header))
    {
        let total = sum
            .terms
            .iter()
            .map(|(slot, shift)| (packet.phv.slots[*slot] as u64) << shift)
            .sum();
        return u64::from(hash::fold(total));
    }
    scratch.clear();
    let mut writer = Writer::new(scratch);
    for input in &calculation.input {
        match input {
            CalcInput::Field(place) if packet.phv.is_valid(place.header) => {
                write_field(
                    &mut writer,
                    &packet.phv,
                    place.header,
                    place.home,
                    place.width,
                );
            }
            CalcInput::Header(header) if packet.phv.is_valid(*header) => {
                write_header(&mut writer, &ir.layout, &packet.phv, *header);
            }
            CalcInput::Const { value, width } => writer.put_bytes(value, *width),
            CalcInput::Payload => writer.put_slice(packet.payload.bytes()),
            CalcInput::Field(_) | CalcInput::Header(_) => {}
        }
    }
    writer.finish();
    calculation.algorithm.run(scratch)
}

/// Returns whether any of the program's checksums is wrong. A checksum whose header is absent is not.
pub fn verify(ir: &Ir, packet: &PacketState, none: &Args, scratch: &mut Vec<u8>) -> bool {
    ir.verify
        .iter()
        .filter(|checksum| applies(checksum, ir, packet, none))
        .any(|checksum| {
            let expected = run(ir, checksum.calculation, packet, scratch);
            let found = packet.phv.low(checksum.target.home, checksum.target.header);
            found != u128::from(expected) & mask(checksum.target.width)
        })
}

/// Writes the program's checksums.
pub fn update(ir: &Ir, packet: &mut PacketState, none: &Args, scratch: &mut Vec<u8>) {
    for checksum in &ir.update {
        if applies(checksum, ir, packet, none) {
            let value = run(ir, checksum.calculation, packet, scratch);
            checksum.target.set(&mut packet.phv, u128::from(value));
        }
    }
}

fn applies(checksum: &Checksum, ir: &Ir, packet: &PacketState, none: &Args) -> bool {
    packet.phv.is_valid(checksum.target.header)
        && checksum.cond.eval(&Scope {
            layout: &ir.layout,
            phv: &packet.phv,
            args: none,
        })
}

/// Appends a header as it is on the wire.
pub fn write_header(writer: &mut Writer, layout: &Layout, phv: &Phv, header: HeaderIx) {
    let instance = &layout.headers[header];
    for field in &layout.types[instance.ty].fields {
        write_field(
            writer,
            phv,
            header,
            field.home.within(instance),
            field.width,
        );
    }
}

fn write_field(writer: &mut Writer, phv: &Phv, header: HeaderIx, home: Home, width: u32) {
    match home {
        Home::Slot(slot) => writer.put(phv.slots[slot], width),
        Home::Wide { offset, len } => writer.put_bytes(&phv.wide[offset..offset + len], width),
        Home::Var { offset, .. } => {
            writer.put_slice(&phv.wide[offset..offset + phv.var_len(header)])
        }
    }
}
