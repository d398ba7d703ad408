//! `culvert-gateway status`: the gateway's parts, each with its state.

use std::net::IpAddr;

use serde_json::Value;

use crate::certificate::dates;
use crate::clock;
use crate::host::{CERTIFICATE, Host, Joined};
use crate::leave::state;
use crate::watch::asked_by;

pub fn status(host: &Host, joined: &Joined) -> bool {
    let Joined {
        gateway,
        controller,
        wan,
        lan,
        ..
    } = joined;
    let runs = host.runs(gateway);
    let seen = state(host, joined);
    let online = seen.as_ref().is_ok_and(|it| it["state"] == "online");
    let said = match &seen {
        Ok(it) if online => format!(
            "online since {}",
            it["since"].as_str().unwrap_or("just now")
        ),
        Ok(it) => format!("offline: {}", it["reason"].as_str().unwrap_or_default()),
        Err(fault) => format!("unknown: {}", fault.what),
    };
    let until = host
        .read_key(gateway, CERTIFICATE)
        .ok()
        .and_then(|it| dates(&it));
    println!("{gateway}");
    println!(
        "  switch       {}",
        if runs { "runs" } else { "does not run" }
    );
    println!("  controller   {controller}: {said}");
    println!(
        "  certificate  {}",
        until.map_or("unreadable".to_owned(), |(_, it)| format!(
            "until {}",
            clock::date(it)
        ))
    );
    match &joined.beside {
        None => {
            println!("  ports        1 {wan} (WAN), 2 {lan} (LAN)");
            for at in silent(seen.as_ref().ok()) {
                println!("  neighbour    {at} does not answer {}", asked_by(at));
            }
        }
        Some(it) => println!(
            "  placement    beside the kernel: {} on {}, pool {}{}",
            it.address,
            it.interface,
            it.pool,
            if it.masquerade { ", masqueraded" } else { "" }
        ),
    }
    runs && online
}

/// The neighbours that the gateway does not find, or that do not answer, as it has told the controller.
pub fn silent(seen: Option<&Value>) -> Vec<IpAddr> {
    let all = seen.and_then(|it| it["silent"].as_array());
    all.into_iter()
        .flatten()
        .filter_map(|it| it.as_str()?.parse().ok())
        .collect()
}
