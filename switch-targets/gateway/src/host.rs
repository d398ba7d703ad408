//! This computer's files and units of gateways.
//!
//! ```text
//!   /etc/culvert/sluice/NAME.env        the unit's settings
//!   /etc/culvert/sluice/NAME.json       what was joined: controller, ports, addresses taken from the kernel; no secret
//!   /etc/culvert/sluice/NAME/           0700, the user sluice's: gateway.key, gateway.pem, controller-ca.pem, kek.bin, each 0600
//! ```

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::beside::Beside;
use crate::fault::{Fault, Outcome};

const USER: &str = "sluice";
const RENEWAL: &str = "culvert-gateway-renew.timer";
pub const KEY: &str = "gateway.key";
pub const CERTIFICATE: &str = "gateway.pem";
pub const CONTROLLER_CA: &str = "controller-ca.pem";
pub const KEK: &str = "kek.bin";

pub struct Host {
    pub root: PathBuf,
    systemctl: String,
}

/// The gateway's record: `NAME.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    pub gateway: String,
    /// HOST:PORT of the controller's REST port.
    pub controller: String,
    pub wan: String,
    pub lan: String,
    /// Addresses that the kernel had on the two ports: interface and ADDRESS/LENGTH.
    pub taken: Vec<(String, String)>,
    pub next_hop: String,
    /// Whether the kernel had a default route through the WAN, which ended with its address there.
    pub had_route: bool,
    /// Set: beside the kernel. Then `wan` and `lan` are links of its own, and nothing was taken.
    pub beside: Option<Beside>,
}

impl Joined {
    fn write(&self) -> String {
        let taken: Vec<Value> = self.taken.iter().map(|(at, it)| json!([at, it])).collect();
        json!({
            "gateway": self.gateway, "controller": self.controller, "wan": self.wan, "lan": self.lan,
            "taken": taken, "next_hop": self.next_hop, "had_route": self.had_route,
            "beside": self.beside.as_ref().map(Beside::write),
        })
        .to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let field = |name: &str| value[name].as_str().map(str::to_owned);
        let pair = |it: &Value| Some((it[0].as_str()?.to_owned(), it[1].as_str()?.to_owned()));
        Some(Self {
            gateway: field("gateway")?,
            controller: field("controller")?,
            wan: field("wan")?,
            lan: field("lan")?,
            taken: value["taken"]
                .as_array()?
                .iter()
                .map(pair)
                .collect::<Option<_>>()?,
            next_hop: field("next_hop")?,
            had_route: value["had_route"].as_bool()?,
            beside: match &value["beside"] {
                Value::Null => None,
                beside => Some(Beside::parse(beside)?),
            },
        })
    }
}

impl Host {
    pub fn new(root: &Path, systemctl: &str) -> Self {
        Self {
            root: root.to_owned(),
            systemctl: systemctl.to_owned(),
        }
    }

    fn directory(&self) -> PathBuf {
        self.root.join("etc/culvert/sluice")
    }

    pub fn env(&self, name: &str) -> PathBuf {
        self.directory().join(format!("{name}.env"))
    }

    pub fn record(&self, name: &str) -> PathBuf {
        self.directory().join(format!("{name}.json"))
    }

    pub fn keys(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    pub fn switch(&self) -> PathBuf {
        self.root.join("usr/bin/sluice")
    }

    /// Whether the switch can connect to the controller, by its own help.
    pub fn switch_dials(&self) -> bool {
        let help = Command::new(self.switch()).args(["run", "--help"]).output();
        help.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("--dial"))
    }

    /// Uid and gid of the user that the switch runs as.
    pub fn owner(&self) -> Outcome<(u32, u32)> {
        let users = fs::read_to_string(self.root.join("etc/passwd")).unwrap_or_default();
        let of = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields.first() == Some(&USER))
                .then(|| Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?)))?
        };
        users.lines().find_map(of).ok_or_else(|| {
            Fault::new(
                format!("This computer has no user {USER}, as which the switch runs."),
                "Install the package culvert-gateway again, which makes it (systemd-sysusers).",
            )
        })
    }

    pub fn make_keys_directory(&self, name: &str, owner: (u32, u32)) -> Outcome<()> {
        let directory = self.keys(name);
        let failed =
            |cause| Fault::of_system(format!("{} cannot be made", directory.display()), &cause);
        fs::create_dir_all(self.directory()).map_err(failed)?;
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(failed)?;
        chown(&directory, Some(owner.0), Some(owner.1)).map_err(failed)
    }

    /// Replaces a file of the folder of keys: complete or absent, readable by its owner alone.
    pub fn write_key(
        &self,
        name: &str,
        file: &str,
        content: &[u8],
        owner: (u32, u32),
    ) -> Outcome<()> {
        write(&self.keys(name).join(file), content, 0o600, Some(owner))
    }

    pub fn write_env(&self, name: &str, content: &str) -> Outcome<()> {
        write(&self.env(name), content.as_bytes(), 0o644, None)
    }

    pub fn write_record(&self, joined: &Joined) -> Outcome<()> {
        write(
            &self.record(&joined.gateway),
            joined.write().as_bytes(),
            0o644,
            None,
        )
    }

    pub fn read_key(&self, name: &str, file: &str) -> Outcome<String> {
        let path = self.keys(name).join(file);
        fs::read_to_string(&path)
            .map_err(|cause| Fault::of_system(format!("{} cannot be read", path.display()), &cause))
    }

    /// The gateways that have joined from here.
    pub fn joined(&self) -> Vec<Joined> {
        let Ok(files) = fs::read_dir(self.directory()) else {
            return Vec::new();
        };
        let mut found: Vec<Joined> = files
            .flatten()
            .filter(|it| it.path().extension().is_some_and(|it| it == "json"))
            .filter_map(|it| Joined::parse(&fs::read_to_string(it.path()).ok()?))
            .collect();
        found.sort_by(|a, b| a.gateway.cmp(&b.gateway));
        found
    }

    /// Removes the gateway's files. Absent ones are no fault.
    pub fn remove(&self, name: &str) -> Outcome<()> {
        let of = |path: &Path, done: std::io::Result<()>| match done {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(Fault::of_system(
                format!("{} cannot be removed", path.display()),
                &cause,
            )),
            _ => Ok(()),
        };
        let keys = self.keys(name);
        of(&keys, fs::remove_dir_all(&keys))?;
        for file in [self.env(name), self.record(name)] {
            of(&file, fs::remove_file(&file))?;
        }
        Ok(())
    }

    /// Starts the switch, and the daily renewal of certificates, now and at each start of this computer.
    pub fn start(&self, name: &str) -> Outcome<()> {
        self.unit(&["enable", "--now"], RENEWAL)?;
        self.unit(&["enable", "--now"], &switch_of(name))
    }

    pub fn stop(&self, name: &str) -> Outcome<()> {
        self.unit(&["disable", "--now"], &switch_of(name))?;
        if self.joined().iter().any(|it| it.gateway != name) {
            return Ok(());
        }
        self.unit(&["disable", "--now"], RENEWAL)
    }

    pub fn restart(&self, name: &str) -> Outcome<()> {
        self.unit(&["try-restart", "--no-block"], &switch_of(name))
    }

    pub fn runs(&self, name: &str) -> bool {
        self.unit(&["is-active", "--quiet"], &switch_of(name))
            .is_ok()
    }

    pub fn watches(&self, name: &str) -> bool {
        self.unit(
            &["is-active", "--quiet"],
            &format!("culvert-gateway-watch@{name}.service"),
        )
        .is_ok()
    }

    fn unit(&self, verb: &[&str], unit: &str) -> Outcome<()> {
        let run = Command::new(&self.systemctl).args(verb).arg(unit).output();
        let run = run.map_err(|cause| {
            Fault::of_system(format!("{} cannot be run", self.systemctl), &cause)
        })?;
        if run.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&run.stderr).trim().to_owned();
        Err(Fault::new(
            format!("systemctl {} {unit} failed: {why}", verb.join(" ")),
            format!("See why: journalctl -u {unit}"),
        ))
    }
}

fn switch_of(name: &str) -> String {
    format!("sluice@{name}.service")
}

fn write(path: &Path, content: &[u8], mode: u32, owner: Option<(u32, u32)>) -> Outcome<()> {
    let fresh = path.with_file_name(format!(
        ".{}.{}",
        path.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    let done = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&fresh)?;
        if let Some((user, group)) = owner {
            chown(&fresh, Some(user), Some(group))?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    done().map_err(|cause| {
        let _ = fs::remove_file(&fresh);
        Fault::of_system(format!("{} cannot be written", path.display()), &cause)
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::network::Prefix;

    #[test]
    fn a_record_survives_its_file() {
        let joined = Joined {
            gateway: "gw-berlin".to_owned(),
            controller: "vpn.example.org:8443".to_owned(),
            wan: "eth1".to_owned(),
            lan: "eth2".to_owned(),
            taken: vec![("eth1".to_owned(), "198.51.100.2/24".to_owned())],
            next_hop: "198.51.100.1".to_owned(),
            had_route: true,
            beside: None,
        };
        assert_eq!(Joined::parse(&joined.write()), Some(joined.clone()));
        let beside = Beside {
            number: 1,
            interface: "eth0".to_owned(),
            address: Ipv4Addr::new(10, 20, 0, 5),
            next_hop: Ipv4Addr::new(10, 20, 0, 1),
            mtu: 1500,
            pool: Prefix::new(Ipv4Addr::new(10, 99, 0, 0), 24),
            intranet: vec![Prefix::new(Ipv4Addr::new(10, 20, 0, 0), 16)],
            inward: vec!["eth0".to_owned()],
            masquerade: true,
            outer6: Some(crate::beside::Outer6 {
                address: std::net::Ipv6Addr::LOCALHOST,
                next_hop: std::net::Ipv6Addr::LOCALHOST,
            }),
        };
        let joined = Joined {
            beside: Some(beside),
            ..joined
        };
        assert_eq!(Joined::parse(&joined.write()), Some(joined));
        assert_eq!(Joined::parse("{}"), None);
    }
}
