//! A switch from its start to its end: opens ports and listeners, moves packets, serves P4Runtime until told to end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use esp::KekRing;
use sluice_pipeline::ExternRegistry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tracing::info;

use crate::condition::Conditions;
use crate::connections::listener::Connection;
use crate::dataplane::cpu_port::{PacketIo, Punted};
use crate::dataplane::forwarder::Forwarder;
use crate::dataplane::plane::{DataPlane, Learned};
use crate::dataplane::ports::{self, PortArg};
use crate::p4runtime::state::Device;
use crate::p4runtime::{digest_pump, idle_pump, packet_io, server};
use crate::process::config::ProcessArgs;
use crate::process::metrics::{self, Source};
use crate::process::supervision;
use crate::process::trace_control::Control;

/// TCP connections that wait to be accepted by a developer's switch.
const BACKLOG: u32 = 64;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The parts that a switch is started with, a gateway's or a developer's.
pub struct Setup<'a> {
    pub device_id: u64,
    pub ports: &'a [PortArg],
    pub process: &'a ProcessArgs,
    /// None: the switch only dials.
    pub grpc: Option<SocketAddr>,
    pub externs: ExternRegistry,
    /// The key-encryption keys; none in a developer's switch.
    pub keks: Option<Arc<KekRing>>,
    pub hash_keys_refused: Arc<AtomicU64>,
}

/// A switch with everything opened, before packets run.
pub struct SwitchProcess {
    pub device: Arc<Device>,
    grpc: Option<TcpListener>,
    metrics: Option<TcpListener>,
    control: Option<Control>,
    port_args: Vec<PortArg>,
    ports: Vec<Vec<ports::Port>>,
    punted: mpsc::Receiver<Punted>,
    learned: mpsc::Receiver<Learned>,
    hash_keys_refused: Arc<AtomicU64>,
    terminate: Signal,
    interrupt: Signal,
}

impl SwitchProcess {
    /// # Errors
    /// A text with its remedy for a port, an address or the control socket.
    pub async fn open(setup: Setup<'_>) -> Result<Self, BoxError> {
        let process = setup.process;
        let threads = usize::from(process.threads);
        let ports = ports::open(setup.ports, !process.no_offload, threads)?;
        let grpc = match (setup.grpc, &setup.keks) {
            (Some(address), Some(_)) => Some(listen("--grpc", address).await?),
            (Some(address), None) => Some(listen_locally("--grpc", address)?),
            (None, _) => None,
        };
        let metrics = match (process.metrics, &setup.keks) {
            (Some(address), Some(_)) => Some(listen("--metrics", address).await?),
            (Some(address), None) => Some(listen_locally("--metrics", address)?),
            (None, _) => None,
        };
        let (terminate, interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let control = process
            .control
            .as_deref()
            .map(|path| Control::bind(path).map_err(|error| cannot_control(path, &error)))
            .transpose()?;
        let (digests, learned) = mpsc::channel(digest_pump::BACKLOG);
        let (packet_io, punted) = PacketIo::new(process.cpu_port)?;
        let plane = Arc::new(DataPlane::new(digests, Arc::new(packet_io), threads));
        let device = Device {
            keks: setup.keks,
            ..Device::new(setup.device_id, plane, setup.externs)
        };
        Ok(Self {
            device: Arc::new(device),
            grpc,
            metrics,
            control,
            port_args: setup.ports.to_vec(),
            ports,
            punted,
            learned,
            hash_keys_refused: setup.hash_keys_refused,
            terminate,
            interrupt,
        })
    }

    /// Moves packets and serves the connections that `accept` takes from the listener, or makes, until told to end.
    ///
    /// # Errors
    /// A thread of the data plane or the server has ended.
    pub async fn serve<S>(
        mut self,
        accept: impl FnOnce(
            Option<TcpListener>,
            Arc<Conditions>,
        ) -> mpsc::Receiver<std::io::Result<Connection<S>>>,
    ) -> Result<(), BoxError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let device = self.device;
        let plane = Arc::clone(&device.plane);
        let (alive, mut data_plane_ended) = mpsc::unbounded_channel();
        let conditions = Arc::new(Conditions::default());
        let controlled = self
            .control
            .map(|control| tokio::spawn(control.run(Arc::clone(&plane), Arc::clone(&conditions))));
        let forwarder = Forwarder::start(&plane, self.ports, &alive)?;
        tokio::spawn(digest_pump::run(Arc::clone(&device), self.learned));
        tokio::spawn(idle_pump::run(Arc::clone(&device)));
        tokio::spawn(packet_io::run(Arc::clone(&device), self.punted));
        let (device_id, ports) = (device.id, self.port_args.len());
        let grpc = self
            .grpc
            .as_ref()
            .map(TcpListener::local_addr)
            .transpose()?;
        let connections = accept(self.grpc, Arc::clone(&conditions));
        if let Some(listener) = self.metrics {
            let source = Source {
                device: Arc::clone(&device),
                ports: self.port_args,
                hash_keys_refused: self.hash_keys_refused,
                started: Instant::now(),
            };
            tokio::spawn(metrics::serve(
                listener,
                Arc::new(source),
                Arc::clone(&conditions),
            ));
        }
        tokio::spawn(async move { conditions.sum_up().await });
        tokio::spawn(supervision::watch(plane));
        let serve = server::router(device)?.serve_with_incoming(ReceiverStream::new(connections));

        info!(device_id, grpc = grpc.map(display), ports, "ready");
        supervision::ready();
        tokio::select! {
            served = serve => served?,
            ended = data_plane_ended.recv() => return Err(ended.map_or_else(|| "the data plane has crashed".into(), BoxError::from)),
            _ = self.terminate.recv() => info!("ending: SIGTERM"),
            _ = self.interrupt.recv() => info!("ending: SIGINT"),
        }
        supervision::ending();
        drop(forwarder);
        if let Some(controlled) = controlled {
            controlled.abort();
            let _ = controlled.await;
        }
        Ok(())
    }
}

fn cannot_control(path: &std::path::Path, error: &std::io::Error) -> BoxError {
    format!(
        "cannot make the control socket {}: {error}. Remedy: change --control to a path in a folder of root's that nothing else has",
        path.display()
    )
    .into()
}

async fn listen(option: &str, address: SocketAddr) -> Result<TcpListener, BoxError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(cannot_listen(option, address))
}

/// Listens on the loopback interface, so that no setting of the kernel (`route_localnet`) lets other hosts in.
fn listen_locally(option: &str, address: SocketAddr) -> Result<TcpListener, BoxError> {
    let listener = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.bind_device(Some(b"lo"))?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listener().map_err(cannot_listen(option, address))
}

fn cannot_listen(option: &str, address: SocketAddr) -> impl Fn(std::io::Error) -> BoxError {
    move |error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another process listens there: end it, or change",
            std::io::ErrorKind::AddrNotAvailable => {
                "this host does not have the address: add it, or change"
            }
            _ => "change",
        };
        format!("cannot listen on {address}: {error}. Remedy: {remedy} {option}").into()
    }
}
