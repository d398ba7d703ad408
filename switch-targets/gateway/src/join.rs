//! `culvert-gateway join LINK`: look, show the plan, ask, act; each act can be taken back.
//!
//! ```text
//!   link ─► controller (pinned) ─► interfaces, routes, neighbours ─► checked by the controller ─► plan ─► "yes"
//!                       nothing is changed until here                                                     │
//!   record ─► folder, key ─► joined ─► certificate, KEK, settings ─► kernel's addresses ─► unit ─► online ◄┘
//!          ◄──────────────────────── taken back in reverse when one fails ────────────────────────
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, Write as _};
use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};

use crate::agreement::{Half, confirms};
use crate::arp::{Mac, probe};
use crate::certificate::GatewayKey;
use crate::controller::{Controller, Trust};
use crate::fault::{Fault, Outcome};
use crate::host::{CERTIFICATE, CONTROLLER_CA, Host, Joined, KEK, KEY};
use crate::link::Link;
use crate::network::{Network, Prefix, way_to, write_mac};
use crate::plan::{Choice, Plan, Port, check_pool, choose};
use crate::{clock, leave, ports};

pub struct Settings {
    pub choice: Choice,
    /// ADDRESS:PORT where the switch serves P4Runtime, for a controller that connects to it.
    pub grpc: Option<String>,
    pub yes: bool,
    pub patience: Duration,
}

/// Everything that is known before the first change.
struct Prepared {
    gateway: String,
    pool: String,
    exists: bool,
    plan: Plan,
    next_hop: Mac,
    neighbours: BTreeMap<Ipv4Addr, Mac>,
    had_route: bool,
}

pub fn join(host: &Host, link: &Link, settings: &Settings) -> Outcome<()> {
    let owner = host.owner()?;
    if !host.switch().is_file() {
        return Err(Fault::new(
            format!("The switch {} is not installed.", host.switch().display()),
            "Install the package culvert-gateway again.",
        ));
    }
    if settings.grpc.is_none() && !host.switch_dials() {
        return Err(Fault::new(
            "This version of the switch cannot connect to the controller itself.",
            "Name the address at which the controller reaches this computer: --grpc ADDRESS:9559",
        ));
    }
    let controller = Controller::new(link.place.clone(), &Trust::Pin(link.fingerprint))?;
    let prepared = prepare(host, &controller, link, settings)?;
    println!("{}", describe(&prepared, &controller, settings));
    if !settings.yes && !confirm("\nGo on?")? {
        println!("Nothing was changed.");
        return Ok(());
    }
    let mut undo = Undo::default();
    match act(
        host,
        &controller,
        link,
        settings,
        &prepared,
        owner,
        &mut undo,
    ) {
        Ok(()) => {
            println!("The gateway {} is online.", prepared.gateway);
            Ok(())
        }
        Err(fault) => Err(undo.run(fault)),
    }
}

fn prepare(
    host: &Host,
    controller: &Controller,
    link: &Link,
    settings: &Settings,
) -> Outcome<Prepared> {
    let network = Network::read()?;
    let mut to_controller = BTreeSet::new();
    for address in controller.addresses()? {
        to_controller.extend(way_to(address));
    }
    if to_controller.is_empty() {
        return Err(Fault::new(
            format!(
                "This computer has no route to the controller at {}.",
                controller.place.authority()
            ),
            "Give it one: ip route add CONTROLLER via ROUTER.",
        ));
    }
    let checked = controller
        .post(
            "gateway-joins/check",
            &json!({"token": link.token.as_str()}),
        )?
        .done()?;
    clock::check(&checked)?;
    let gateway = field(&checked, "gateway")?;
    let pool = field(&checked, "pool")?;
    if host.record(&gateway).exists() || host.env(&gateway).exists() || host.keys(&gateway).exists()
    {
        return Err(Fault::new(
            format!("This computer is the gateway {gateway} already."),
            format!("Run culvert-gateway status; to join anew: culvert-gateway leave {gateway}"),
        ));
    }
    let plan = choose(&network, &settings.choice, &to_controller)?;
    let prefix = Prefix::parse(&pool).ok_or_else(|| unexpected("its pool"))?;
    check_pool(&network, &plan, prefix)?;
    let (next_hop, neighbours) = find_neighbours(&network, &plan)?;
    let had_route = network.default_routes.get(&plan.wan.interface.name) == Some(&plan.next_hop);
    let exists = checked["exists"].as_bool().unwrap_or_default();
    let prepared = Prepared {
        gateway,
        pool,
        exists,
        plan,
        next_hop,
        neighbours,
        had_route,
    };
    let facts = facts(&prepared, settings);
    controller
        .post(
            "gateway-joins/check",
            &json!({"token": link.token.as_str(), "facts": facts}),
        )?
        .done()?;
    Ok(prepared)
}

/// Asks the neighbours themselves; the kernel's table answers for those that ignore probes.
fn find_neighbours(network: &Network, plan: &Plan) -> Outcome<(Mac, BTreeMap<Ipv4Addr, Mac>)> {
    let ask = |port: &Port, targets: &[Ipv4Addr]| -> Outcome<BTreeMap<Ipv4Addr, Mac>> {
        let of = &port.interface;
        let mut found = probe(of.index, of.mac, targets)
            .map_err(|cause| Fault::of_system(format!("{} cannot be asked", of.name), &cause))?;
        for target in targets {
            if let Some(mac) = network.neighbours.get(&(of.name.clone(), *target)) {
                found.entry(*target).or_insert(*mac);
            }
        }
        Ok(found)
    };
    for port in [&plan.wan, &plan.lan] {
        let of = &port.interface;
        let own = probe(of.index, of.mac, &[port.address.ip])
            .map_err(|cause| Fault::of_system(format!("{} cannot be asked", of.name), &cause))?;
        if let Some(mac) = own.get(&port.address.ip) {
            return Err(Fault::new(
                format!(
                    "Another computer has the address {} on {}: {}.",
                    port.address.ip,
                    of.name,
                    write_mac(*mac)
                ),
                "Free that address, or choose another one with --wan-address or --lan-address.",
            ));
        }
    }
    let next_hop = ask(&plan.wan, &[plan.next_hop])?.get(&plan.next_hop).copied().ok_or_else(|| {
        Fault::new(
            format!("The next hop {} does not answer on {}.", plan.next_hop, plan.wan.interface.name),
            "Check the cable, the interface (--wan), the VLAN, and the router's address (--next-hop).",
        )
    })?;
    Ok((next_hop, ask(&plan.lan, &plan.neighbours)?))
}

fn facts(prepared: &Prepared, settings: &Settings) -> Value {
    let (wan, lan) = (&prepared.plan.wan, &prepared.plan.lan);
    let neighbours: BTreeMap<String, String> = prepared
        .neighbours
        .iter()
        .map(|(at, mac)| (at.to_string(), write_mac(*mac)))
        .collect();
    json!({
        "address": wan.address.ip.to_string(),
        "p4runtime": settings.grpc,
        "wan": {
            "port": 1, "mac": write_mac(wan.interface.mac), "next_hop_mac": write_mac(prepared.next_hop),
            "mtu": wan.interface.mtu.min(MTU_MAX),
        },
        "lan": {
            "port": 2, "mac": write_mac(lan.interface.mac), "address": lan.address.ip.to_string(),
            "prefix": lan.address.prefix().to_string(), "neighbours": neighbours,
            "mtu": lan.interface.mtu.min(MTU_MAX),
        },
    })
}

/// The controller's limit (proto/contract.toml).
const MTU_MAX: u32 = 9216;

fn describe(prepared: &Prepared, controller: &Controller, settings: &Settings) -> String {
    let Prepared {
        gateway,
        pool,
        plan,
        ..
    } = prepared;
    let (wan, lan) = (&plan.wan, &plan.lan);
    let taken: Vec<String> = taken(plan)
        .iter()
        .map(|(at, it)| format!("{it} on {at}"))
        .collect();
    let mut said = vec![
        format!(
            "Controller   {}, known by its fingerprint",
            controller.place.authority()
        ),
        format!(
            "Gateway      {gateway}{}",
            if prepared.exists {
                ", which exists and gets new keys"
            } else {
                ""
            }
        ),
        format!(
            "WAN          {}: {}, next hop {} ({})",
            wan.interface.name,
            wan.address,
            plan.next_hop,
            write_mac(prepared.next_hop)
        ),
        format!(
            "LAN          {}: {}, {} neighbours found",
            lan.interface.name,
            lan.address,
            prepared.neighbours.len()
        ),
        format!(
            "Pool         {pool}: the LAN's router must send packets for it to {}",
            lan.address.ip
        ),
        match &settings.grpc {
            Some(at) => format!("Controlled   at {at}, to which the controller connects"),
            None => "Controlled   over a connection that this gateway opens to the controller"
                .to_owned(),
        },
        String::new(),
        "This will:".to_owned(),
        format!("  make two keys in /etc/culvert/sluice/{gateway}; they never leave this computer"),
    ];
    if !taken.is_empty() {
        said.push(format!(
            "  take {} from the kernel: the switch has them from then on",
            taken.join(" and ")
        ));
    }
    said.push(format!(
        "  start sluice@{gateway}, now and at each start of this computer"
    ));
    said.join("\n")
}

/// Asks at the terminal; everything but yes is no.
pub fn confirm(question: &str) -> Outcome<bool> {
    print!("{question} [y/N] ");
    let failed = |cause| Fault::of_system("The answer cannot be read", &cause);
    std::io::stdout().flush().map_err(failed)?;
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(failed)?;
    Ok(matches!(
        answer.trim().to_lowercase().as_str(),
        "y" | "yes" | "j" | "ja"
    ))
}

/// The kernel's addresses on the two ports: interface and ADDRESS/LENGTH.
fn taken(plan: &Plan) -> Vec<(String, String)> {
    [&plan.wan, &plan.lan]
        .into_iter()
        .flat_map(|port| {
            port.interface
                .addresses
                .iter()
                .map(|it| (port.interface.name.clone(), it.to_string()))
        })
        .collect()
}

fn act<'a>(
    host: &'a Host,
    controller: &Controller,
    link: &Link,
    settings: &Settings,
    prepared: &Prepared,
    owner: (u32, u32),
    undo: &mut Undo<'a>,
) -> Outcome<()> {
    let name = prepared.gateway.clone();
    let joined = Joined {
        gateway: name.clone(),
        controller: controller.place.authority(),
        wan: prepared.plan.wan.interface.name.clone(),
        lan: prepared.plan.lan.interface.name.clone(),
        taken: taken(&prepared.plan),
        next_hop: prepared.plan.next_hop.to_string(),
        had_route: prepared.had_route,
    };
    let key = GatewayKey::new()?;
    let half = Half::new()?;
    let request = key.request().ok_or_else(|| unexpected("the request"))?;
    undo.add("the files in /etc/culvert/sluice", {
        let name = name.clone();
        move || host.remove(&name)
    });
    host.make_keys_directory(&name, owner)?;
    host.write_record(&joined)?;
    host.write_key(&name, KEY, key.pem.as_bytes(), owner)?;

    let answer = controller.post("gateway-joins", &json!({
        "token": link.token.as_str(), "facts": facts(prepared, settings), "csr_pem": request,
        "agreement_key": BASE64.encode(half.public()),
    }))?.done()?;
    let ca = field(&answer, "ca_pem")?;
    let told = Controller::new(link.place.clone(), &Trust::Authorities(ca.clone()))?;
    undo.add("the controller's record of the gateway", {
        let (name, pem) = (name.clone(), key.pem.clone());
        move || leave::tell(&told, &name, &pem).map(drop)
    });
    let theirs = BASE64
        .decode(field(&answer, "agreement_key")?.as_bytes())
        .ok();
    let kek = theirs
        .and_then(|it| it.try_into().ok())
        .and_then(|theirs| half.agree(&theirs, &link.token_bytes))
        .ok_or_else(|| unexpected("its key"))?;
    let fingerprint = HEXLOWER
        .decode(field(&answer, "kek_fingerprint")?.as_bytes())
        .unwrap_or_default();
    if !confirms(&kek, &fingerprint) {
        return Err(Fault::new(
            "The controller derives another key-encryption key: this link is not its own.",
            "Make a new link in the console.",
        ));
    }
    host.write_key(
        &name,
        CERTIFICATE,
        field(&answer, "certificate_pem")?.as_bytes(),
        owner,
    )?;
    host.write_key(&name, CONTROLLER_CA, ca.as_bytes(), owner)?;
    host.write_key(&name, KEK, kek.as_slice(), owner)?;
    host.write_env(&name, &environment(&joined, &answer, settings)?)?;

    undo.add("the kernel's addresses", {
        let joined = joined.clone();
        move || ports::give_back(&joined)
    });
    ports::take(&joined)?;
    undo.add("the unit", {
        let name = name.clone();
        move || host.stop(&name)
    });
    host.start(&name)?;
    let after = Controller::new(link.place.clone(), &Trust::Authorities(ca))?;
    wait_online(&after, &request, settings.patience)
}

fn environment(joined: &Joined, answer: &Value, settings: &Settings) -> Outcome<String> {
    let suites = answer["legacy_suites"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let options: Vec<String> = suites
        .iter()
        .filter_map(Value::as_str)
        .map(|it| format!("--allow-suite {it}"))
        .collect();
    let device = answer["device_id"]
        .as_u64()
        .ok_or_else(|| unexpected("its device id"))?;
    let Joined {
        gateway, wan, lan, ..
    } = joined;
    let way = match &settings.grpc {
        Some(at) => format!("P4RUNTIME=--grpc {at}"),
        None => format!("P4RUNTIME=--dial {}", field(answer, "agent_address")?),
    };
    Ok(format!(
        "# Written by culvert-gateway join for {gateway}; culvert-gateway leave removes it.\n\
         DEVICE_ID={device}\nPORTS=--port 1={wan} --port 2={lan}\n{way}\nCLIENT_NAME={}\nOPTIONS={}\n",
        field(answer, "client_name")?,
        options.join(" "),
    ))
}

fn wait_online(controller: &Controller, request: &str, patience: Duration) -> Outcome<()> {
    let end = Instant::now() + patience;
    loop {
        let why = match controller.post("gateway-states", &json!({"csr_pem": request})) {
            Ok(answer) => {
                let state = answer.done()?;
                if field(&state, "state")? == "online" {
                    return Ok(());
                }
                field(&state, "reason")?
            }
            Err(fault) => fault.what,
        };
        if Instant::now() >= end {
            return Err(Fault::new(
                format!(
                    "The controller has not seen the gateway online within {} s: {why}.",
                    patience.as_secs()
                ),
                "Check that the controller reaches the gateway, and the switch's log (journalctl -u 'sluice@*'). Then make a new link.",
            ));
        }
        sleep(Duration::from_millis(500));
    }
}

pub fn field(value: &Value, name: &str) -> Outcome<String> {
    value[name]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| unexpected(name))
}

fn unexpected(what: &str) -> Fault {
    Fault::new(
        format!("The controller's answer cannot be used: {what} is missing or wrong."),
        "Install the package culvert-gateway of the controller's version.",
    )
}

type Act<'a> = Box<dyn FnOnce() -> Outcome<()> + 'a>;

/// The acts to take back, newest last.
#[derive(Default)]
struct Undo<'a> {
    acts: Vec<(&'static str, Act<'a>)>,
}

impl<'a> Undo<'a> {
    fn add(&mut self, what: &'static str, act: impl FnOnce() -> Outcome<()> + 'a) {
        self.acts.push((what, Box::new(act)));
    }

    /// Takes all back; the fault says what could not be.
    fn run(self, fault: Fault) -> Fault {
        let mut left = Vec::new();
        for (what, act) in self.acts.into_iter().rev() {
            if let Err(why) = act() {
                left.push(format!("{what} ({})", why.what.trim_end_matches('.')));
            }
        }
        let after = if left.is_empty() {
            "Everything on this computer is as it was.".to_owned()
        } else {
            format!("Not taken back: {}.", left.join("; "))
        };
        Fault::new(format!("{}\n{after}", fault.what), fault.remedy)
    }
}
