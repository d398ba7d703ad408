//! sluice: reads the command line, opens the ports, serves P4Runtime until told to end.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
use esp::{AllowedSuites, Kek, KekRing};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{self, DumpableBehavior, Resource, Rlimit};
use sluice::command::{Command, CommandLine, ProgramArgs, TraceArgs, unhex};
use sluice::condition::Conditions;
use sluice::config::{Args, KEK_LEN, read_kek};
use sluice::dataplane::DataPlane;
use sluice::device::Device;
use sluice::forwarder::Forwarder;
use sluice::listener::Port;
use sluice::metrics::{self, Source};
use sluice::packet_io::{self, PacketIo};
use sluice::ports;
use sluice::trace::control::{self, Control};
use sluice::trace::offline::{Bench, packets};
use sluice::trace::render;
use sluice::{
    digest_pump, esp_engine, idle_pump, kek, packet_hash, payload_tail, server, supervision,
};
use sluice_pipeline::ExternRegistry;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

/// TLS connections that wait to be served.
const CONNECTIONS: usize = 16;

type Fault = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let done = match (line.command, line.run) {
        (Some(Command::Trace(args)), _) => trace(&args),
        (Some(Command::Check(args)), _) => check(&args),
        (Some(Command::Run(args)), _) | (None, Some(args)) => {
            if let Err(reason) = args.check() {
                CommandLine::command()
                    .error(ErrorKind::ValueValidation, reason)
                    .exit();
            }
            log_to_stderr(args.log_json);
            return match run(&args) {
                Ok(()) => ExitCode::SUCCESS,
                Err(fault) => {
                    tracing::error!("{fault}");
                    ExitCode::FAILURE
                }
            };
        }
        (None, None) => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads has read enough.
        Err(fault) if broken_pipe(fault.as_ref()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("sluice: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn broken_pipe(fault: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let cause = fault.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The externs of a switch whose keys nobody has: what needs one says so in its verdict.
fn externs_without_keys() -> ExternRegistry {
    let mut externs = ExternRegistry::new();
    let keks = Arc::new(Kek::from_bytes(&[0; KEK_LEN]).into());
    esp_engine::register(&mut externs, Arc::clone(&keks), AllowedSuites::MODERN);
    packet_hash::register(&mut externs, keks);
    payload_tail::register(&mut externs);
    externs
}

fn check(args: &ProgramArgs) -> Result<(), Fault> {
    let bench = Bench::load(&args.json, &args.p4info, externs_without_keys())?;
    let contents = bench.contents();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{}: {} tables, {} counters, {} digests",
        args.json.display(),
        contents.tables.len(),
        contents.counters,
        contents.digests
    )?;
    for table in contents.tables {
        writeln!(out, "  table {table}")?;
    }
    Ok(())
}

fn trace(args: &TraceArgs) -> Result<(), Fault> {
    let mut out = std::io::stdout().lock();
    if let Some(control) = &args.control {
        let mut stream = UnixStream::connect(control).map_err(|error| {
            format!(
                "cannot ask {}: {error}. Remedy: name the --control of a switch that runs, as root or its user",
                control.display()
            )
        })?;
        stream.write_all(control::request(&args.filter(), args.format).as_bytes())?;
        let mut stream = BufReader::new(stream);
        let mut answer = String::new();
        stream.read_line(&mut answer)?;
        if answer.trim_end() != control::TAKEN {
            return Err(answer.trim_end().into());
        }
        std::io::copy(&mut stream, &mut out)?;
        return Ok(());
    }
    let (Some(json), Some(p4info), Some(port)) = (&args.json, &args.p4info, args.port) else {
        return Err("name a program and a port: --json, --p4info and --port".into());
    };
    let filter = args.filter();
    let mut bench = Bench::load(json, p4info, externs_without_keys())?;
    if let Some(entries) = &args.entries {
        bench.write(entries)?;
    }
    let mut number = 0;
    for packet in &args.packets {
        let frames = match unhex(packet) {
            Some(frame) => vec![frame],
            None => packets(packet.as_ref())?,
        };
        for frame in frames {
            number += 1;
            if !filter.takes(port, &frame) {
                continue;
            }
            let explained = bench.explain(port, &frame);
            if !filter.wants(&explained.steps) {
                continue;
            }
            out.write_all(render(args.format, number, &explained).as_bytes())?;
        }
    }
    Ok(())
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

/// Keeps keys out of core files and of swap space, and from debuggers of the same user.
fn keep_memory_private() -> std::io::Result<()> {
    process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    process::setrlimit(Resource::Core, none)?;
    if !lock_memory()? {
        warn!(
            "keys in memory can reach the swap space: the system does not let this process lock its memory. Set \
             LimitMEMLOCK=infinity in its unit, or encrypt the swap space"
        );
    }
    Ok(())
}

/// Locks all pages, also those that come later. Where a limit counts, it locks none and returns false: at the limit each
/// later allocation would fail.
fn lock_memory() -> std::io::Result<bool> {
    let before = process::getrlimit(Resource::Memlock);
    // Under a limit of 0, mlockall succeeds only with CAP_IPC_LOCK, and for such a process no limit counts.
    let limit = before.maximum.map(|_| 0);
    let trial = Rlimit {
        current: limit,
        maximum: before.maximum,
    };
    process::setrlimit(Resource::Memlock, trial)?;
    let pages = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    let locked = mlockall(pages).is_ok();
    if limit.is_some() {
        process::setrlimit(Resource::Memlock, before)?;
    }
    Ok(locked)
}

#[tokio::main(worker_threads = 2)]
async fn run(args: &Args) -> Result<(), Fault> {
    keep_memory_private()?;
    let mut externs = ExternRegistry::new();
    let keks: Arc<KekRing> = Arc::new(Kek::from_bytes(&*read_kek(&args.kek)?).into());
    esp_engine::register(&mut externs, Arc::clone(&keks), args.allowed_suites());
    let hash_keys_refused = packet_hash::register(&mut externs, Arc::clone(&keks));
    payload_tail::register(&mut externs);
    for suite in &args.allowed_suites {
        warn!("SAs may use the legacy suite {suite}");
    }
    let identity = args.identity();
    let (serving, tls) = watch::channel(Arc::new(identity.server_config()?));
    let threads = usize::from(args.threads);
    let ports = ports::open(&args.ports, !args.no_offload, threads)?;
    let listener = listen("--grpc", args.grpc).await?;
    let metrics = match args.metrics {
        Some(address) => Some(listen("--metrics", address).await?),
        None => None,
    };
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );

    let control = args
        .control
        .as_deref()
        .map(|path| Control::bind(path).map_err(|error| cannot_control(path, &error)))
        .transpose()?;

    let (learned, from_data_plane) = mpsc::channel(digest_pump::BACKLOG);
    let (packet_io, punted) = PacketIo::new(args.cpu_port)?;
    let plane = Arc::new(DataPlane::new(learned, Arc::new(packet_io), threads));
    let device = Arc::new(Device {
        keks: Some(Arc::clone(&keks)),
        ..Device::new(args.device_id, Arc::clone(&plane), externs)
    });
    let (alive, mut data_plane_ended) = mpsc::unbounded_channel();
    let conditions = Arc::new(Conditions::default());
    let controlled = control
        .map(|control| tokio::spawn(control.run(Arc::clone(&plane), Arc::clone(&conditions))));
    let forwarder = Forwarder::start(&plane, ports, &alive)?;
    tokio::spawn(digest_pump::run(Arc::clone(&device), from_data_plane));
    tokio::spawn(idle_pump::run(Arc::clone(&device)));
    tokio::spawn(kek::follow(args.kek.clone(), keks));
    tokio::spawn(packet_io::run(Arc::clone(&device), punted));
    let (accepted, connections) = mpsc::channel(CONNECTIONS);
    let port = Port {
        listener,
        config: tls,
        names: identity.names.clone(),
        allowed: args.allowed_sources.clone(),
        conditions: Arc::clone(&conditions),
    };
    tokio::spawn(identity.follow(serving));
    tokio::spawn(port.accept(accepted));
    if let Some(listener) = metrics {
        let source = Source {
            device: Arc::clone(&device),
            ports: args.ports.clone(),
            hash_keys_refused,
            started: Instant::now(),
        };
        tokio::spawn(metrics::serve(
            listener,
            Arc::new(source),
            Arc::clone(&conditions),
        ));
    }
    tokio::spawn(async move { conditions.sum_up().await });
    tokio::spawn(supervision::watch(Arc::clone(&device.plane)));
    let serve = server::router(device)?.serve_with_incoming(ReceiverStream::new(connections));

    info!(device_id = args.device_id, grpc = %args.grpc, ports = args.ports.len(), "ready");
    supervision::ready();
    tokio::select! {
        served = serve => served?,
        ended = data_plane_ended.recv() => return Err(ended.map_or_else(|| "the data plane has crashed".into(), Fault::from)),
        _ = terminate.recv() => info!("ending: SIGTERM"),
        _ = interrupt.recv() => info!("ending: SIGINT"),
    }
    supervision::ending();
    drop(forwarder);
    if let Some(controlled) = controlled {
        controlled.abort();
        let _ = controlled.await;
    }
    Ok(())
}

fn cannot_control(path: &std::path::Path, error: &std::io::Error) -> Fault {
    format!(
        "cannot make the control socket {}: {error}. Remedy: change --control to a path in a folder of root's that nothing else has",
        path.display()
    )
    .into()
}

async fn listen(option: &str, address: SocketAddr) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).await.map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another process listens there: end it, or change",
            std::io::ErrorKind::AddrNotAvailable => {
                "this host does not have the address: add it, or change"
            }
            _ => "change",
        };
        format!("cannot listen on {address}: {error}. Remedy: {remedy} {option}").into()
    })
}
