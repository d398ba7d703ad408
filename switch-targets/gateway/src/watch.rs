//! `culvert-gateway watch`: keeps the kernel's part of a gateway beside it while the switch runs.
//!
//! Other programs take it away without a word: `nft flush ruleset` of a firewall's reload, a network service, `sysctl --system`.
//! The default route changes, too. What the switch's tables hold depends on none of it.

use std::thread::sleep;
use std::time::Duration;

use crate::beside::Beside;
use crate::fault::Outcome;
use crate::host::{Host, Joined};
use crate::kernel;

const PERIOD: Duration = Duration::from_secs(5);

pub fn watch(host: &Host, joined: &Joined, beside: &Beside) -> Outcome<()> {
    let name = &joined.gateway;
    loop {
        let found = kernel::difference(host, name, beside)?;
        if let Some(what) = &found {
            println!("{what}: it is made again");
            let lost = kernel::lost_links(beside);
            kernel::apply(host, name, beside)?;
            if lost {
                // The switch holds the links that are gone.
                return host.restart(name);
            }
        }
        sleep(PERIOD);
    }
}
