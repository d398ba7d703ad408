//! The nftables tables of a gateway beside the kernel: `netdev` sends ESP to the switch and its packets to devices; `inet` filters
//! what the kernel forwards for the pool, counts it, and masquerades it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

use crate::beside::{Beside, End, Outer6};
use crate::fault::{Fault, Outcome};
use crate::network::{Network, write_mac};

impl Beside {
    /// The name of the two nftables tables.
    pub fn table(&self) -> String {
        format!("culvert-{}", self.number)
    }

    /// The nftables script that replaces this gateway's tables, and makes nothing else: for the present addresses and default
    /// route, and those of the join where they are absent. `pool_alone`: the interfaces from which the kernel forwarded nothing
    /// before, and forwards for the pool alone.
    pub fn rules(&self, network: &Network, pool_alone: &[String]) -> String {
        let Self {
            interface,
            address,
            pool,
            ..
        } = self;
        let [to_switch, lan] = [End::KernelWan, End::KernelLan].map(|end| self.name(end));
        let mac = write_mac(self.mac(End::SwitchWan));
        let (_, switch) = self.link();
        let mut rules = self.no_rules();
        let at = network.find(interface);
        let to_neighbours: String = at
            .iter()
            .flat_map(|it| &it.addresses)
            .map(|it| it.prefix())
            .map(|to| format!("ip daddr {to} fwd ip to ip daddr device \"{interface}\"\n"))
            .collect();
        let next_hop = self.next_hop_of(network);
        let outer6 = self.outer6_of(network);
        let (mut from_wire6, mut to_devices6, mut from_switch6) =
            (String::new(), String::new(), String::new());
        if let Some(Outer6 { address, next_hop }) = outer6 {
            let pass =
                format!("counter name to-switch ether daddr set {mac} fwd to \"{to_switch}\"");
            from_wire6 = format!(
                "meta pkttype host ip6 daddr {address} ip6 nexthdr esp {pass}
                     meta pkttype host ip6 daddr {address} ip6 nexthdr udp udp dport 4500 {pass}"
            );
            let near: String = at
                .iter()
                .flat_map(|it| &it.addresses6)
                .map(|it| it.prefix())
                .map(|to| format!("ip6 daddr {to} fwd ip6 to ip6 daddr device \"{interface}\"\n"))
                .collect();
            to_devices6 = format!(
                "chain to-devices6 {{
                     {near} fwd ip6 to {next_hop} device \"{interface}\"
                 }}"
            );
            from_switch6 = format!("ip6 saddr {address} goto to-devices6");
        }
        // nftables keeps the interface's index, which is another when the interface comes back.
        let index = at.map_or(0, |it| it.index);
        rules += &format!(
            "table netdev {table} {{
                 counter to-switch {{ }}
                 chain from-wire {{
                     type filter hook ingress device \"{interface}\" priority -100; policy accept;
                     ether type {{ vlan, 8021ad }} accept
                     meta pkttype host ip daddr {address} ip protocol esp counter name to-switch ether daddr set {mac} fwd to \"{to_switch}\"
                     meta pkttype host ip daddr {address} ip frag-off & 0x1fff == 0 udp dport 4500 counter name to-switch ether daddr set {mac} fwd to \"{to_switch}\"
                     {from_wire6}
                 }}
                 {to_devices6}
                 chain to-devices {{
                     {to_neighbours} fwd ip to {next_hop} device \"{interface}\" # {index}
                 }}
                 chain from-switch-wan {{
                     type filter hook ingress device \"{to_switch}\" priority 0; policy drop;
                     ip saddr {address} goto to-devices
                     {from_switch6}
                 }}
                 chain from-switch-lan {{
                     type filter hook ingress device \"{lan}\" priority 0; policy accept;
                     ip saddr {address} goto to-devices
                 }}
             }}\n",
            table = self.table(),
        );
        let pool_alone: String = pool_alone
            .iter()
            .map(|it| format!("iifname \"{it}\" oifname != \"{lan}\" drop\n"))
            .collect();
        let masquerade = if self.masquerade {
            format!("ip saddr {pool} oifname != \"{lan}\" masquerade")
        } else {
            String::new()
        };
        rules += &format!(
            "table inet {table} {{
                 counter out-of-tunnels {{ }}
                 counter forwarded {{ }}
                 chain forward-first {{
                     type filter hook forward priority -190; policy accept;
                     iifname \"{lan}\" ip saddr != {{ {pool}, {switch} }} drop
                     iifname \"{lan}\" meta nfproto ipv6 drop
                     oifname \"{lan}\" ip daddr != {pool} drop
                     oifname \"{lan}\" meta nfproto ipv6 drop
                     {pool_alone}
                     iifname \"{lan}\" counter name out-of-tunnels
                 }}
                 chain forward-last {{
                     type filter hook forward priority 300; policy accept;
                     iifname \"{lan}\" counter name forwarded
                     ip saddr {switch} ip saddr set {address}
                 }}
                 chain to-intranet {{
                     type nat hook postrouting priority 100; policy accept;
                     {masquerade}
                 }}
             }}\n",
            table = self.table(),
        );
        // Shows whether the tables that are there are these.
        let digest = digest(&SHA256, rules.as_bytes());
        let comment = format!(
            "comment \"state {}\"",
            HEXLOWER.encode(&digest.as_ref()[..8])
        );
        rules.replacen(
            "counter to-switch {",
            &format!("{comment}\ncounter to-switch {{"),
            1,
        )
    }

    /// The nftables script that removes this gateway's tables, be they there or not.
    pub fn no_rules(&self) -> String {
        let table = self.table();
        ["netdev", "inet"]
            .map(|of| format!("table {of} {table} {{ }}\ndelete table {of} {table}\n"))
            .concat()
    }
}

/// Packets that nftables has counted: of ESP to the switch, out of tunnels, and those of them that were forwarded.
pub fn counted(beside: &Beside) -> Option<[u64; 3]> {
    let of = |family: &str, name: &str| -> Option<u64> {
        let whole = list(family, beside).ok()?;
        let (_, rest) = whole.split_once(&format!("counter {name} {{"))?;
        let mut words = rest.split_whitespace();
        words.find(|it| *it == "packets")?;
        words.next()?.parse().ok()
    };
    Some([
        of("netdev", "to-switch")?,
        of("inet", "out-of-tunnels")?,
        of("inet", "forwarded")?,
    ])
}

/// The tables of nftables that drop what they do not know of forwarded packets.
pub fn closed_firewalls() -> Vec<String> {
    let listed = output(&["list", "chains"]).unwrap_or_default();
    let mut found = Vec::new();
    let mut table = "";
    for line in listed.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name.trim_end_matches(['{', ' ']);
        } else if line.contains("hook forward") && line.contains("policy drop") {
            found.push(table.to_owned());
        }
    }
    found
}

pub fn list(family: &str, beside: &Beside) -> Outcome<String> {
    output(&["list", "table", family, &beside.table()])
}

pub fn run(script: &str, options: &[&str]) -> Outcome<()> {
    let mut command = Command::new("nft");
    command
        .args(options)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut process = command.spawn().map_err(absent)?;
    if let Some(mut into) = process.stdin.take() {
        // A program that ends early says why on its standard error.
        let _ = into.write_all(script.as_bytes());
    }
    let run = process.wait_with_output().map_err(absent)?;
    if run.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&run.stderr);
    Err(Fault::new(
        format!(
            "nftables refuses the gateway's tables: {}.",
            why.lines().next().unwrap_or_default()
        ),
        "See: nft list ruleset",
    ))
}

fn output(arguments: &[&str]) -> Outcome<String> {
    let run = Command::new("nft")
        .args(arguments)
        .output()
        .map_err(absent)?;
    if run.status.success() {
        return Ok(String::from_utf8_lossy(&run.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&run.stderr);
    Err(Fault::new(
        format!(
            "nft {} failed: {}.",
            arguments.join(" "),
            why.lines().next().unwrap_or_default()
        ),
        "Run this as root.",
    ))
}

fn absent(cause: std::io::Error) -> Fault {
    let fault = Fault::of_system("The program nft (package nftables) cannot be run", &cause);
    Fault::new(fault.what, "Run: apt install nftables")
}
