//! Reports to the controller: what this gateway has found of its neighbours, and its address. Each is signed by the gateway's
//! key; the answer names the neighbours to follow.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::arp::Mac;
use crate::certificate::GatewayKey;
use crate::clock;
use crate::fault::{Fault, Outcome};
use crate::host::{Host, Joined, KEY};
use crate::leave::{controller_of, no_key};
use crate::neighbours::{Neighbour, Side};
use crate::network::write_mac;

/// Without news. The answer brings neighbours that an administrator has added.
const PERIOD: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(2);
/// The least time between two reports, when something changes all the time.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Beside the kernel: the address that packets to the gateway have now.
    pub address: Option<Ipv4Addr>,
    pub found: BTreeMap<Neighbour, Option<Mac>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub neighbours: BTreeSet<Neighbour>,
    /// The gateway's own addresses at each port.
    pub sources: Vec<(Side, IpAddr)>,
    /// The address that the controller has.
    pub address: Option<Ipv4Addr>,
    /// Why the controller did not take the reported address.
    pub refused: String,
}

/// Sends reports as they come, and the newest again, until their sender is gone. A fault is said once.
pub fn run(host: &Host, joined: &Joined, reports: &Receiver<Report>, answers: &Sender<Answer>) {
    let mut newest = Report::default();
    let mut wait = Duration::ZERO;
    let mut said = String::new();
    loop {
        match reports.recv_timeout(wait) {
            Ok(it) => newest = it,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Ok(it) = reports.try_recv() {
            newest = it;
        }
        match send(host, joined, &newest) {
            Ok(answer) => {
                said.clear();
                wait = PERIOD;
                if answers.send(answer).is_err() {
                    return;
                }
                sleep(PAUSE);
            }
            Err(fault) => {
                if fault.what != said {
                    println!("the controller is not told: {}", fault.what);
                    said = fault.what;
                }
                wait = RETRY;
            }
        }
    }
}

pub fn send(host: &Host, joined: &Joined, report: &Report) -> Outcome<Answer> {
    let name = &joined.gateway;
    let key = GatewayKey::parse(&host.read_key(name, KEY)?).ok_or_else(no_key)?;
    let body = body(&key, name, clock::now(), report).ok_or_else(no_key)?;
    let answer = controller_of(host, joined)?
        .post("gateway-reports", &body)?
        .done()?;
    parse(&answer).ok_or_else(|| {
        Fault::new(
            "The controller's answer to a report cannot be used.",
            "Install the package culvert-gateway of the controller's version.",
        )
    })
}

fn body(key: &GatewayKey, gateway: &str, at: i64, report: &Report) -> Option<Value> {
    let address = report.address.map(|it| it.to_string());
    let mut lines = vec![
        gateway.to_owned(),
        at.to_string(),
        address.clone().unwrap_or_else(|| "-".to_owned()),
    ];
    let mut found = [BTreeMap::new(), BTreeMap::new()];
    for ((side, at), mac) in &report.found {
        found[*side as usize].insert(at.to_string(), mac.map(write_mac));
    }
    for (side, found) in ["wan", "lan"].iter().zip(&found) {
        for (at, mac) in found {
            lines.push(format!("{side} {at} {}", mac.as_deref().unwrap_or("-")));
        }
    }
    Some(json!({
        "csr_pem": key.request()?, "gateway": gateway, "at": at, "address": address, "wan": found[0], "lan": found[1],
        "signature": key.sign_report(&lines.join("\n"))?,
    }))
}

fn parse(answer: &Value) -> Option<Answer> {
    let addresses = |name: &str| -> Option<Vec<IpAddr>> {
        let all = answer[name].as_array()?.iter();
        all.map(|it| it.as_str()?.parse().ok()).collect()
    };
    let own = |name: &str| answer[name].as_str().and_then(|it| it.parse().ok());
    let sources = [
        (Side::Wan, own("address")),
        (Side::Wan, own("address6")),
        (Side::Lan, own("lan_address")),
        (Side::Lan, own("lan_address6")),
    ];
    let wan = addresses("wan")?.into_iter().map(|it| (Side::Wan, it));
    let lan = addresses("lan")?.into_iter().map(|it| (Side::Lan, it));
    Some(Answer {
        neighbours: wan.chain(lan).collect(),
        sources: sources
            .into_iter()
            .filter_map(|(side, it)| Some((side, it?)))
            .collect(),
        address: answer["address"].as_str()?.parse().ok(),
        refused: answer["refused"].as_str()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_neighbours_and_own_addresses() {
        let answer = json!({
            "wan": ["198.51.100.1"], "lan": ["10.20.0.10", "2001:db8::10"], "address": "198.51.100.2", "address6": null,
            "lan_address": "10.20.0.1", "lan_address6": "2001:db8::1", "refused": "",
        });
        let found = parse(&answer).unwrap_or_default();
        assert_eq!(found.neighbours.len(), 3);
        assert_eq!(found.sources.len(), 3);
        assert_eq!(found.address, Some(Ipv4Addr::new(198, 51, 100, 2)));
        assert_eq!(
            parse(&json!({"wan": ["x"], "lan": [], "refused": ""})),
            None
        );
    }
}
