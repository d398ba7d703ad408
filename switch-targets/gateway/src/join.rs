//! `culvert-gateway join LINK`: look, show the plan, ask, act; each act can be taken back.
//!
//! ```text
//!   link ─► controller (pinned) ─► interfaces, routes, neighbours ─► checked by the controller ─► plan ─► "yes"
//!                       nothing is changed until here                                                     │
//!   record ─► folder, key ─► joined ─► certificate, KEK, settings ─► kernel's addresses ─► unit ─► online ◄┘
//!          ◄──────────────────────── taken back in reverse when one fails ────────────────────────
//! ```

use std::io::{BufRead as _, Write as _};
use std::thread::sleep;
use std::time::{Duration, Instant};

use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};

use crate::agreement::{Half, confirms};
use crate::beside::Beside;
use crate::certificate::GatewayKey;
use crate::controller::{Controller, Trust, field, unexpected};
use crate::fault::{Fault, Outcome};
use crate::host::{CERTIFICATE, CONTROLLER_CA, Host, Joined, KEK, KEY};
use crate::link::Link;
use crate::prepared::{Placement, Prepared, Settings, describe, facts, prepare, record};
use crate::return_route::{self, ReturnRoute};
use crate::{leave, ports};

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
