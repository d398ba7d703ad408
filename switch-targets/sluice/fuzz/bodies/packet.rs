//! The packet path: whatever comes, it ends, and a switch that replays traces does what one does that interprets.

use std::time::Duration;

use esp::{AllowedSuites, Kek, KeyMaterial, Limits, MAX_OVERHEAD, OutboundSa, Spi, Suite};
use sluice_pipeline::{
    ActionCall, Bits, Entry, EntryAction, Group, GroupMember, MatchValue, MeterConfig, Replica,
    Switch,
};

use super::input::Input;
use super::programs::{KEK, Name};
use site::{GATEWAY_A, GATEWAY_B, HOST_A, HOST_B};
use twins::Twins;

#[path = "../../examples/site/mod.rs"]
mod site;
#[path = "../../pipeline/tests/twins/mod.rs"]
mod twins;

const PROGRAMS: [Name; 8] = [
    Name::Gateway,
    Name::Headers,
    Name::Copies,
    Name::Exchange,
    Name::Selectors,
    Name::Meters,
    Name::Objects,
    Name::Gateway,
];
const STEPS: usize = 48;
const SUITE: Suite = Suite::AesGcm256;
/// SPIs of the other gateway, and of a gateway behind a NAT.
const SPIS: [u32; 2] = [0x1002, 0x2000];
/// The slots of the second pair of SAs, its endpoint's number, and the port that its NAT gives it.
const ROAMING: u128 = 5;
const NAT_PORT: u16 = 40_000;
const HOST_N: u32 = 0x0a03_000b;
const GATEWAY_N: u32 = 0xc000_0203;
const OWN_V6: u128 = 0x2001_0db8 << 96 | 1;
const HOST_V6: u128 = 0x2001_0db8 << 96 | 1 << 64 | 5;
/// Bytes that a packet may grow by.
const GROWTH: usize = 1600;

pub fn packet(input: &[u8]) {
    let mut input = Input::new(input);
    let name = *input.one(&PROGRAMS);
    let mut twins = Twins::of([name.switch(), name.switch()]);
    twins.both(|switch| fill(name, switch));
    let (mut now, mut last, mut sent) = (Duration::from_secs(1), Vec::new(), Vec::new());
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        let (step, port) = (input.byte(), port(input.byte()));
        let frame = match step % 8 {
            0 => {
                twins.both({
                    let (which, value) = (input.byte(), input.byte());
                    move |switch| change(name, switch, which, value)
                });
                continue;
            }
            1 => edited(last.clone(), &mut input),
            2 => edited(sent.clone(), &mut input),
            _ if name != Name::Gateway => input.bytes().to_vec(),
            3 => input.bytes().to_vec(),
            4 => local(&mut input),
            5 => clear(&mut input, [HOST_A, HOST_B]),
            _ => sealed(&mut input),
        };
        let times = 1 + usize::from(step >> 6);
        for _ in 0..times {
            now += Duration::from_millis(u64::from(step >> 3 & 7).pow(3));
            let out = twins.process(port, &frame, now);
            assert!(out.sent.len() <= 1025, "{} packets", out.sent.len());
            assert!(out.digests.len() <= 8 * 1025);
            for one in &out.sent {
                assert!(
                    one.bytes.len() <= frame.len() + GROWTH,
                    "{}",
                    one.bytes.len()
                );
            }
            if let Some(one) = out.sent.first() {
                sent.clone_from(&one.bytes);
            }
        }
        last = frame;
    }
    let registers = twins.plain.program().registers();
    let names: Vec<String> = registers.iter().map(|it| it.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    twins.compare(&names);
}

fn port(byte: u8) -> u16 {
    match byte % 8 {
        6 => 510,
        7 => u16::from(byte) << 8,
        port => port.into(),
    }
}

fn bits(width: u32, value: u128) -> Bits {
    Bits::from_u128(width, value)
}

fn fill(name: Name, switch: &mut Switch) {
    switch.seed(1);
    match name {
        Name::Gateway => fill_gateway(switch),
        Name::Headers => {
            let set = switch.program().value_set("HeadersParser.known").unwrap();
            let members = [9, 200].map(|it| vec![MatchValue::Exact(bits(8, it))]);
            switch.set_value_set(set, members.to_vec()).unwrap();
        }
        Name::Copies => {
            for group in 0..12 {
                change(name, switch, group, group.wrapping_mul(7));
            }
        }
        Name::Exchange => {
            for (dst, action, args) in [
                (1, "to_port", &[3][..]),
                (2, "to_group", &[1]),
                (3, "mirror", &[2, 1]),
                (4, "punt", &[]),
                (5, "learn", &[4]),
            ] {
                site::add(switch, "forward", &[&[dst]], action, args);
            }
            site::add(
                switch,
                "admission",
                &[&[3, 0x1ff], &[0x800, 0xff00]],
                "deny",
                &[],
            );
            change(Name::Copies, switch, 1, 3);
        }
        Name::Selectors => fill_selectors(switch),
        Name::Meters => {
            for flow in 0..4 {
                site::add(switch, "metered", &[&[flow]], "forward", &[flow]);
                site::add(switch, "plain", &[&[flow + 3]], "allow", &[flow]);
                change(name, switch, flow as u8, 40);
            }
        }
        Name::Objects => {
            for vrf in 0..4 {
                site::add(switch, "flow", &[&[vrf]], "set_vrf", &[vrf]);
                site::add(switch, "vrf_route", &[&[vrf]], "send", &[vrf]);
                change(name, switch, vrf as u8, 30);
            }
        }
        Name::PacketHash => {}
    }
}

fn fill_gateway(switch: &mut Switch) {
    site::site(
        switch,
        HOST_A,
        HOST_B,
        GATEWAY_A,
        GATEWAY_B,
        Some(SUITE),
        1500,
    );
    let ip = |address: u32| 0xffff << 32 | u128::from(address);
    let key = Bits::new(576, &Kek::from_bytes(&KEK).wrap(&key()).unwrap()).unwrap();
    for (address, interface) in [(OWN_V6, 1), (ip(GATEWAY_A), 2)] {
        site::add(
            switch,
            "own_address",
            &[&[interface], &[address]],
            "ours",
            &[],
        );
    }
    site::add(
        switch,
        "port_role",
        &[&[3], &[5]],
        "set_lan",
        &[3, 0x0200_0000_0101],
    );
    site::add(
        switch,
        "route",
        &[&[ip(HOST_N & !0xff), 120]],
        "via_group",
        &[9, 2],
    );
    for member in 0..2 {
        let key: [&[u128]; 2] = [&[9], &[member]];
        let action = switch.program().actions();
        let action = action.iter().find(|it| it.name.ends_with(".via")).unwrap();
        assert_eq!(action.params.len(), 1);
        site::add(switch, "ecmp_member", &key, "via", &[member + 1]);
    }
    site::add(switch, "route", &[&[HOST_V6 & !0xffff, 112]], "via", &[2]);
    for (role, from, to, action, args) in [
        (2, HOST_A, HOST_N, "protect", &[ROAMING, 1400][..]),
        (2, HOST_A, HOST_A + 1, "bypass", &[]),
    ] {
        let key: [&[u128]; 3] = [&[role], &[ip(from), u128::MAX], &[ip(to), u128::MAX]];
        site::add(switch, "spd_out", &key, action, args);
    }
    let flow: [&[u128]; 3] = [
        &[ROAMING],
        &[ip(HOST_N), u128::MAX],
        &[ip(HOST_A), u128::MAX],
    ];
    site::add(switch, "spd_in", &flow, "permit", &[0]);
    let (suite, spi) = (SUITE as u128, u128::from(SPIS[1]));
    let seal = [
        &[ROAMING, suite, 0, spi, 0, 40, 0, 0, 60, 0, 0][..],
        &[
            ip(GATEWAY_A),
            ip(GATEWAY_N),
            4500,
            NAT_PORT.into(),
            ROAMING,
            7,
        ],
    ];
    site::add_with(
        switch,
        "sad_out",
        &[&[ROAMING]],
        "seal",
        &seal.concat(),
        &key,
    );
    let open = [
        ROAMING, ROAMING, suite, 0, 0, 64, 20, 0, 0, 60, 0, 0, ROAMING, 7,
    ];
    let key_in: [&[u128]; 2] = [&[ip(GATEWAY_A)], &[spi]];
    site::add_with(switch, "sad_in", &key_in, "open", &open, &key);
}

fn fill_selectors(switch: &mut Switch) {
    let program = switch.program();
    let table = |name: &str| {
        let tables = program.tables();
        let at = tables
            .iter()
            .position(|it| it.name.ends_with(name))
            .unwrap();
        sluice_pipeline::TableId(at)
    };
    let (by_member, by_group, by_prefix) =
        (table("by_member"), table("by_group"), table("by_prefix"));
    let profiles = ["profile", "balancer"];
    let profiles = profiles.map(|it| program.profile(&format!("SelectorIngress.{it}")).unwrap());
    let to = program.action(by_group, "SelectorIngress.to").unwrap();
    let again = program.action(by_group, "SelectorIngress.again").unwrap();
    let to_member = program.action(by_member, "SelectorIngress.to").unwrap();
    for id in 1..6_u32 {
        let args = vec![bits(9, id.into()), bits(8, id.into())];
        for (profile, to) in profiles.into_iter().zip([to_member, to]) {
            let action = ActionCall {
                action: to,
                args: args.clone(),
            };
            switch.insert_member(profile, id, action).unwrap();
        }
    }
    let action = ActionCall {
        action: again,
        args: Vec::new(),
    };
    switch.insert_member(profiles[1], 6, action).unwrap();
    for id in 1..4 {
        change(Name::Selectors, switch, id, id.wrapping_mul(0x35));
    }
    let exact = |value| vec![MatchValue::Exact(bits(16, value))];
    let prefix = |value, len| {
        let value = bits(16, value);
        vec![MatchValue::Lpm { value, len }]
    };
    for (table, key, action) in [
        (by_member, exact(1), EntryAction::Member(1)),
        (by_group, exact(2), EntryAction::Group(1)),
        (by_group, exact(3), EntryAction::Group(2)),
        (by_group, exact(4), EntryAction::Member(6)),
        (by_prefix, prefix(4, 16), EntryAction::Group(3)),
        (by_prefix, prefix(0, 8), EntryAction::Member(3)),
    ] {
        let (key, priority) = (key, 0);
        let entry = Entry {
            key,
            priority,
            action,
        };
        switch.insert(table, entry).unwrap();
    }
}

/// A write of the control plane between two packets. It may be refused.
fn change(name: Name, switch: &mut Switch, which: u8, value: u8) {
    let replicas = |count: u8| {
        let replica = |instance: u8| Replica {
            port: u16::from(value.wrapping_add(instance) % 8),
            instance: instance.into(),
        };
        (0..count).map(replica).collect::<Vec<_>>()
    };
    let table = |switch: &Switch, suffix: &str| {
        let tables = switch.program().tables();
        let at = tables.iter().position(|it| it.name.ends_with(suffix));
        at.map(sluice_pipeline::TableId)
    };
    match name {
        Name::Gateway => {
            let tables = [
                "sad_in",
                "spd_in",
                "sad_out",
                "nexthop",
                "route",
                "own_address",
            ];
            let table = table(switch, tables[usize::from(which) % tables.len()]).unwrap();
            let entries: Vec<_> = switch.entries(table).map(|it| it.entry).collect();
            let Some(entry) = entries.get(usize::from(value) % entries.len().max(1)) else {
                return;
            };
            switch.delete(table, &entry.key, entry.priority).unwrap();
            if which & 0x40 == 0 {
                switch.insert(table, entry.clone()).unwrap();
            }
        }
        Name::Copies => match which % 3 {
            0 => switch.set_multicast_group((which / 3).into(), replicas(value)),
            1 => {
                let length = (value & 1 == 0).then_some(usize::from(value));
                let replicas = replicas(value >> 5);
                switch.set_clone_session((which / 3).into(), replicas, length);
            }
            _ => configure(switch, "CopiesIngress.marker", which / 3, value),
        },
        Name::Meters => {
            configure(switch, "MeterIngress.array", which, value);
            let table = table(switch, "metered").unwrap();
            let key = [MatchValue::Exact(bits(16, (which % 4).into()))];
            if let Ok(meter) = switch.direct_meter_mut(table, &key, 0) {
                meter.configure(Some(rates(value)));
            }
        }
        Name::Selectors => {
            let profile = switch.program().profile("SelectorIngress.balancer");
            let members = (1..7)
                .filter(|it| value >> it & 1 == 1)
                .map(|member| GroupMember {
                    member,
                    weight: u32::from(which >> 4) + 1,
                    watch: (value & 1 == 1).then_some(member as u16),
                });
            let group = Group {
                members: members.collect(),
                max_size: 0,
            };
            let (profile, id) = (profile.unwrap(), u32::from(which % 4));
            if switch.modify_group(profile, id, &group).is_err() {
                let _ = switch.insert_group(profile, id, &group);
            }
            switch.set_port((value % 8).into(), which & 8 == 0);
        }
        Name::Objects => {
            let table = table(switch, "flow").unwrap();
            let key = [MatchValue::Exact(bits(48, (which % 4).into()))];
            let timeout = Duration::from_millis(value.into());
            let _ = switch.set_idle_timeout(table, &key, 0, timeout, Duration::from_secs(1));
            let set = switch.program().value_set("ObjectsParser.members").unwrap();
            let one = bits(48, value.into());
            let member = vec![
                MatchValue::Exact(bits(16, (which % 4).into())),
                MatchValue::Ternary {
                    value: one.clone(),
                    mask: one.clone(),
                },
                MatchValue::Range {
                    low: one,
                    high: Bits::ones(48),
                },
            ];
            switch.set_value_set(set, vec![member]).unwrap();
        }
        Name::Exchange => {
            let table = table(switch, "forward").unwrap();
            let key = [MatchValue::Exact(bits(48, (which % 8).into()))];
            if switch.delete(table, &key, 0).is_err() {
                let key: [&[u128]; 1] = [&[(which % 8).into()]];
                site::add(switch, "forward", &key, "to_port", &[value.into()]);
            }
        }
        Name::Headers | Name::PacketHash => {}
    }
}

fn configure(switch: &mut Switch, meter: &str, cell: u8, rate: u8) {
    let meter = switch.program().meter(meter).unwrap();
    if let Ok(meter) = switch.meter_mut(meter, cell.into()) {
        meter.configure((rate > 9).then(|| rates(rate)));
    }
}

fn rates(rate: u8) -> MeterConfig {
    let rate = u64::from(rate);
    match rate & 1 {
        0 => MeterConfig::TwoRate {
            cir: rate,
            cburst: rate,
            pir: 2 * rate,
            pburst: rate,
        },
        _ => MeterConfig::SingleRate {
            cir: rate,
            cburst: rate,
            eburst: 30,
        },
    }
}

/// Changes some bytes, then perhaps cuts or extends the frame, then perhaps makes the checksum of IPv4 right.
fn edited(mut frame: Vec<u8>, input: &mut Input) -> Vec<u8> {
    let how = input.byte();
    for _ in 0..how % 4 {
        let (at, value) = (usize::from(input.byte()), input.byte());
        if let Some(byte) = frame.get_mut(at) {
            *byte = value;
        }
    }
    match how >> 2 & 3 {
        0 => frame.truncate(input.byte().into()),
        1 => frame.resize(frame.len() + 16 * usize::from(input.byte()), how),
        _ => {}
    }
    frame.truncate(9000);
    if how & 0x80 == 0
        && let Some(header) = frame.get_mut(14..34)
        && header[0] == 0x45
    {
        finish(header);
    }
    frame
}

fn finish(header: &mut [u8]) {
    header[10..12].fill(0);
    let words = header.chunks(2);
    let sum: u32 = words
        .map(|it| u32::from(it[0]) << 8 | u32::from(it[1]))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn ethernet(dst: u8, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 1, dst, 2, 0, 0, 0, 9, 9];
    [&addresses, &ethertype.to_be_bytes()[..], packet].concat()
}

fn ipv4([src, dst]: [u32; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut packet = [&[0x45, 0], &length.to_be_bytes()[..], &[0, 0, 0x40, 0, 64]].concat();
    packet.extend([protocol, 0, 0]);
    packet.extend(src.to_be_bytes());
    packet.extend(dst.to_be_bytes());
    finish(&mut packet);
    [&packet, payload].concat()
}

fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let words = [ports[0], ports[1], length, 0].map(u16::to_be_bytes);
    [words.as_flattened(), payload].concat()
}

/// A packet from one host to another, over IPv4 or IPv6.
fn clear(input: &mut Input, hosts: [u32; 2]) -> Vec<u8> {
    let (kind, payload) = (input.byte(), input.bytes());
    let protocol = [6, 17, 1, 6, 6, 50, 58, kind][usize::from(kind % 8)];
    let hosts = match kind >> 3 & 3 {
        0 => [hosts[0], HOST_N],
        1 => [hosts[0], hosts[1] + u32::from(kind >> 5)],
        _ => hosts,
    };
    let frame = match kind >> 5 {
        7 => {
            let length = (payload.len() as u16).to_be_bytes();
            let header = [&[0x60, 0, 0, 0][..], &length, &[protocol, 64]].concat();
            let addresses = [HOST_V6 + 1, HOST_V6].map(u128::to_be_bytes);
            let packet = [&header, addresses.as_flattened(), payload].concat();
            ethernet(1, 0x86dd, &packet)
        }
        6 => {
            let tag = [&[0, 5, 8, 0][..], &ipv4(hosts, protocol, payload)].concat();
            ethernet(1, 0x8100, &tag)
        }
        _ => ethernet(1, 0x0800, &ipv4(hosts, protocol, payload)),
    };
    edited(frame, input)
}

/// A packet that a gateway answers itself, or nearly such a packet.
fn local(input: &mut Input) -> Vec<u8> {
    let (kind, rest) = (input.byte(), input.bytes());
    let frame = match kind % 6 {
        0 => {
            let head = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 9, 9];
            let [src, dst] = [GATEWAY_B, GATEWAY_A].map(u32::to_be_bytes);
            let packet = [&head[..], &src, &[0; 6], &dst, rest].concat();
            let mut frame = ethernet(2, 0x0806, &packet);
            frame[..6].fill(0xff);
            frame
        }
        1 => {
            let echo = [&[8, 0, 0xf7, 0xff, 0, 0, 0, 0], rest].concat();
            ethernet(2, 0x0800, &ipv4([GATEWAY_B, GATEWAY_A], 1, &echo))
        }
        2 => {
            let payload = udp([NAT_PORT, 4500], rest);
            ethernet(2, 0x0800, &ipv4([GATEWAY_N, GATEWAY_A], 17, &payload))
        }
        3 => {
            let spi = SPIS[usize::from(kind >> 7)].to_be_bytes();
            let packet = ipv4([GATEWAY_B, GATEWAY_A], 50, &[&spi, rest].concat());
            ethernet(2, 0x0800, &packet)
        }
        // Neighbor Solicitation (RFC 4861, section 4.3), echo request, anything.
        kind => {
            let message = [&[if kind == 4 { 135 } else { 128 }, 0, 0, 0, 0, 0, 0, 0][..]];
            let target = OWN_V6.to_be_bytes();
            let message = [message[0], &target, rest].concat();
            let length = (message.len() as u16).to_be_bytes();
            let header = [&[0x60, 0, 0, 0][..], &length, &[58, 255]].concat();
            let addresses = [HOST_V6, OWN_V6].map(u128::to_be_bytes);
            let packet = [&header, addresses.as_flattened(), &message].concat();
            ethernet(2, 0x86dd, &packet)
        }
    };
    edited(frame, input)
}

fn key() -> KeyMaterial {
    let admitted = AllowedSuites::MODERN.admit(SUITE).unwrap();
    KeyMaterial::new(admitted, &vec![9; SUITE.key_material_len()]).unwrap()
}

/// A packet of the other gateway, or of the gateway behind a NAT; perhaps damaged behind.
fn sealed(input: &mut Input) -> Vec<u8> {
    let (kind, sequence) = (input.byte(), input.byte());
    let roams = kind & 1 == 1;
    let inner = clear(input, [if roams { HOST_N } else { HOST_B }, HOST_A]);
    let spi = Spi::new(SPIS[usize::from(roams)]).unwrap();
    let (none, mut out) = (Limits::NONE, vec![0; inner.len() + MAX_OVERHEAD]);
    let mut sa = OutboundSa::new(spi, &key(), !roams, none, none).unwrap();
    sa.resume_after(sequence.into());
    let inner = inner.get(14..).unwrap_or_default();
    let Ok(done) = sa.seal(inner, &mut out, Duration::ZERO) else {
        return inner.to_vec();
    };
    out.truncate(done.len);
    let packet = match roams {
        true => ipv4([GATEWAY_N, GATEWAY_A], 17, &udp([NAT_PORT, 4500], &out)),
        false => ipv4([GATEWAY_B, GATEWAY_A], 50, &out),
    };
    let frame = ethernet(2, 0x0800, &packet);
    match kind & 2 {
        0 => frame,
        _ => edited(frame, input),
    }
}
