//! The gateway program with a toy ESP engine and the entries of one tunnel.
//!
//! ```text
//!  peer 203.0.113.10 ── port 1, WAN 198.51.100.2 ─[ gateway ]─ port 2, LAN 10.20.0.1 ── web 10.20.0.10
//!  inner address 10.99.0.5
//! ```

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluice_pipeline::{
    ActionCall, Bits, CounterValue, Entry, Extern, ExternArg, ExternRegistry, MatchKind,
    MatchValue, Outcome, Packet, Program, Switch,
};

pub const WAN: u16 = 1;
pub const LAN: u16 = 2;
pub const GATEWAY: u32 = 0xc633_6402;
pub const PEER: u32 = 0xcb00_710a;
pub const WEB: u32 = 0x0a14_000a;
pub const INNER: u32 = 0x0a63_0005;
pub const SPI: u32 = 0x1000;
pub const SA_IN: u32 = 7;
pub const SA_OUT: u32 = 8;
pub const WAN_MAC: u64 = 0x0200_0000_0101;
pub const LAN_MAC: u64 = 0x0200_0000_0201;
pub const WEB_MAC: u64 = 0x0200_0000_0210;

/// "Encrypts" by putting SPI, a number and a verdict in front. The last byte of the key overrules the verdict.
struct ToyEngine {
    sealed: AtomicU32,
}

impl Extern for ToyEngine {
    fn method(&self, name: &str, arity: usize) -> Option<usize> {
        [("open", 15), ("seal", 13)]
            .iter()
            .position(|known| *known == (name, arity))
    }

    fn call(&self, method: usize, args: &mut [ExternArg], packet: &mut Packet<'_>, _now: Duration) {
        let payload = &mut *packet.payload;
        assert_eq!(args[2].width(), 576);
        let overruled = u128::from(args[2].bytes()[71]);
        let spi = args[3].as_u64() as u32;
        if method == 0 {
            payload.truncate(args[12].as_u64() as usize);
            let verdict = match payload.bytes() {
                bytes if bytes.len() < 9 || bytes[..4] != spi.to_be_bytes() => 2,
                bytes => u128::from(bytes[8]),
            };
            payload.trim_front(9);
            args[13].set(1);
            args[14].set(if overruled == 0 { verdict } else { overruled });
        } else {
            let total = u16::from_be_bytes([payload.bytes()[2], payload.bytes()[3]]);
            payload.truncate(usize::from(total));
            let number = self.sealed.fetch_add(1, Ordering::Relaxed) + 1;
            let number = number.to_be_bytes();
            let header = payload.grow_front(9);
            header[..4].copy_from_slice(&spi.to_be_bytes());
            header[4..8].copy_from_slice(&number);
            header[8] = 0;
            args[11].set(payload.len() as u128);
            args[12].set(overruled);
        }
    }
}

/// The extern of p4/gateway/payload_tail.p4.
struct PayloadTail;

impl Extern for PayloadTail {
    fn method(&self, name: &str, arity: usize) -> Option<usize> {
        (name == "cut" && arity == 1).then_some(0)
    }

    fn call(&self, _: usize, args: &mut [ExternArg], packet: &mut Packet<'_>, _: Duration) {
        packet.payload.truncate(args[0].as_u64() as usize);
    }
}

/// The gateway's form of an IPv4 address (RFC 4291 section 2.5.5.2).
pub fn mapped(address: u32) -> u128 {
    0xffff_0000_0000 | u128::from(address)
}

pub fn json() -> Vec<u8> {
    std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../p4/build/gateway.json"
    ))
    .unwrap()
}

pub fn registry() -> ExternRegistry {
    let mut registry = ExternRegistry::new();
    registry.register("EspEngine", |name, attributes| {
        assert!(name.starts_with("GatewayIngress."));
        match attributes.get("slots").and_then(Bits::to_u64) {
            Some(65536) => Ok(Box::new(ToyEngine {
                sealed: AtomicU32::new(0),
            })),
            slots => Err(format!("{slots:?} slots")),
        }
    });
    registry.register("PayloadTail", |_, _| Ok(Box::new(PayloadTail)));
    registry
}

pub fn empty_gateway() -> Gateway {
    Gateway {
        switch: Switch::new(Program::load(&json()).unwrap(), &registry()).unwrap(),
    }
}

pub struct Gateway {
    pub switch: Switch,
}

/// A gateway with its static entries and both directions of one tunnel.
pub fn gateway() -> Gateway {
    let mut gateway = empty_gateway();
    gateway.fill();
    gateway
}

impl Gateway {
    /// The static entries, and one tunnel.
    pub fn fill(&mut self) {
        let gateway = self;
        for (port, role, mac) in [(WAN, "set_wan", WAN_MAC), (LAN, "set_lan", LAN_MAC)] {
            let args = [port.into(), mac.into()];
            gateway.add("port_role", &[port.into(), 0], role, &args);
        }
        gateway.add("own_address", &[WAN.into(), mapped(GATEWAY)], "ours", &[]);
        gateway.route(WEB & 0xffff_0000, 16, 1);
        gateway.route(0, 0, 2);
        gateway.add(
            "nexthop",
            &[1],
            "set_nexthop",
            &[2, LAN.into(), 0, LAN_MAC.into(), WEB_MAC.into(), 0],
        );
        gateway.add(
            "nexthop",
            &[2],
            "set_nexthop",
            &[1, WAN.into(), 0, WAN_MAC.into(), 0x0200_0000_0102, 0],
        );
        gateway.tunnel(SPI, SA_IN, SA_OUT, INNER, PEER);
    }

    pub fn entry(
        &self,
        table: &str,
        key: Vec<MatchValue>,
        priority: i32,
        action: &str,
        args: &[u128],
    ) -> Entry {
        let program = self.switch.program();
        let id = program
            .tables()
            .iter()
            .position(|spec| spec.name.ends_with(&format!(".{table}")))
            .unwrap();
        let of_action = |name: &str| name.ends_with(&format!(".{action}"));
        let actions = &program.tables()[id].actions;
        let action = *actions
            .iter()
            .find(|id| of_action(&program.actions()[id.0].name))
            .unwrap();
        let params = &program.actions()[action.0].params;
        assert_eq!(params.len(), args.len());
        let args = params
            .iter()
            .zip(args)
            .map(|(param, value)| Bits::from_u128(param.width, *value))
            .collect();
        Entry {
            key,
            priority,
            action: ActionCall { action, args }.into(),
        }
    }

    pub fn table(&self, name: &str) -> sluice_pipeline::TableId {
        let tables = self.switch.program().tables();
        sluice_pipeline::TableId(
            tables
                .iter()
                .position(|table| table.name.ends_with(&format!(".{name}")))
                .unwrap(),
        )
    }

    /// The values of exact fields; what follows them matches anything.
    pub fn key(&self, table: &str, exact: &[u128]) -> Vec<MatchValue> {
        let specs = &self.switch.program().tables()[self.table(table).0].keys;
        let zero = |width| Bits::zero(width);
        let keys = specs.iter().enumerate().map(|(at, spec)| match spec.kind {
            MatchKind::Exact => MatchValue::Exact(Bits::from_u128(spec.width, exact[at])),
            MatchKind::Lpm => MatchValue::Lpm {
                value: zero(spec.width),
                len: 0,
            },
            MatchKind::Range => MatchValue::Range {
                low: zero(spec.width),
                high: Bits::ones(spec.width),
            },
            MatchKind::Ternary | MatchKind::Optional => MatchValue::Ternary {
                value: zero(spec.width),
                mask: zero(spec.width),
            },
        });
        keys.collect()
    }

    pub fn add(&mut self, table: &str, exact: &[u128], action: &str, args: &[u128]) {
        let entry = self.entry(table, self.key(table, exact), 0, action, args);
        self.switch.insert(self.table(table), entry).unwrap();
    }

    pub fn route(&mut self, prefix: u32, len: u16, nexthop: u128) {
        let key = vec![MatchValue::Lpm {
            value: Bits::from_u128(128, mapped(prefix)),
            len: 96 + len,
        }];
        let entry = self.entry("route", key, 0, "via", &[nexthop]);
        self.switch.insert(self.table("route"), entry).unwrap();
    }

    /// A policy for one source and one destination.
    pub fn policy(
        &mut self,
        table: &str,
        exact: u128,
        (src, dst): (u32, u32),
        action: &str,
        args: &[u128],
    ) {
        let mut key = self.key(table, &[exact]);
        for (field, address) in [(1, src), (2, dst)] {
            key[field] = MatchValue::Ternary {
                value: Bits::from_u128(128, mapped(address)),
                mask: Bits::ones(128),
            };
        }
        let entry = self.entry(table, key, 10, action, args);
        self.switch.insert(self.table(table), entry).unwrap();
    }

    pub fn tunnel(&mut self, spi: u32, sa_in: u32, sa_out: u32, inner: u32, peer: u32) {
        let open = [&[sa_in.into(), 0, 1, 0, 1, 1024][..], &[0; 8]].concat();
        self.add("sad_in", &[mapped(GATEWAY), spi.into()], "open", &open);
        self.policy("spd_in", sa_in.into(), (inner, WEB), "permit", &[0]);
        self.add("sad_out", &[sa_out.into()], "seal", &seal(spi, peer, 0));
        self.policy("spd_out", 2, (WEB, inner), "protect", &[sa_out.into(), 0]);
    }

    pub fn process(&mut self, port: u16, packet: &[u8]) -> Outcome {
        let mut out = Outcome::new();
        self.switch
            .process(port, packet, Duration::from_millis(5), &mut out);
        out
    }

    pub fn drops(&self) -> Vec<(usize, u64)> {
        let counter = self
            .switch
            .program()
            .counter("GatewayIngress.drops")
            .unwrap();
        let counts = (0..32).map(|cause| {
            (
                cause,
                self.switch.counter_read(counter, cause).unwrap().packets,
            )
        });
        counts.filter(|(_, packets)| *packets > 0).collect()
    }

    pub fn direct(&self, table: &str, key: &[MatchValue], priority: i32) -> CounterValue {
        self.switch
            .direct_counter_read(self.table(table), key, priority)
            .unwrap()
    }
}

/// The arguments of an outbound SA without limits.
pub fn seal(spi: u32, peer: u32, wrapped_key: u128) -> Vec<u128> {
    let place = [mapped(GATEWAY), mapped(peer), 4500, 40000, 0, 0];
    [&[0, 1, wrapped_key, spi.into(), 1][..], &[0; 6], &place].concat()
}

pub fn mac(address: u64) -> [u8; 6] {
    let bytes = address.to_be_bytes();
    [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

pub fn ethernet(dst: u64, src: u64, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&mac(dst), &mac(src), &ethertype.to_be_bytes()[..], payload].concat()
}

pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

pub fn ipv4(src: u32, dst: u32, protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut header = [
        &[0x45, 0x28],
        &total.to_be_bytes()[..],
        &[0, 1, 0, 0, ttl, protocol, 0, 0],
    ]
    .concat();
    header.extend(src.to_be_bytes());
    header.extend(dst.to_be_bytes());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header.as_slice(), payload].concat()
}

pub fn udp(sport: u16, dport: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    [
        &sport.to_be_bytes()[..],
        &dport.to_be_bytes(),
        &len.to_be_bytes(),
        &[0, 0],
        payload,
    ]
    .concat()
}

/// A packet that the toy engine opens to `inner`, with the verdict that it is to give.
pub fn esp(spi: u32, verdict: u8, inner: &[u8]) -> Vec<u8> {
    [&spi.to_be_bytes()[..], &[0, 0, 0, 1, verdict], inner].concat()
}

pub fn esp_in_udp(esp: &[u8]) -> Vec<u8> {
    ethernet(
        WAN_MAC,
        0x0200_0000_0102,
        0x0800,
        &ipv4(PEER, GATEWAY, 17, 64, &udp(40000, 4500, esp)),
    )
}

pub fn from_web(dst: u32, ttl: u8, payload: &[u8]) -> Vec<u8> {
    ethernet(LAN_MAC, WEB_MAC, 0x0800, &ipv4(WEB, dst, 6, ttl, payload))
}
