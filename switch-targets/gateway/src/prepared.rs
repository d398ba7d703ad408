//! Everything that `join` knows before it changes anything: the placement, checked by the controller, and its description.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::beside::{Beside, End};
use crate::controller::{Controller, field, unexpected};
use crate::fault::{Fault, Outcome};
use crate::host::{Host, Joined};
use crate::inline::Inline;
use crate::link::Link;
use crate::network::{Network, Prefix, way_to};
use crate::plan::{Choice, check_pool, choose};
use crate::{beside_plan, clock, kernel};

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
pub struct Prepared {
    pub gateway: String,
    pub pool: String,
    pub exists: bool,
    pub placement: Placement,
}

pub enum Placement {
    Inline(Inline),
    /// With the reason of the choice.
    Beside(Beside, &'static str),
}

pub fn prepare(
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
    let placement = match beside_plan::reason(&network, &settings.choice) {
        Some(why) => {
            check_pool(&network, &[], prefix)?;
            let taken: Vec<Beside> = host
                .joined()
                .into_iter()
                .filter_map(|it| it.beside)
                .collect();
            let found = beside_plan::choose(&network, &settings.choice, prefix, &taken)?;
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

pub fn facts(prepared: &Prepared, settings: &Settings) -> Value {
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

pub fn describe(prepared: &Prepared, controller: &Controller, settings: &Settings) -> String {
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

/// The record's part of the placement.
pub fn record(placement: &Placement) -> Joined {
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
