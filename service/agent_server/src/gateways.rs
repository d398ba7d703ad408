//! Gateways that connect to the controller: which may, the connection of each, and how Python takes it.
//!
//! ```text
//!  gateway ── TLS, ALPN culvert-p4runtime ──► waits ── Python connects to its Unix socket ──► bytes are copied, both ways
//!                                               ▲                                                  │
//!                   a newer one of this gateway replaces it, and the gateway's removal ends it ────┘
//! ```
//! Each connection has a Unix socket of its own, for one client: HTTP/2 cannot be begun twice on a connection.

use std::collections::HashMap;
use std::fs::{Permissions, remove_file, set_permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncBufReadExt as _, BufReader, copy, split};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio_rustls::server::TlsStream;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::news::{Board, GatewayNews, News};

/// The protocol of a connection whose dialling end is the HTTP/2 server.
pub const ALPN: &[u8] = b"culvert-p4runtime";
/// The kernel asks a silent gateway after this time, and then at this interval; it ends a connection whose gateway has acknowledged
/// nothing for the last of these.
const SILENT: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_secs(2);
const UNANSWERED: Duration = Duration::from_secs(10);
/// A registration may be so much younger than its gateway's certificate says, because clocks differ and certificates are backdated.
const EARLIER_SECONDS: i64 = 600;
/// Unread bytes of a gateway that speaks first, as an HTTP/2 server may.
const EARLY: usize = 1024;

pub struct Gateways {
    directory: PathBuf,
    board: Arc<Board<News>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When each gateway was registered, in Unix time.
    registered: HashMap<String, i64>,
    connected: HashMap<String, Connected>,
    next: u64,
}

struct Connected {
    number: u64,
    /// Resolves the connection's `ended` when it is dropped.
    _ends: oneshot::Sender<()>,
}

impl std::fmt::Debug for Gateways {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Gateways").finish_non_exhaustive()
    }
}

impl Gateways {
    /// `directory`: of this process alone, for the sockets.
    pub fn new(directory: PathBuf, board: Arc<Board<News>>) -> Self {
        Self {
            directory,
            board,
            state: Mutex::default(),
        }
    }

    /// Lets these gateways connect, each with the time of its registration, and ends the connections of all others.
    pub fn register(&self, registered: HashMap<String, i64>) {
        let mut state = self.state();
        let State {
            registered: before,
            connected,
            ..
        } = &mut *state;
        connected.retain(|name, _| {
            registered.contains_key(name) && registered.get(name) == before.get(name)
        });
        *before = registered;
    }

    /// The gateway's name in a certificate whose chain and use are verified.
    ///
    /// # Errors
    /// The reason for which no registered gateway may connect with it.
    pub fn name(&self, certificate: &CertificateDer<'_>) -> Result<String, &'static str> {
        let (_, certificate) =
            X509Certificate::from_der(certificate).map_err(|_| "it is not readable")?;
        let names = certificate
            .subject_alternative_name()
            .ok()
            .flatten()
            .ok_or("it has no name")?;
        let [GeneralName::DNSName(name)] = names.value.general_names[..] else {
            return Err("it has not one name");
        };
        let state = self.state();
        let registered = state
            .registered
            .get(name)
            .ok_or("no registered gateway that connects itself has its name")?;
        // The certificate of a gateway of the same name that was deleted.
        let from = certificate.validity().not_before.timestamp();
        if from.saturating_add(EARLIER_SECONDS) < *registered {
            return Err("it is older than its gateway's registration");
        }
        Ok(name.to_owned())
    }

    /// Takes a new connection of that gateway, in place of an older one; the receiver resolves when it must end.
    fn connect(&self, name: &str) -> Option<(u64, oneshot::Receiver<()>)> {
        let (ends, ended) = oneshot::channel();
        let mut state = self.state();
        // It may have been removed since the handshake.
        if !state.registered.contains_key(name) {
            return None;
        }
        state.next += 1;
        let connected = Connected {
            number: state.next,
            _ends: ends,
        };
        let number = connected.number;
        state.connected.insert(name.to_owned(), connected);
        Some((number, ended))
    }

    fn leave(&self, name: &str, number: u64) {
        let mut state = self.state();
        if state
            .connected
            .get(name)
            .is_some_and(|it| it.number == number)
        {
            state.connected.remove(name);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a verified gateway's connection until its end.
    pub async fn serve(self: Arc<Self>, name: String, stream: TlsStream<TcpStream>) {
        let Some((number, ended)) = self.connect(&name) else {
            return;
        };
        let path = self.directory.join(number.to_string());
        let news = |connected| {
            News::Gateway(GatewayNews {
                name: name.clone(),
                path: path.clone(),
                connected,
            })
        };
        let listened = watch_silence(stream.get_ref().0).and_then(|()| Offered::new(&path));
        if let Ok(offered) = listened {
            self.board.tell(news(true));
            tokio::select! {
                () = pass(stream, offered) => {}
                _ = ended => {}
            }
            self.board.tell(news(false));
        }
        self.leave(&name, number);
    }
}

/// A Unix socket for one client, which must be this process.
struct Offered {
    listener: UnixListener,
    path: PathBuf,
}

impl Offered {
    fn new(path: &Path) -> io::Result<Self> {
        let offered = Self {
            listener: UnixListener::bind(path)?,
            path: path.to_owned(),
        };
        set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(offered)
    }

    async fn accept(&self) -> io::Result<UnixStream> {
        let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred()?.pid() == Some(own) {
                return Ok(stream);
            }
        }
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        let _ = remove_file(&self.path);
    }
}

/// Waits for Python, then copies bytes until one end closes: HTTP/2 has no use for half of a connection.
async fn pass(stream: TlsStream<TcpStream>, offered: Offered) {
    let mut stream = BufReader::with_capacity(EARLY, stream);
    let accepted = {
        let accept = offered.accept();
        tokio::pin!(accept);
        tokio::select! {
            accepted = &mut accept => accepted,
            spoken = stream.fill_buf() => match spoken {
                Ok(bytes) if !bytes.is_empty() => accept.await,
                _ => return,
            },
        }
    };
    drop(offered);
    let Ok(accepted) = accepted else {
        return;
    };
    let (mut from_gateway, mut to_gateway) = split(stream);
    let (mut from_python, mut to_python) = accepted.into_split();
    tokio::select! {
        _ = copy(&mut from_gateway, &mut to_python) => {}
        _ = copy(&mut from_python, &mut to_gateway) => {}
    }
}

fn watch_silence(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(SILENT)
        .with_interval(ASK_EVERY);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNANSWERED))
}
