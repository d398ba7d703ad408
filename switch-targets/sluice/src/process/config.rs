//! The command line, parsed once into what the parts need.

use std::net::SocketAddr;
use std::path::PathBuf;

use esp::{AllowedSuites, SUITES, Suite};

use crate::connections::dial::Target;
use crate::connections::prefix::Prefix;
use crate::connections::tls::{ClientNames, Identity};
use crate::dataplane::ports::{MAX_PORT, PortArg};

/// The arguments that a switch needs to run.
// clap puts no argument into the group of a struct with a part, and takes the whole for absent then.
#[derive(Debug, clap::Args)]
#[group(args = ["device_id"])]
pub struct Args {
    /// P4Runtime device id of this switch; a controller must name the same
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Switch")]
    pub device_id: u64,

    /// A port: its number in P4 (0 to 510) and its network interface. Repeat it for each port. With `,xdp` behind it frames go past
    /// the kernel (AF_XDP): the interface must have one receive queue, and is this switch's alone
    #[arg(
        long = "port",
        value_name = "NUMBER=INTERFACE[,xdp]",
        required = true,
        help_heading = "Switch"
    )]
    pub ports: Vec<PortArg>,

    #[command(flatten)]
    pub process: ProcessArgs,

    /// Address that P4Runtime is served on, this one alone. Optional with --dial
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        required_unless_present = "dial",
        help_heading = "P4Runtime"
    )]
    pub grpc: Option<SocketAddr>,

    /// A controller's agent port, which the switch connects to and serves P4Runtime on, at each address of the name. Repeat it for
    /// each name
    #[arg(long, value_name = "HOST:PORT", help_heading = "P4Runtime")]
    pub dial: Vec<Target>,

    /// This switch's certificate chain (PEM)
    #[arg(long, value_name = "FILE", help_heading = "P4Runtime")]
    pub cert: PathBuf,

    /// The private key of --cert (PEM)
    #[arg(long, value_name = "FILE", help_heading = "P4Runtime")]
    pub key: PathBuf,

    /// The certificate authority that P4Runtime clients must come from (PEM)
    #[arg(long, value_name = "FILE", help_heading = "P4Runtime")]
    pub client_ca: PathBuf,

    /// The dNSName that a client's certificate must carry, beside the extended key usage clientAuth
    #[arg(long, value_name = "NAME", help_heading = "P4Runtime")]
    pub client_name: String,

    /// The dNSName of clients that may read everything and change nothing, likewise
    #[arg(long, value_name = "NAME", help_heading = "P4Runtime")]
    pub reader_name: Option<String>,

    /// Addresses that P4Runtime clients may come from, for example 192.0.2.0/28. Repeat it for each prefix; everywhere without one
    #[arg(long = "allow-from", value_name = "PREFIX", help_heading = "P4Runtime")]
    pub allowed_sources: Vec<Prefix>,

    /// The key-encryption key for wrapped SA keys: a file of 32 raw bytes with mode 0600 or 0400. One that replaces it is taken within
    /// seconds, and the one before stays good until the controller has it forgotten
    #[arg(long, value_name = "FILE", help_heading = "Keys")]
    pub kek: PathBuf,

    /// A legacy cipher suite that SAs may use, for example aes-cbc-hmac-sha1-96. Repeat it for each suite
    #[arg(long = "allow-suite", value_name = "NAME", value_parser = legacy_suite, help_heading = "Keys")]
    pub allowed_suites: Vec<Suite>,
}

/// The arguments that a gateway's switch and a developer's have in common.
#[derive(Debug, clap::Args)]
pub struct ProcessArgs {
    /// The port that stands for the controller: packet-outs come in there, and what is sent there is a packet-in
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_PORT)), help_heading = "Switch")]
    pub cpu_port: Option<u16>,

    /// Neither take super-frames and unfinished checksums from interfaces nor give super-frames to them (TSO, GRO, USO)
    #[arg(long, help_heading = "Switch")]
    pub no_offload: bool,

    /// Data-plane threads. Frames are dealt to them by flow, so that none overtakes another of its flow. One is best for a few flows;
    /// more take a processor each while they have work, and 8 MiB for each port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64), help_heading = "Switch")]
    pub threads: u8,

    /// Unix socket on which `sluice trace --control` may ask for the ways of real packets, for root and this user alone
    #[arg(long, value_name = "PATH", help_heading = "Observing")]
    pub control: Option<PathBuf>,

    /// Address that Prometheus metrics are served on, at /metrics: neither encrypted nor authenticated, so best on loopback
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Observing")]
    pub metrics: Option<SocketAddr>,

    /// Log in JSON, one object a line. The environment variable RUST_LOG sets the level
    #[arg(long, help_heading = "Observing")]
    pub log_json: bool,
}

impl ProcessArgs {
    /// Checks the arguments together, which the parser can't do.
    ///
    /// # Errors
    /// A text for the user.
    pub fn check(&self, ports: &[PortArg]) -> Result<(), String> {
        for (index, port) in ports.iter().enumerate() {
            if self.cpu_port == Some(port.number) {
                return Err(format!("port {} is the CPU port too", port.number));
            }
            for other in &ports[..index] {
                if other.number == port.number {
                    return Err(format!("port {} is given twice", port.number));
                }
                if other.interface == port.interface {
                    return Err(format!(
                        "interface {} is given to two ports",
                        port.interface
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Args {
    /// Checks the arguments together, which the parser can't do.
    ///
    /// # Errors
    /// A text for the user.
    pub fn check(&self) -> Result<(), String> {
        self.process.check(&self.ports)?;
        if self.reader_name.as_ref() == Some(&self.client_name) {
            return Err("--reader-name and --client-name are the same".into());
        }
        for (index, target) in self.dial.iter().enumerate() {
            if self.dial[..index].contains(target) {
                return Err(format!("--dial {target} is given twice"));
            }
        }
        Ok(())
    }

    pub fn allowed_suites(&self) -> AllowedSuites {
        self.allowed_suites.iter().copied().collect()
    }

    pub fn identity(&self) -> Identity {
        Identity {
            certificate: self.cert.clone(),
            key: self.key.clone(),
            client_ca: self.client_ca.clone(),
            names: ClientNames {
                controller: self.client_name.clone(),
                reader: self.reader_name.clone(),
            },
        }
    }
}

fn legacy_suite(name: &str) -> Result<Suite, String> {
    let suite: Suite = name.parse().map_err(|_| legacy_suites())?;
    if suite.is_legacy() {
        return Ok(suite);
    }
    Err(format!("{suite} is always allowed; {}", legacy_suites()))
}

fn legacy_suites() -> String {
    let legacy = SUITES.into_iter().filter(|suite| suite.is_legacy());
    let names: Vec<_> = legacy.map(Suite::name).collect();
    format!("the legacy suites are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_legacy_suites_need_to_be_allowed() {
        let suite = legacy_suite("null-hmac-sha256-128");
        assert_eq!(suite, Ok(Suite::NullHmacSha256));
        for name in ["aes-gcm-256", "null", ""] {
            assert!(
                legacy_suite(name)
                    .unwrap_err()
                    .contains("aes-ctr-hmac-md5-96")
            );
        }
    }
}
