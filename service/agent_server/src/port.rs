//! The connections of one port: which are admitted, which are closed, and what Python logs about them.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use culvert_admission::proxy_protocol::Introduced;
use culvert_admission::{Admission, ConnectionLimits, Forwarded, Id, Log, Rate, Report};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::introduction;
use crate::news::{Board, Condition, Told};

/// After the operating system refused a connection, most likely for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval at which connections that have been silent for too long are closed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The kernel closes the connection of a peer that acknowledges nothing, or takes no byte of an answer, for so long.
pub const SILENCE: Duration = Duration::from_secs(20);
/// Connections that the kernel completes before we take them; it has a limit of its own.
const BACKLOG: i32 = 4096;

pub struct Port<N> {
    admission: Mutex<Admission<oneshot::Sender<()>>>,
    logs: Mutex<[Log; 4]>,
    forwarded: Forwarded,
    /// The load balancers that begin each connection with the PROXY protocol.
    balancers: Forwarded,
    board: Arc<Board<N>>,
}

impl<N: From<Told> + Send + 'static> Port<N> {
    pub fn new(
        limits: ConnectionLimits,
        rate: Rate,
        forwarded: Forwarded,
        balancers: Forwarded,
        board: Arc<Board<N>>,
    ) -> Self {
        Self {
            admission: Mutex::new(Admission::new(limits, rate)),
            logs: Mutex::default(),
            forwarded,
            balancers,
            board,
        }
    }

    pub fn forwarded(&self) -> &Forwarded {
        &self.forwarded
    }

    pub fn met(&self, condition: Condition) {
        let report = self.logs()[condition as usize].met(Instant::now());
        self.tell(condition, report);
    }

    fn tell(&self, condition: Condition, report: Option<Report>) {
        if let Some(report) = report {
            self.board.tell(Told { condition, report }.into());
        }
    }

    fn look(&self) {
        let now = Instant::now();
        drop(self.admission().expire(now));
        for condition in Condition::ALL {
            let report = self.logs()[condition as usize].due(now);
            if report.is_some_and(|report| report.ended) {
                // A flood has ended: its memory is free, but still with the allocator.
                culvert_pages::give_back();
            }
            self.tell(condition, report);
        }
    }

    /// A place for a new connection, whose handshake may take `patience`; the receiver resolves when the connection must end.
    fn admit(
        self: &Arc<Self>,
        peer: SocketAddr,
        patience: Duration,
    ) -> Option<(Place<N>, oneshot::Receiver<()>)> {
        let (ends, ended) = oneshot::channel();
        let (address, now) = (peer.ip().to_canonical(), Instant::now());
        let trusted = self.forwarded.trusts(address) || self.balancers.trusts(address);
        let admitted = self
            .admission()
            .admit(address, trusted, ends, now, now + patience);
        match admitted {
            Ok((id, gone)) => {
                if gone.is_some() {
                    self.met(Condition::Connections);
                }
                let port = Arc::clone(self);
                Some((Place { port, id }, ended))
            }
            Err(_) => {
                self.met(Condition::Connections);
                None
            }
        }
    }

    fn admission(&self) -> MutexGuard<'_, Admission<oneshot::Sender<()>>> {
        self.admission
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn logs(&self) -> MutexGuard<'_, [Log; 4]> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection, which is free again when this is dropped.
pub struct Place<N: From<Told> + Send + 'static> {
    port: Arc<Port<N>>,
    id: Id,
}

impl<N: From<Told> + Send + 'static> Place<N> {
    pub fn busy(&self) {
        self.port.admission().busy(self.id);
    }

    /// The connection waits for its client, for at most `patience`.
    pub fn silent(&self, patience: Duration) {
        let now = Instant::now();
        self.port.admission().silent(self.id, now, now + patience);
    }

    /// The client has shown good credentials.
    pub fn known(&self) {
        self.port.admission().refund(self.id);
    }

    pub fn port(&self) -> &Port<N> {
        &self.port
    }

    /// The address of the client, which a load balancer tells first. From then on the connection counts for that address.
    /// None for a connection that must end. The time for it is part of the handshake's.
    pub async fn introduced(
        &mut self,
        stream: &mut TcpStream,
        peer: SocketAddr,
        patience: Duration,
    ) -> Option<SocketAddr> {
        if !self.port.balancers.trusts(peer.ip().to_canonical()) {
            return Some(peer);
        }
        let Ok(introduced) = introduction::read(stream).await else {
            self.port.met(Condition::Handshakes);
            return None;
        };
        let Introduced::Client(address) = introduced else {
            return Some(peer);
        };
        let now = Instant::now();
        let trusted = self.port.forwarded.trusts(address);
        let admitted =
            self.port
                .admission()
                .introduce(self.id, address, trusted, now, now + patience);
        match admitted {
            Ok((id, gone)) => {
                self.id = id;
                if gone.is_some() {
                    self.port.met(Condition::Connections);
                }
                Some((address, peer.port()).into())
            }
            Err(_) => {
                self.port.met(Condition::Connections);
                None
            }
        }
    }
}

impl<N: From<Told> + Send + 'static> Drop for Place<N> {
    fn drop(&mut self) {
        self.port.admission().leave(self.id);
    }
}

/// A listener at that address. On `::` it accepts IPv4 as well.
pub fn listening(host: &str, port: u16) -> io::Result<std::net::TcpListener> {
    let address = (host, port).to_socket_addrs()?.next();
    let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections until `ending`. An admitted connection has `patience` for its handshake. `serve` makes the future
/// that handles the connection; the future is dropped when the connection must end.
pub async fn accept<N, F>(
    listener: TcpListener,
    port: Arc<Port<N>>,
    patience: Duration,
    mut ending: oneshot::Receiver<()>,
    mut serve: impl FnMut(TcpStream, SocketAddr, Place<N>) -> F,
) where
    N: From<Told> + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = looks.tick() => {
                port.look();
                continue;
            }
            _ = &mut ending => return,
        };
        let Ok((stream, peer)) = accepted else {
            port.met(Condition::Descriptors);
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some((place, ended)) = port.admit(peer, patience) else {
            continue;
        };
        let socket = SockRef::from(&stream);
        let prepared = socket
            .set_tcp_nodelay(true)
            .and_then(|()| socket.set_tcp_user_timeout(Some(SILENCE)));
        if prepared.is_ok() {
            let served = serve(stream, peer, place);
            tokio::spawn(async move {
                tokio::select! {
                    () = served => {}
                    _ = ended => {}
                }
            });
        }
    }
}
