//! `culvert-gateway join LINK`: look, show the plan, ask, act; each act can be taken back.
//!
//! ```text
//!   link ─► controller (pinned) ─► interfaces, routes, neighbours ─► checked by the controller ─► plan ─► "yes"
//!                       nothing is changed until here                                                     │
//!   record ─► folder, key ─► joined ─► certificate, KEK, settings ─► kernel's addresses ─► unit ─► online ◄┘
//!          ◄──────────────────────── taken back in reverse when one fails ────────────────────────
//! ```

use std::collections::BTreeSet;
use std::io::{BufRead as _, Write as _};
use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};

use crate::agreement::{Half, confirms};
use crate::beside::{self, Beside, End};
use crate::certificate::GatewayKey;
use crate::controller::{Controller, Trust};
use crate::fault::{Fault, Outcome};
use crate::host::{CERTIFICATE, CONTROLLER_CA, Host, Joined, KEK, KEY};
use crate::inline::Inline;
use crate::link::Link;
use crate::network::{Network, Prefix, way_to};
use crate::plan::{Choice, check_pool, choose};
use crate::return_route::{self, ReturnRoute};
use crate::{clock, kernel, leave, ports};

pub struct Settings {
    pub choice: Choice,
    /// The address that devices are told, if it is another than that of their packets here.
    pub public_address: Option<Ipv4Addr>,
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
    placement: Placement,
}

enum Placement {
    Inline(Inline),
    /// With the reason of the choice.
    Beside(Beside, &'static str),
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
            if let Placement::Beside(it, _) = &prepared.placement {
                say_return_route(it);
            }
            Ok(())
        }
        Err(fault) => Err(undo.run(fault)),
    }
}

/// Says which route the intranet's router needs, and whether it has it.
fn say_return_route(beside: &Beside) {
    let Beside { pool, address, .. } = beside;
    if beside.masquerade {
        return;
    }
    match return_route::ask(beside) {
        Ok(ReturnRoute::Leads) => {
            println!("The intranet's router sends packets for {pool} to this computer.");
        }
        Ok(ReturnRoute::Missing) => println!("{}", return_route::missing(beside)),
        Ok(ReturnRoute::Unknown) => println!(
            "The intranet's router answers nothing, so its route is not checked. It needs: {pool} via {address}"
        ),
        Err(fault) => println!(
            "The route {pool} via {address} of the intranet's router is not checked: {fault}"
        ),
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
    let prefix = Prefix::parse(&pool).ok_or_else(|| unexpected("its pool"))?;
    let placement = match beside::reason(&network, &settings.choice) {
        Some(why) => {
            check_pool(&network, &[], prefix)?;
            let taken: Vec<Beside> = host
                .joined()
                .into_iter()
                .filter_map(|it| it.beside)
                .collect();
            let found = beside::choose(&network, &settings.choice, prefix, &taken)?;
            kernel::check(&network, &found)?;
            Placement::Beside(found, why)
        }
        None => {
            let plan = choose(&network, &settings.choice, &to_controller)?;
            check_pool(&network, &[&plan.wan, &plan.lan], prefix)?;
            Placement::Inline(Inline::find(&network, plan)?)
        }
    };
    let exists = checked["exists"].as_bool().unwrap_or_default();
    let prepared = Prepared {
        gateway,
        pool,
        exists,
        placement,
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

fn facts(prepared: &Prepared, settings: &Settings) -> Value {
    let mut facts = match &prepared.placement {
        Placement::Inline(it) => it.facts(),
        Placement::Beside(it, _) => it.facts(),
    };
    facts["p4runtime"] = json!(settings.grpc);
    if let Some(address) = settings.public_address {
        facts["public_address"] = json!(address.to_string());
    }
    facts
}

fn describe(prepared: &Prepared, controller: &Controller, settings: &Settings) -> String {
    let Prepared {
        gateway,
        pool,
        placement,
        ..
    } = prepared;
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
    ];
    let (found, acts) = match placement {
        Placement::Inline(it) => it.describe(pool),
        Placement::Beside(it, why) => it.describe(why, settings.public_address),
    };
    said.extend(found);
    said.push(match &settings.grpc {
        Some(at) => format!("Controlled   at {at}, to which the controller connects"),
        None => {
            "Controlled   over a connection that this gateway opens to the controller".to_owned()
        }
    });
    said.push("\nThis will:".to_owned());
    said.push(format!(
        "  make two keys in /etc/culvert/sluice/{gateway}; they never leave this computer"
    ));
    said.extend(acts.into_iter().map(|it| format!("  {it}")));
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
        ..record(&prepared.placement)
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

    undo.add("the kernel's network", {
        let joined = joined.clone();
        move || ports::give_back(host, &joined)
    });
    ports::take(host, &joined)?;
    undo.add("the unit", {
        let name = name.clone();
        move || host.stop(&name)
    });
    host.start(&name)?;
    let after = Controller::new(link.place.clone(), &Trust::Authorities(ca))?;
    wait_online(&after, &request, settings.patience)
}

/// The record's part of the placement.
fn record(placement: &Placement) -> Joined {
    match placement {
        Placement::Inline(it) => Joined {
            wan: it.plan.wan.interface.name.clone(),
            lan: it.plan.lan.interface.name.clone(),
            taken: it.taken(),
            next_hop: it.plan.next_hop.to_string(),
            had_route: it.had_route,
            ..Joined::default()
        },
        Placement::Beside(it, _) => Joined {
            wan: it.name(End::SwitchWan),
            lan: it.name(End::SwitchLan),
            next_hop: it.next_hop.to_string(),
            beside: Some(it.clone()),
            ..Joined::default()
        },
    }
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
