//! Joins this computer to a Culvert controller as a gateway, and keeps it one.
//!
//! ```text
//!   main ─► join ─► prepared ─► plan, beside_plan (pure) ─► network, arp      what is here
//!        │      ├─► inline, kernel ─► ports                what the kernel keeps, and what the switch has
//!        │      └─► agreement, certificate                 keys, made here
//!        ├─► leave, renew, status, doctor                       afterwards
//!        ├─► watch ─► neighbours (pure), port ─► arp, nd, packet_socket    while the switch runs
//!        │        └─► report                               what the controller is told
//!        └── controller (TLS, JSON), host (files, units), link, clock, fault
//! ```

mod agreement;
mod arp;
mod beside;
mod beside_plan;
mod certificate;
mod clock;
mod controller;
mod doctor;
mod fault;
mod host;
mod inline;
mod join;
mod kernel;
mod leave;
mod link;
mod nd;
mod neighbours;
mod network;
mod nftables;
mod packet_socket;
mod plan;
mod port;
mod ports;
mod prepared;
mod renew;
mod report;
mod return_route;
mod status;
mod watch;

use std::io::Read as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use zeroize::Zeroizing;

use crate::fault::{Fault, Outcome};
use crate::host::{Host, Joined};
use crate::link::Link;
use crate::network::{Address, Prefix};
use crate::plan::{Choice, Ipv6Choice};

#[derive(Parser)]
#[command(
    name = "culvert-gateway",
    version,
    about = "Makes this computer a gateway of a Culvert controller"
)]
struct Arguments {
    /// The root of the file system to work in, for tests and images
    #[arg(long, global = true, hide = true, default_value = "/")]
    root: PathBuf,
    /// The program that starts units
    #[arg(long, global = true, hide = true, default_value = "systemctl")]
    systemctl: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Join with a link from the console: finds interfaces and neighbours, shows its plan, asks, and then acts
    #[command(after_help = PLACEMENTS)]
    Join(Box<JoinArguments>),
    /// Show the gateway: its switch, the controller's view, certificate, ports
    Status {
        /// The gateway; needed only if this computer has several
        gateway: Option<String>,
    },
    /// Check each part of the gateway, with the remedy of what is wrong
    Doctor {
        /// The gateway; needed only if this computer has several
        gateway: Option<String>,
    },
    /// Renew the certificate when two thirds of its time are over
    #[command(override_usage = "culvert-gateway renew [OPTIONS]\n       [GATEWAY]")]
    Renew {
        /// The gateway; needed only if this computer has several
        gateway: Option<String>,
        /// At once
        #[arg(long)]
        now: bool,
    },
    /// Stop the gateway, remove what join has made, and tell the controller
    #[command(override_usage = "culvert-gateway leave [OPTIONS]\n       [GATEWAY]")]
    Leave {
        /// The gateway; needed only if this computer has several
        gateway: Option<String>,
        /// Ask nothing
        #[arg(long)]
        yes: bool,
        /// Also when the controller cannot be told
        #[arg(long)]
        force: bool,
    },
    /// Take the ports from the kernel, at the start of the unit; beside the kernel: make them
    #[command(hide = true)]
    Ports {
        gateway: String,
        /// At the end of the unit: beside the kernel, nothing stays
        #[arg(long)]
        release: bool,
    },
    /// While the switch runs: follow its neighbours' MAC addresses; beside the kernel: keep the kernel's part
    #[command(hide = true)]
    Watch { gateway: String },
}

const BESIDE: &str = "Beside the kernel, on one interface";
const INLINE: &str = "Inline, on two interfaces of its own";

const PLACEMENTS: &str = "\
Placements:

Beside the kernel: on one interface and its address, which this computer's other services go on using. It is the default where \
there is only one interface. For example in a cloud, whose public address leads here:
  culvert-gateway join --public-address 203.0.113.7 'LINK'

Inline: on an interface towards the Internet and one towards the intranet, which the kernel gives up; by a third one this \
computer stays reachable. For example:
  culvert-gateway join --wan eth1 --lan eth2 'LINK'";

#[derive(Args)]
struct JoinArguments {
    /// The link, in quotation marks; - reads it from standard input, which needs --yes
    link: String,
    /// The interface to share; without a name, that of the default route
    #[arg(long, value_name = "INTERFACE", num_args = 0..=1, conflicts_with_all = ["wan", "lan", "lan_address", "neighbours"], help_heading = BESIDE)]
    #[expect(clippy::option_option, reason = "absent, without a name, with a name")]
    beside: Option<Option<String>>,
    /// A network that tunnels may lead to (repeat it); otherwise those that this computer has routes to
    #[arg(long, value_name = "PREFIX", value_parser = prefix, conflicts_with_all = ["wan", "lan"], help_heading = BESIDE)]
    intranet: Vec<Prefix>,
    /// Let devices appear with this computer's address, so that the intranet needs no route to the pool
    #[arg(long, conflicts_with_all = ["wan", "lan"], help_heading = BESIDE)]
    masquerade: bool,
    /// The IPv6 address that devices may send to, or none; otherwise the interface's, if it has one only
    #[arg(long, value_name = "ADDRESS|none", value_parser = ipv6, conflicts_with_all = ["wan", "lan"], help_heading = BESIDE)]
    ipv6: Option<Ipv6Choice>,
    /// The interface towards the Internet
    #[arg(long, value_name = "INTERFACE", help_heading = INLINE)]
    wan: Option<String>,
    /// The interface towards the intranet
    #[arg(long, value_name = "INTERFACE", help_heading = INLINE)]
    lan: Option<String>,
    /// The switch's address on the LAN; otherwise the one that the kernel has there
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address, help_heading = INLINE)]
    lan_address: Option<Address>,
    /// A host of the LAN to find (repeat it). In networks of up to 1,022 hosts all are looked for
    #[arg(long = "neighbour", value_name = "ADDRESS", help_heading = INLINE)]
    neighbours: Vec<Ipv4Addr>,
    /// The address that devices are told, where a router forwards its ESP and UDP 4500 to this computer
    #[arg(long, value_name = "ADDRESS")]
    public_address: Option<Ipv4Addr>,
    /// The switch's address on the WAN; otherwise the one that the kernel has there
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address)]
    wan_address: Option<Address>,
    /// The router towards the Internet; otherwise that of the kernel's default route
    #[arg(long, value_name = "ADDRESS")]
    next_hop: Option<Ipv4Addr>,
    /// Address at which the switch serves P4Runtime, for a controller that connects to it
    #[arg(long, value_name = "ADDRESS:PORT")]
    grpc: Option<String>,
    /// Ask nothing
    #[arg(long)]
    yes: bool,
    /// Seconds to wait for the controller to see the gateway online
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

fn address(text: &str) -> Result<Address, String> {
    Address::parse(text).ok_or_else(|| "must be ADDRESS/LENGTH, as 198.51.100.2/24".to_owned())
}

fn ipv6(text: &str) -> Result<Ipv6Choice, String> {
    match text {
        "none" => Ok(Ipv6Choice::Without),
        _ => text
            .parse()
            .map(Ipv6Choice::Named)
            .map_err(|_| "must be an IPv6 address, or none".to_owned()),
    }
}

fn prefix(text: &str) -> Result<Prefix, String> {
    Address::parse(text)
        .filter(|it| it.prefix().first() == it.ip)
        .map(Address::prefix)
        .ok_or_else(|| "must be a network's ADDRESS/LENGTH, as 10.20.0.0/16".to_owned())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let host = Host::new(&arguments.root, &arguments.systemctl);
    match run(&host, arguments.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything is well.
fn run(host: &Host, command: Command) -> Outcome<bool> {
    require_root()?;
    match command {
        Command::Join(asked) => {
            let link = read_link(&asked)?;
            let choice = Choice {
                wan: asked.wan,
                lan: asked.lan,
                wan_address: asked.wan_address,
                lan_address: asked.lan_address,
                next_hop: asked.next_hop,
                neighbours: asked.neighbours,
                beside: asked.beside,
                intranet: asked.intranet,
                masquerade: asked.masquerade,
                ipv6: asked.ipv6.unwrap_or_default(),
            };
            let patience = Duration::from_secs(asked.wait);
            let settings = prepared::Settings {
                choice,
                public_address: asked.public_address,
                grpc: asked.grpc,
                yes: asked.yes,
                patience,
            };
            join::join(host, &link, &settings).map(|()| true)
        }
        Command::Status { gateway } => Ok(chosen(host, gateway.as_deref())?
            .iter()
            .filter(|it| !status::status(host, it))
            .count()
            == 0),
        Command::Doctor { gateway } => Ok(chosen(host, gateway.as_deref())?
            .iter()
            .filter(|it| !doctor::doctor(host, it))
            .count()
            == 0),
        Command::Renew { gateway, now } => {
            // The timer runs this on computers without a gateway, too.
            let all = if gateway.is_none() {
                host.joined()
            } else {
                chosen(host, gateway.as_deref())?
            };
            for joined in all {
                let done = renew::renew(host, &joined, now)?;
                let said = if done {
                    "has a new certificate"
                } else {
                    "needs no new certificate yet"
                };
                println!("{} {said}.", joined.gateway);
            }
            Ok(true)
        }
        Command::Leave {
            gateway,
            yes,
            force,
        } => match chosen(host, gateway.as_deref())?.as_slice() {
            [joined] => {
                if yes || join::confirm(&format!("Tunnels through {} end. Leave?", joined.gateway))?
                {
                    leave::leave(host, joined, force)?;
                }
                Ok(true)
            }
            several => {
                let names: Vec<&str> = several.iter().map(|it| it.gateway.as_str()).collect();
                Err(Fault::new(
                    "This computer is several gateways.",
                    format!("Name one of them: {}.", names.join(", ")),
                ))
            }
        },
        Command::Ports { gateway, release } => {
            // A gateway that was set up by hand has no record, and keeps its interfaces as they are.
            let found = host.joined().into_iter().find(|it| it.gateway == gateway);
            if let Some(it) = found {
                // Inline, the kernel gets its addresses back when the gateway leaves.
                match (release, &it.beside) {
                    (false, _) => ports::take(host, &it)?,
                    (true, Some(_)) => ports::give_back(host, &it)?,
                    (true, None) => {}
                }
            }
            Ok(true)
        }
        Command::Watch { gateway } => {
            let found = host.joined().into_iter().find(|it| it.gateway == gateway);
            if let Some(it) = &found {
                watch::watch(host, it)?;
            }
            Ok(true)
        }
    }
}

/// The link, from standard input where other users could read a program's arguments, as those of a container.
fn read_link(asked: &JoinArguments) -> Outcome<Link> {
    if asked.link != "-" {
        return Link::parse(&asked.link);
    }
    if !asked.yes {
        return Err(Fault::new(
            "Standard input cannot give both the link and the answer.",
            "Add --yes, or give the link as an argument.",
        ));
    }
    let mut read = Zeroizing::new(String::new());
    std::io::stdin()
        .take(LINK_MAX)
        .read_to_string(&mut read)
        .map_err(|cause| Fault::of_system("The link cannot be read", &cause))?;
    Link::parse(&read)
}

/// Bytes of a link, with room to spare: a host's name has up to 253.
const LINK_MAX: u64 = 1024;

fn require_root() -> Outcome<()> {
    match std::fs::metadata("/proc/self") {
        Ok(it) if it.uid() != 0 => Err(Fault::new(
            "Only root may manage a gateway.",
            "Run the same command with sudo.",
        )),
        _ => Ok(()),
    }
}

/// The gateway of this name, or all of this computer.
fn chosen(host: &Host, name: Option<&str>) -> Outcome<Vec<Joined>> {
    let found: Vec<Joined> = host
        .joined()
        .into_iter()
        .filter(|it| name.is_none_or(|name| name == it.gateway))
        .collect();
    if found.is_empty() {
        let what = name.map_or("no gateway".to_owned(), |name| {
            format!("not the gateway {name}")
        });
        return Err(Fault::new(
            format!("This computer is {what}."),
            "Join with a link from the console: culvert-gateway join 'LINK'",
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _, Parser as _};

    use super::Arguments;

    #[test]
    fn the_help_of_join_names_each_placement_with_an_example() {
        let mut all = Arguments::command().term_width(100);
        all.build();
        let join = all.find_subcommand_mut("join").map(Command::render_help);
        let help = join.unwrap_or_default().to_string();
        for (heading, options) in [
            (super::BESIDE, ["--beside", "--masquerade"]),
            (super::INLINE, ["--wan <", "--neighbour"]),
        ] {
            let below = help.split(&format!("\n{heading}:\n")).nth(1);
            let block = below
                .and_then(|it| it.split("\n\n").next())
                .unwrap_or_default();
            assert!(options.iter().all(|it| block.contains(it)), "{help}");
        }
        let examples: Vec<_> = help
            .lines()
            .filter(|it| it.starts_with("  culvert-gateway"))
            .collect();
        assert_eq!(examples.len(), 2);
        for line in examples {
            let words = line.trim().split(' ').map(|it| it.trim_matches('\''));
            let parsed = Arguments::try_parse_from(words);
            assert!(parsed.is_ok(), "{line}");
        }
    }

    #[test]
    fn help_fits_into_45_columns_and_has_no_trailing_blanks() {
        let mut all = Arguments::command().term_width(45);
        all.build();
        let mut helps = vec![all.render_help().to_string()];
        for command in all.get_subcommands_mut().filter(|it| !it.is_hide_set()) {
            helps.push(command.render_help().to_string());
        }
        for line in helps.iter().flat_map(|it| it.lines()) {
            assert!(
                line.chars().count() <= 45 && line.trim_end() == line,
                "{line:?}"
            );
        }
    }
}
