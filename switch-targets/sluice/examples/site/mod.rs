//! A site-to-site gateway for measurements: the gateway program with the entries of one tunnel, and packets for it.

#![allow(clippy::unwrap_used, dead_code)]

use std::sync::Arc;

use esp::{AllowedSuites, Kek, KeyMaterial, Suite};
use sluice::dataplane::{esp_engine, payload_tail};
use sluice_pipeline::{
    ActionCall, Bits, Entry, ExternRegistry, MatchKind, MatchValue, Program, Switch,
};

const KEK: [u8; 32] = [7; 32];
pub const WAN: u16 = 1;
pub const LAN: u16 = 2;
const MAPPED: u128 = 0xffff << 32;
/// Addresses that no test needs to tell apart by more than their last byte.
pub const HOST_A: u32 = 0x0a01_000b;
pub const HOST_B: u32 = 0x0a02_000b;
pub const GATEWAY_A: u32 = 0xc000_0201;
pub const GATEWAY_B: u32 = 0xc000_0202;

pub fn gateway() -> Switch {
    let mut externs = ExternRegistry::new();
    let allowed = AllowedSuites::MODERN.with(Suite::NullHmacSha256);
    esp_engine::register(
        &mut externs,
        Arc::new(Kek::from_bytes(&KEK).into()),
        allowed,
    );
    payload_tail::register(&mut externs);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/build/gateway.json");
    Switch::new(
        Program::load(&std::fs::read(program).unwrap()).unwrap(),
        &externs,
    )
    .unwrap()
}

/// `mtu` is the wires', 0 for no limit.
pub fn site(
    switch: &mut Switch,
    own: u32,
    other: u32,
    here: u32,
    there: u32,
    suite: Option<Suite>,
    mtu: u128,
) {
    let inner_mtu = mtu.saturating_sub(54);
    let ip = |address: u32| MAPPED | u128::from(address);
    add(
        switch,
        "port_role",
        &[&[1], &[0]],
        "set_wan",
        &[1, 0x0200_0000_0102],
    );
    add(
        switch,
        "port_role",
        &[&[2], &[0]],
        "set_lan",
        &[2, 0x0200_0000_0101],
    );
    add(switch, "own_address", &[&[1], &[ip(here)]], "ours", &[]);
    for (prefix, nexthop) in [(own & !0xff, 2), (other & !0xff, 1), (there & !0xff, 1)] {
        add(switch, "route", &[&[ip(prefix), 120]], "via", &[nexthop]);
    }
    for (nexthop, port) in [(1, WAN), (2, LAN)] {
        let args = [
            nexthop,
            u128::from(port),
            0,
            0x0200_0000_0101,
            0x0200_0000_0102,
            mtu,
        ];
        add(switch, "nexthop", &[&[nexthop]], "set_nexthop", &args);
    }
    let flow = |role, from: u32, to: u32| {
        [
            vec![role],
            vec![ip(from), u128::MAX],
            vec![ip(to), u128::MAX],
        ]
    };
    let Some(suite) = suite else {
        for (role, from, to) in [(2, own, other), (1, other, own)] {
            let key = flow(role, from, to);
            add(
                switch,
                "spd_out",
                &key.each_ref().map(Vec::as_slice),
                "bypass",
                &[],
            );
        }
        return;
    };
    let key = flow(2, own, other);
    add(
        switch,
        "spd_out",
        &key.each_ref().map(Vec::as_slice),
        "protect",
        &[1, inner_mtu],
    );
    let key = flow(2, other, own);
    add(
        switch,
        "spd_in",
        &key.each_ref().map(Vec::as_slice),
        "permit",
        &[inner_mtu],
    );
    let wrapped = {
        let admitted = AllowedSuites::MODERN.with(suite).admit(suite).unwrap();
        let material = KeyMaterial::new(admitted, &vec![9; suite.key_material_len()]).unwrap();
        Bits::new(576, &Kek::from_bytes(&KEK).wrap(&material).unwrap()).unwrap()
    };
    let number = suite as u128;
    let spi = u128::from(0x1000 + (here & 0xff));
    let seal = vec![
        0,
        number,
        0,
        spi,
        1,
        0,
        0,
        0,
        0,
        0,
        0,
        ip(here),
        ip(there),
        0,
        0,
        0,
        0,
    ];
    add_with(switch, "sad_out", &[&[1]], "seal", &seal, &wrapped);
    let spi = u128::from(0x1000 + (there & 0xff));
    let open = vec![2, 0, number, 0, 1, 1024, 0, 0, 0, 0, 0, 0, 0, 0];
    add_with(
        switch,
        "sad_in",
        &[&[ip(here)], &[spi]],
        "open",
        &open,
        &wrapped,
    );
}

pub fn add(switch: &mut Switch, table: &str, key: &[&[u128]], action: &str, args: &[u128]) {
    add_with(switch, table, key, action, args, &Bits::zero(576));
}

/// `key` names the first fields, a number or a number and its mask or length; the others match everything. The
/// 576-bit argument is `wrapped`.
pub fn add_with(
    switch: &mut Switch,
    table: &str,
    key: &[&[u128]],
    action: &str,
    args: &[u128],
    wrapped: &Bits,
) {
    let program = switch.program();
    let ends = |name: &str, wanted: &str| name.rsplit('.').next() == Some(wanted);
    let at = program
        .tables()
        .iter()
        .position(|spec| ends(&spec.name, table))
        .unwrap();
    let spec = &program.tables()[at];
    let named = |id: &&sluice_pipeline::ActionId| ends(&program.actions()[id.0].name, action);
    let id = *spec.actions.iter().find(named).unwrap();
    let field = |(index, field): (usize, &sluice_pipeline::KeySpec)| {
        let bits = |value| Bits::from_u128(field.width, value);
        let given = key.get(index);
        let (value, extra) = given.map_or((0, 0), |given| {
            (given[0], given.get(1).copied().unwrap_or(0))
        });
        match field.kind {
            MatchKind::Exact => MatchValue::Exact(bits(value)),
            MatchKind::Lpm => MatchValue::Lpm {
                value: bits(value),
                len: extra as u16,
            },
            MatchKind::Ternary => MatchValue::Ternary {
                value: bits(value),
                mask: bits(extra),
            },
            MatchKind::Range => MatchValue::Range {
                low: bits(0),
                high: Bits::ones(field.width),
            },
            MatchKind::Optional => MatchValue::Optional(None),
        }
    };
    let params = &program.actions()[id.0].params;
    assert_eq!(params.len(), args.len(), "{action}");
    let value = |(param, value): (&sluice_pipeline::ParamSpec, &u128)| match param.width {
        576 => wrapped.clone(),
        width => Bits::from_u128(width, *value),
    };
    let entry = Entry {
        key: spec.keys.iter().enumerate().map(field).collect(),
        priority: i32::from(spec.prioritised),
        action: ActionCall {
            action: id,
            args: params.iter().zip(args).map(value).collect(),
        }
        .into(),
    };
    switch.insert(sluice_pipeline::TableId(at), entry).unwrap();
}

pub fn ethernet(packet: &[u8]) -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2, 8, 0];
    [&addresses[..], packet].concat()
}

/// TCP with an acknowledgement in it, as most packets are.
pub fn ipv4(src: u32, dst: u32, payload: &[u8]) -> Vec<u8> {
    let mut tcp = vec![
        0x13, 0x88, 0x13, 0x89, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0,
    ];
    tcp.extend_from_slice(payload);
    let length = (20 + tcp.len()) as u16;
    let mut header = vec![0x45, 0];
    header.extend(length.to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    header.extend(src.to_be_bytes());
    header.extend(dst.to_be_bytes());
    let sum = header
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, tcp].concat()
}
