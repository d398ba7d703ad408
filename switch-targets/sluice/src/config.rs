//! The command line, parsed once into what the parts need.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use esp::KEK_LEN;
use esp::{AllowedSuites, SUITES, Suite};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::admission::Prefix;
use crate::tls::{Identity, Names};

/// What a switch needs to run.
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

    /// Where P4Runtime is served, on this address alone
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "P4Runtime")]
    pub grpc: SocketAddr,

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

/// What a gateway's switch and a developer's have in common.
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

    /// Where `sluice trace --control` may ask for the ways of real packets: a Unix socket for root and this user alone
    #[arg(long, value_name = "PATH", help_heading = "Observing")]
    pub control: Option<PathBuf>,

    /// Where Prometheus metrics are served, at /metrics: neither encrypted nor authenticated, so best on loopback
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Observing")]
    pub metrics: Option<SocketAddr>,

    /// Log in JSON, one object a line. The environment variable RUST_LOG sets the level
    #[arg(long, help_heading = "Observing")]
    pub log_json: bool,
}

impl ProcessArgs {
    /// What the parser can't say about a single argument.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortArg {
    pub number: u16,
    pub interface: String,
    /// Through AF_XDP rather than a packet socket.
    pub xdp: bool,
}

/// The highest port number; 511 means drop in v1model.
const MAX_PORT: u16 = 510;
/// IFNAMSIZ without its final zero.
const MAX_INTERFACE: usize = 15;

impl FromStr for PortArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, interface) = text
            .split_once('=')
            .ok_or("must be NUMBER=INTERFACE, for example 1=wan")?;
        let (interface, xdp) = match interface.split_once(',') {
            Some((interface, "xdp")) => (interface, true),
            Some((_, way)) => return Err(format!("xdp may stand behind the comma, not {way}")),
            None => (interface, false),
        };
        Self::new(number, interface, xdp)
    }
}

impl PortArg {
    /// # Errors
    /// A text for the user.
    pub fn new(number: &str, interface: &str, xdp: bool) -> Result<Self, String> {
        let number = number.parse().ok().filter(|number| *number <= MAX_PORT);
        let number = number.ok_or_else(|| format!("the port number must be 0 to {MAX_PORT}"))?;
        if interface.is_empty() || interface.len() > MAX_INTERFACE {
            return Err(format!(
                "an interface name has 1 to {MAX_INTERFACE} characters"
            ));
        }
        Ok(Self {
            number,
            interface: interface.to_owned(),
            xdp,
        })
    }
}

impl Args {
    /// What the parser can't say about a single argument.
    ///
    /// # Errors
    /// A text for the user.
    pub fn check(&self) -> Result<(), String> {
        self.process.check(&self.ports)?;
        if self.reader_name.as_ref() == Some(&self.client_name) {
            return Err("--reader-name and --client-name are the same".into());
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
            names: Names {
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

#[derive(Debug, Error)]
pub enum KekError {
    #[error("cannot read the key-encryption key in {}: {cause}", path.display())]
    Unreadable {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("the key-encryption key in {} is open to others (mode {mode:04o}): chmod 0600 it", path.display())]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the key-encryption key in {} belongs to user {owner}, neither root nor who runs this: chown it", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{} is no key-encryption key: it must hold exactly {KEK_LEN} raw bytes", path.display())]
    WrongSize { path: PathBuf },
}

/// # Errors
/// The file can't be read, it is another user's, others may read it, or it is not 32 bytes long.
pub fn read_kek(path: &Path) -> Result<Zeroizing<[u8; KEK_LEN]>, KekError> {
    let unreadable = |cause| KekError::Unreadable {
        path: path.to_owned(),
        cause,
    };
    // A FIFO in the file's place must not hold the start.
    let mut file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let owner = metadata.uid();
    // A process owns its folder in /proc.
    if owner != 0 && owner != std::fs::metadata("/proc/self").map_err(unreadable)?.uid() {
        return Err(KekError::Foreign {
            path: path.to_owned(),
            owner,
        });
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if !matches!(mode, 0o600 | 0o400) {
        return Err(KekError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let wrong_size = || KekError::WrongSize {
        path: path.to_owned(),
    };
    if !metadata.is_file() || metadata.len() != KEK_LEN as u64 {
        return Err(wrong_size());
    }
    let mut kek = Zeroizing::new([0; KEK_LEN]);
    file.read_exact(kek.as_mut()).map_err(|_| wrong_size())?;
    Ok(kek)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn ports_parse_or_say_why_not() {
        for (text, number, xdp) in [("0=lan", 0, false), ("510=lan,xdp", 510, true)] {
            let port = PortArg {
                number,
                interface: "lan".into(),
                xdp,
            };
            assert_eq!(text.parse(), Ok(port));
        }
        for (text, reason) in [
            ("wan", "NUMBER=INTERFACE"),
            ("-1=wan", "0 to 510"),
            ("511=wan", "0 to 510"),
            ("x=wan", "0 to 510"),
            ("1=", "1 to 15 characters"),
            ("1=wan,xpd", "not xpd"),
            ("1=sixteen-letters-", "1 to 15 characters"),
        ] {
            let error = text.parse::<PortArg>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

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

    #[test]
    fn a_key_encryption_key_must_be_private_and_whole() {
        let path = std::env::temp_dir().join(format!("culvert-test-{}-kek", std::process::id()));
        let with = |bytes: &[u8], mode| {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            read_kek(&path).map(|kek| kek.to_vec())
        };
        assert_eq!(with(&[7; 32], 0o600).unwrap(), [7; 32]);
        assert_eq!(with(&[7; 32], 0o400).unwrap(), [7; 32]);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(
            with(&[7; 32], 0o640),
            Err(KekError::Exposed { mode: 0o640, .. })
        ));
        assert!(matches!(
            with(&[7; 33], 0o600),
            Err(KekError::WrongSize { .. })
        ));
        assert!(matches!(with(&[], 0o600), Err(KekError::WrongSize { .. })));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read_kek(&path), Err(KekError::Unreadable { .. })));
    }
}
