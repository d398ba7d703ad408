//! sluice: reads the command line, opens the ports, serves P4Runtime until told to end.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
use sluice::config::{Args, read_kek};
use sluice::dataplane::{DataPlane, Forwarder};
use sluice::device::Device;
use sluice::packet_io::{self, PacketIo};
use sluice::ports::Port;
use sluice::{digest_pump, esp_engine, idle_pump, listener, payload_tail, server};
use sluice_pipeline::ExternRegistry;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

/// TLS connections that wait to be served.
const CONNECTIONS: usize = 16;

type Fault = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(reason) = args.check() {
        Args::command()
            .error(ErrorKind::ValueValidation, reason)
            .exit();
    }
    log_to_stderr(args.log_json);
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            tracing::error!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn log_to_stderr(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    if json { log.json().init() } else { log.init() }
}

#[tokio::main(worker_threads = 2)]
async fn run(args: &Args) -> Result<(), Fault> {
    let mut externs = ExternRegistry::new();
    esp_engine::register(&mut externs, read_kek(&args.kek)?, args.allowed_suites());
    payload_tail::register(&mut externs);
    for suite in &args.allowed_suites {
        warn!("SAs may use the legacy suite {suite}");
    }
    let tls = Arc::new(args.identity().server_config()?);
    let ports = args
        .ports
        .iter()
        .map(|port| Port::open(port, !args.no_offload))
        .collect::<Result<Vec<_>, _>>()?;
    let listener = TcpListener::bind(args.grpc)
        .await
        .map_err(|error| cannot_listen(args, &error))?;
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );

    let (learned, from_data_plane) = mpsc::channel(digest_pump::BACKLOG);
    let (packet_io, punted) = PacketIo::new(args.cpu_port)?;
    let plane = Arc::new(DataPlane::new(learned, Arc::new(packet_io)));
    let device = Arc::new(Device::new(args.device_id, Arc::clone(&plane), externs));
    let (alive, data_plane_ended) = oneshot::channel();
    let forwarder = Forwarder::start(plane, ports, alive)?;
    tokio::spawn(digest_pump::run(Arc::clone(&device), from_data_plane));
    tokio::spawn(idle_pump::run(Arc::clone(&device)));
    tokio::spawn(packet_io::run(Arc::clone(&device), punted));
    let (accepted, connections) = mpsc::channel(CONNECTIONS);
    tokio::spawn(listener::accept(listener, tls, accepted));
    let serve = server::router(device).serve_with_incoming(ReceiverStream::new(connections));

    info!(device_id = args.device_id, grpc = %args.grpc, ports = args.ports.len(), "ready");
    tokio::select! {
        served = serve => served?,
        ended = data_plane_ended => return Err(ended.map_or_else(|_| "the data plane has crashed".into(), Fault::from)),
        _ = terminate.recv() => info!("ending: SIGTERM"),
        _ = interrupt.recv() => info!("ending: SIGINT"),
    }
    drop(forwarder);
    Ok(())
}

fn cannot_listen(args: &Args, error: &std::io::Error) -> Fault {
    let remedy = match error.kind() {
        std::io::ErrorKind::AddrInUse => "another process listens there: end it, or change --grpc",
        std::io::ErrorKind::AddrNotAvailable => {
            "this host does not have the address: add it, or change --grpc"
        }
        _ => "change --grpc",
    };
    format!("cannot listen on {}: {error}. Remedy: {remedy}", args.grpc).into()
}
