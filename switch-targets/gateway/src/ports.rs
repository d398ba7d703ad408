//! The two ports: the kernel's before `join` and after `leave`, the switch's between. Inline these are addresses, beside the
//! kernel whole links.

use crate::fault::Outcome;
use crate::host::{Host, Joined};
use crate::kernel;
use crate::network::{Network, ip};

/// Removes the kernel's addresses from the two ports, which are then the switch's alone. Runs again at each start of the
/// unit, as a network service may have set them again.
pub fn take(host: &Host, joined: &Joined) -> Outcome<()> {
    if let Some(beside) = &joined.beside {
        return kernel::apply(host, &joined.gateway, beside);
    }
    let network = Network::read()?;
    for name in [&joined.wan, &joined.lan] {
        for address in network
            .find(name)
            .map(|it| it.addresses.clone())
            .unwrap_or_default()
        {
            ip(&["address", "del", &address.to_string(), "dev", name])?;
        }
        ip(&["link", "set", name, "up"])?;
    }
    Ok(())
}

/// Gives the kernel the addresses that `join` has found there, and the default route.
pub fn give_back(host: &Host, joined: &Joined) -> Outcome<()> {
    if let Some(beside) = &joined.beside {
        return kernel::remove(host, &joined.gateway, beside);
    }
    for (name, address) in &joined.taken {
        ip(&["address", "replace", address, "dev", name])?;
    }
    if joined.had_route {
        ip(&[
            "route",
            "replace",
            "default",
            "via",
            &joined.next_hop,
            "dev",
            &joined.wan,
        ])?;
    }
    Ok(())
}
