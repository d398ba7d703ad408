//! `sluice dev`: a P4 developer's switch. It has no certificates and no keys, and serves this computer alone.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::dataplane::ports::PortArg;
use crate::process::config::ProcessArgs;

#[derive(Debug, clap::Args)]
pub struct DevArgs {
    /// The program as p4c's bmv2 back end writes it. Without it, a controller pushes one
    #[arg(requires = "p4info")]
    pub json: Option<PathBuf>,

    /// The program's P4Info, in text form
    pub p4info: Option<PathBuf>,

    /// Entries to write to the program at the start: a p4.v1.WriteRequest in text form
    #[arg(long, value_name = "FILE", requires = "json")]
    pub entries: Option<PathBuf>,

    /// A port: its number in P4 (0 to 510) and its network interface. Repeat it for each port
    #[arg(short = 'i', long = "interface", value_name = "NUMBER@INTERFACE", required = true, value_parser = port, help_heading = "Switch")]
    pub ports: Vec<PortArg>,

    /// P4Runtime device id of this switch
    #[arg(long, value_name = "ID", default_value_t = 1, help_heading = "Switch")]
    pub device_id: u64,

    #[command(flatten)]
    pub process: ProcessArgs,

    /// Address that P4Runtime is served on: a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559", value_parser = loopback, help_heading = "P4Runtime")]
    pub grpc: SocketAddr,

    /// Arguments of a gateway's switch, to be refused with the reason.
    #[arg(long = "cert", aliases = ["key", "client-ca", "client-name", "reader-name", "allow-from", "kek", "allow-suite"], hide = true)]
    pub of_gateway: Vec<String>,
}

impl DevArgs {
    /// Checks the arguments together, which the parser can't do.
    ///
    /// # Errors
    /// A text for the user.
    pub fn check(&self) -> Result<(), String> {
        if !self.of_gateway.is_empty() {
            return Err(
                "a developer's switch takes no certificates and no keys, and every program of this computer may change it. \
                 For a gateway: sluice run"
                    .into(),
            );
        }
        if self
            .process
            .metrics
            .is_some_and(|it| !it.ip().is_loopback())
        {
            return Err(format!("--metrics {}", NOT_LOOPBACK));
        }
        self.process.check(&self.ports)
    }
}

const NOT_LOOPBACK: &str = "must be on 127.0.0.1 or [::1]: a developer's switch serves this computer alone. \
                            For other hosts, with certificates: sluice run";

fn port(text: &str) -> Result<PortArg, String> {
    let (number, interface) = text
        .split_once('@')
        .ok_or("must be NUMBER@INTERFACE, for example 1@veth0")?;
    PortArg::new(number, interface, false)
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "must be ADDRESS:PORT, for example 127.0.0.1:9559")?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(NOT_LOOPBACK.into()),
    }
}
