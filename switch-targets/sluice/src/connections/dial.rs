//! Dials controllers, and hands over their connections to be served like those that clients open.
//!
//! ```text
//!  name ── resolved before each attempt, and every 30 s ──► an address ── TCP, TLS ──► waits for the first bytes ──► served
//!                                                               ▲                             │                        │
//!                                                               └──────── back-off ◄──────────┴────── ended ◄──────────┘
//! ```
//! Each address of a name is a controller, with a connection of its own. A controller that has several addresses is dialled at one of
//! them: its certificate shows which controller it is.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::net::sockopt;
use rustls::pki_types::{CertificateDer, ServerName};
use thiserror::Error;
use tokio::io::AsyncBufReadExt as _;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tracing::info;

use crate::condition::{Condition, Conditions};
use crate::connections::admission::Refused;
use crate::connections::backoff::Backoff;
use crate::connections::listener::{Connection, Shared, Stream, buffered};
use crate::connections::tls::{Caller, DIALLED_ALPN, Identity, TlsError};

/// Interval at which a name is resolved while its connections last: a controller may have been added.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);
/// The longest time for a name's addresses, and for TCP and TLS together.
const RESOLVED_WITHIN: Duration = Duration::from_secs(5);
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
/// Interval at which an address of a controller that another address has reached is tried again.
const SAME_AGAIN: Duration = Duration::from_secs(600);
/// The kernel asks a silent peer after this time, and then at this interval.
const SILENT: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_secs(2);
/// The kernel ends a connection whose peer has acknowledged nothing for so long. With [`SILENT`] and [`ASK_EVERY`] it notices within 11 s
/// that a NAT has forgotten the connection.
const UNANSWERED_MILLIS: u32 = 10_000;

/// A name or address, and a port, of controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// For TLS's server name indication.
    server: ServerName<'static>,
    host: String,
    port: u16,
}

impl FromStr for Target {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str =
            "must be HOST:PORT, for example vpn.example.com:8444 or [2001:db8::1]:8444";
        let (host, port) = text.rsplit_once(':').ok_or(FORM)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or(FORM)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest
                .strip_suffix(']')
                .filter(|host| host.contains(':'))
                .ok_or(FORM)?,
            None if host.contains(':') => return Err(FORM),
            None => host,
        };
        Ok(Self {
            server: ServerName::try_from(host.to_owned()).map_err(|_| FORM)?,
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(formatter, "[{}]:{}", self.host, self.port),
            false => write!(formatter, "{}:{}", self.host, self.port),
        }
    }
}

/// The cause for which an attempt, or a connection before its first bytes, has failed.
#[derive(Debug, Error)]
enum Fault {
    #[error(transparent)]
    Files(#[from] TlsError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no TLS connection within {} s", CONNECTED_WITHIN.as_secs())]
    Slow,
    #[error(
        "the peer does not speak culvert-p4runtime: it is no agent port of a controller, or an older one"
    )]
    Protocol,
    #[error(
        "the controller ended the connection: is this gateway registered there, and does it connect to the controllers?"
    )]
    Ended,
    /// Another address has reached the same controller.
    #[error("a connection to this controller is open")]
    Same,
    #[error("{0:?}")]
    Refused(Refused),
}

/// Dials every target, each with a connection to each of its addresses.
pub struct Dialler {
    identity: Identity,
    conditions: Arc<Conditions>,
    ready: mpsc::Sender<io::Result<Connection>>,
    admission: Shared,
    /// The certificates of the controllers that are connected, or about to be.
    controllers: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    ended: Notify,
}

impl Dialler {
    /// The files of `identity` are read at each attempt.
    pub fn new(
        identity: Identity,
        conditions: Arc<Conditions>,
        ready: mpsc::Sender<io::Result<Connection>>,
    ) -> Self {
        Self {
            identity,
            conditions,
            ready,
            admission: Shared::default(),
            controllers: Arc::default(),
            ended: Notify::new(),
        }
    }

    /// Runs until the receiver of `ready` is dropped.
    pub async fn dial(self, targets: Vec<Target>) {
        let ready = self.ready.clone();
        let dialler = Arc::new(self);
        let mut dialling = JoinSet::new();
        for target in targets {
            dialling.spawn(Arc::clone(&dialler).follow(target));
        }
        ready.closed().await;
    }

    /// Keeps a connection to each address of the name.
    async fn follow(self: Arc<Self>, target: Target) {
        let name = Arc::new(Name::new(target));
        let mut found = name.found.subscribe();
        let mut kept = BTreeSet::new();
        let mut keeping = JoinSet::new();
        let mut backoff = Backoff::default();
        loop {
            if let Err(error) = name.resolve().await {
                self.conditions
                    .met(Condition::Unresolved, format!("{}: {error}", name.target));
            }
            for address in name.addresses() {
                if kept.insert(address) {
                    keeping.spawn(Arc::clone(&self).keep(Arc::clone(&name), address));
                }
            }
            let pause = match kept.is_empty() {
                true => backoff.after(Duration::ZERO, random()),
                false => RESOLVE_EVERY,
            };
            found.mark_unchanged();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = found.changed() => {}
                Some(Ok(gone)) = keeping.join_next() => {
                    kept.remove(&gone);
                }
            }
        }
    }

    /// Keeps a connection to this address while the name has it. Returns the address.
    async fn keep(self: Arc<Self>, name: Arc<Name>, address: SocketAddr) -> SocketAddr {
        let mut backoff = Backoff::default();
        let mut failed = true;
        loop {
            // A name server that is down does not keep the switch from an address that it knows.
            let _ = name.resolve().await;
            if !name.addresses().contains(&address) {
                return address;
            }
            let began = Instant::now();
            let target = &name.target;
            match self.connect(target, address, failed).await {
                Ok(()) => failed = false,
                Err(Fault::Same) => {
                    failed = true;
                    tokio::select! {
                        () = self.ended.notified() => {}
                        () = tokio::time::sleep(SAME_AGAIN) => {}
                    }
                }
                Err(error) => {
                    failed = true;
                    let detail = format!("{target} ({}): {error}", address.ip());
                    self.conditions.met(Condition::Undialled, detail);
                }
            }
            tokio::time::sleep(backoff.after(began.elapsed(), random())).await;
        }
    }

    /// Connects, and returns when the connection has ended. `tell`: log that it is connected.
    async fn connect(&self, target: &Target, address: SocketAddr, tell: bool) -> Result<(), Fault> {
        let reserved = Arc::new(Mutex::new(None));
        let shaken = self.shake_hands(target, address, Arc::clone(&reserved));
        let shaken = tokio::time::timeout(CONNECTED_WITHIN, shaken).await;
        // The TLS settings have the other reference, for as long as the connection.
        let _reservation = reserved
            .lock()
            .take()
            .map(|it| Ended(Some(it), &self.ended));
        let mut stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(Fault::Slow),
        };
        if tell {
            info!(controller = %target, address = %address.ip(), "connected to a controller");
        }
        // A controller that refuses the switch's certificate says so after the switch's end of the handshake (RFC 8446, section 4.4.2).
        match stream.fill_buf().await {
            Ok(first) if !first.is_empty() => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
            Ok(_) | Err(_) => return Err(Fault::Ended),
        }
        let (alive, ended) = oneshot::channel();
        let connection = self.admit(address.ip(), stream, alive)?;
        drop(self.ready.send(Ok(connection)).await);
        let _ = ended.await;
        Ok(())
    }

    fn admit(
        &self,
        source: IpAddr,
        stream: Stream,
        alive: oneshot::Sender<()>,
    ) -> Result<Connection, Fault> {
        let (handle, dropped) = oneshot::channel();
        let mut admission = self.admission.lock();
        let (arrived, _) = admission.arrive(source, handle);
        let client = admission.admit(arrived, Caller::Controller, Instant::now());
        drop(admission);
        let client = client.map_err(Fault::Refused)?;
        let shared = Arc::clone(&self.admission);
        Ok(Connection::new(stream, client, shared, dropped).alive(alive))
    }

    async fn shake_hands(
        &self,
        target: &Target,
        address: SocketAddr,
        reserved: Arc<Mutex<Option<Reserved>>>,
    ) -> Result<Stream, Fault> {
        let controllers = Arc::clone(&self.controllers);
        let same = Arc::new(Mutex::new(false));
        let noticed = Arc::clone(&same);
        let admit = move |certificate: &CertificateDer<'_>| {
            let reservation = Reserved::take(&controllers, certificate);
            *noticed.lock() = reservation.is_none();
            let reservation = reservation.ok_or("a connection to this controller is open")?;
            *reserved.lock() = Some(reservation);
            Ok(())
        };
        let config = self.identity.client_config(Box::new(admit))?;
        let stream = TcpStream::connect(address).await?;
        watch_silence(&stream)?;
        let connector = TlsConnector::from(Arc::new(config));
        let shaken = connector.connect(target.server.clone(), stream).await;
        let stream = match shaken {
            Ok(stream) => stream,
            Err(_) if *same.lock() => return Err(Fault::Same),
            Err(error) => return Err(error.into()),
        };
        match stream.get_ref().1.alpn_protocol() == Some(DIALLED_ALPN) {
            true => Ok(buffered(stream)),
            false => Err(Fault::Protocol),
        }
    }
}

/// The place of a connected controller, by its certificate.
struct Reserved {
    controllers: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    certificate: Vec<u8>,
}

impl Reserved {
    /// None when a connection to that controller is open.
    fn take(
        controllers: &Arc<Mutex<BTreeSet<Vec<u8>>>>,
        certificate: &CertificateDer<'_>,
    ) -> Option<Self> {
        let certificate = certificate.to_vec();
        controllers
            .lock()
            .insert(certificate.clone())
            .then(|| Self {
                controllers: Arc::clone(controllers),
                certificate,
            })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.controllers.lock().remove(&self.certificate);
    }
}

/// Gives the place back, then wakes the tasks that wait for a controller's connection to end.
struct Ended<'a>(Option<Reserved>, &'a Notify);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        drop(self.0.take());
        self.1.notify_waiters();
        // For a task that is about to wait.
        self.1.notify_one();
    }
}

/// A target, and its addresses when they were last known.
struct Name {
    target: Target,
    found: watch::Sender<Vec<SocketAddr>>,
}

impl Name {
    fn new(target: Target) -> Self {
        Self {
            target,
            found: watch::Sender::new(Vec::new()),
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.found.borrow().clone()
    }

    /// On an error the addresses stay as they were.
    async fn resolve(&self) -> io::Result<()> {
        let looked = lookup_host((self.target.host.as_str(), self.target.port));
        let looked = tokio::time::timeout(RESOLVED_WITHIN, looked).await;
        let found: BTreeSet<_> = looked.map_err(|_| io::ErrorKind::TimedOut)??.collect();
        let found: Vec<_> = found.into_iter().collect();
        self.found.send_if_modified(|known| {
            let changed = *known != found;
            *known = found;
            changed
        });
        Ok(())
    }
}

/// Makes the kernel end the connection when its peer is gone.
fn watch_silence(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENT)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_user_timeout(stream, UNANSWERED_MILLIS)?;
    Ok(())
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without random bytes delays are the shortest.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u32::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn targets_parse_or_say_their_form() {
        for text in [
            "vpn.example.com:8444",
            "192.0.2.1:8444",
            "[2001:db8::1]:8444",
            "controller:1",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "vpn.example.com",
            "vpn.example.com:0",
            "vpn.example.com:65536",
            "2001:db8::1:8444",
            "[192.0.2.1]:8444",
            "[2001:db8::1:8444",
            ":8444",
            "a b:1",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_controller_has_one_place() {
        let controllers = Arc::default();
        let certificate = CertificateDer::from(vec![1]);
        let first = Reserved::take(&controllers, &certificate);
        assert!(first.is_some());
        assert!(Reserved::take(&controllers, &certificate).is_none());
        assert!(Reserved::take(&controllers, &CertificateDer::from(vec![2])).is_some());
        drop(first);
        assert!(Reserved::take(&controllers, &certificate).is_some());
    }
}
