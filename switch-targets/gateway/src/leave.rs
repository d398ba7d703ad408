//! `culvert-gateway leave`: tells the controller, stops the switch, and removes what `join` made.

use serde_json::{Value, json};

use crate::certificate::GatewayKey;
use crate::controller::{Answer, Controller, Trust};
use crate::fault::{Fault, Outcome};
use crate::host::{CONTROLLER_CA, Host, Joined, KEY};
use crate::link::Place;
use crate::ports;

/// `force`: also when the controller cannot be told.
pub fn leave(host: &Host, joined: &Joined, force: bool) -> Outcome<()> {
    let name = &joined.gateway;
    let told =
        controller_of(host, joined).and_then(|it| tell(&it, name, &host.read_key(name, KEY)?));
    match told {
        Ok(kept) if kept.is_empty() => println!("The controller has deleted the gateway {name}."),
        Ok(kept) => println!("The controller keeps the gateway {name}, which has left: {kept}."),
        Err(fault) if force => println!("The controller was not told: {}", fault.what),
        Err(fault) => {
            return Err(Fault::new(
                format!("{}\nNothing was changed.", fault.what),
                format!(
                    "{} Or leave without telling the controller: --force.",
                    fault.remedy
                ),
            ));
        }
    }
    host.stop(name)?;
    ports::give_back(host, joined)?;
    host.remove(name)?;
    println!("This computer is no gateway any more.");
    Ok(())
}

/// Has the controller forget the gateway's key. Returns why it keeps the gateway; empty: it has deleted it.
pub fn tell(controller: &Controller, name: &str, key_pem: &str) -> Outcome<String> {
    let key = GatewayKey::parse(key_pem).ok_or_else(no_key)?;
    let (request, signature) = key.request().zip(key.sign_leave(name)).ok_or_else(no_key)?;
    let body = json!({"gateway": name, "csr_pem": request, "signature": signature});
    match controller.post("gateway-leaves", &body)? {
        Answer::Done(value) => Ok(value["kept"].as_str().unwrap_or_default().to_owned()),
        Answer::Refused { reason, .. } if reason == "GATEWAY_NOT_JOINED" => Ok(String::new()),
        Answer::Refused { fault, .. } => Err(fault),
    }
}

/// The gateway's controller, by the CA that it gave.
pub fn controller_of(host: &Host, joined: &Joined) -> Outcome<Controller> {
    let ca = host.read_key(&joined.gateway, CONTROLLER_CA)?;
    let place = Place::parse(&format!("https://{}", joined.controller)).ok_or_else(no_key)?;
    Controller::new(place, &Trust::Authorities(ca))
}

/// The controller's view of the gateway: `state`, `reason`, `now`.
pub fn state(host: &Host, joined: &Joined) -> Outcome<Value> {
    let key = GatewayKey::parse(&host.read_key(&joined.gateway, KEY)?).ok_or_else(no_key)?;
    let request = key.request().ok_or_else(no_key)?;
    controller_of(host, joined)?
        .post("gateway-states", &json!({"csr_pem": request}))?
        .done()
}

pub fn no_key() -> Fault {
    Fault::new(
        "The gateway's files in /etc/culvert/sluice cannot be used.",
        "Join again with a new link.",
    )
}
