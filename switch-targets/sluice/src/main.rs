//! sluice: reads the command line, opens the ports, serves P4Runtime until told to end.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
use esp::{AllowedSuites, Kek, KekRing};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{self, DumpableBehavior, Resource, Rlimit};
use sluice::condition::Conditions;
use sluice::connections::listener::{Connection, Port, accept_local};
use sluice::dataplane::cpu_port::{PacketIo, Punted};
use sluice::dataplane::forwarder::Forwarder;
use sluice::dataplane::plane::{DataPlane, Learned};
use sluice::dataplane::ports::{self, PortArg};
use sluice::dataplane::trace::{render, unhex};
use sluice::dataplane::{esp_engine, packet_hash, payload_tail};
use sluice::p4runtime::kek::{self, KEK_LEN, read_kek};
use sluice::p4runtime::state::Device;
use sluice::p4runtime::{digest_pump, idle_pump, packet_io, pipeline_config, server};
use sluice::process::command::{Command, CommandLine, ProgramArgs, TraceArgs};
use sluice::process::config::{Args, ProcessArgs};
use sluice::process::dev::DevArgs;
use sluice::process::metrics::{self, Source};
use sluice::process::supervision;
use sluice::process::trace_control::{self, Control};
use sluice::process::trace_offline::{self, Bench, packets};
use sluice_pipeline::ExternRegistry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;
use zeroize::Zeroizing;

/// TLS connections that wait to be served.
const CONNECTIONS: usize = 16;
/// TCP connections that wait to be accepted by a developer's switch.
const BACKLOG: u32 = 64;

type Fault = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => return shown(&error),
    };
    let done = match (line.command, line.run) {
        (Some(Command::Trace(args)), _) => trace(&args),
        (Some(Command::Check(args)), _) => check(&args),
        (Some(Command::Run(args)), _) | (None, Some(args)) => {
            usage(args.check());
            log_to_stderr(args.process.log_json);
            return ended(run(&args));
        }
        (Some(Command::Dev(args)), _) => {
            usage(args.check());
            log_to_stderr(args.process.log_json);
            return ended(dev(&args));
        }
        (None, None) => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of standard output has closed it.
        Err(fault) if broken_pipe(fault.as_ref()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("sluice: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Shows help, the version, or a wrong use.
fn shown(error: &clap::Error) -> ExitCode {
    match error.print().and_then(|()| std::io::stdout().flush()) {
        Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("sluice: standard output: {cause}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1)),
    }
}

fn usage(checked: Result<(), String>) {
    if let Err(reason) = checked {
        let command = &mut CommandLine::command();
        command.error(ErrorKind::ValueValidation, reason).exit();
    }
}

fn ended(result: Result<(), Fault>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            tracing::error!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn broken_pipe(fault: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let cause = fault.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The externs of a switch without keys: what needs one says so in its verdict. Their key-encryption key is random and not kept.
fn externs_without_keys() -> Result<(ExternRegistry, Arc<AtomicU64>), Fault> {
    let mut externs = ExternRegistry::new();
    let mut kek = Zeroizing::new([0; KEK_LEN]);
    aws_lc_rs::rand::fill(kek.as_mut()).map_err(|_| "the system gives no random bytes")?;
    let keks = Arc::new(Kek::from_bytes(&kek).into());
    esp_engine::register(&mut externs, Arc::clone(&keks), AllowedSuites::MODERN);
    let refused = packet_hash::register(&mut externs, keks);
    payload_tail::register(&mut externs);
    Ok((externs, refused))
}

fn check(args: &ProgramArgs) -> Result<(), Fault> {
    let bench = Bench::load(&args.json, &args.p4info, externs_without_keys()?.0)?;
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
    for absent in contents.absent {
        writeln!(out, "  {absent}: not in the program, in the P4Info alone")?;
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
        stream.write_all(trace_control::request(&args.filter(), args.format).as_bytes())?;
        let mut stream = BufReader::new(stream);
        let mut answer = String::new();
        stream.read_line(&mut answer)?;
        if answer.trim_end() != trace_control::TAKEN {
            return Err(answer.trim_end().into());
        }
        std::io::copy(&mut stream, &mut out)?;
        return Ok(());
    }
    let (Some(json), Some(p4info), Some(port)) = (&args.json, &args.p4info, args.port) else {
        return Err("name a program and a port: --json, --p4info and --port".into());
    };
    let filter = args.filter();
    let mut bench = Bench::load(json, p4info, externs_without_keys()?.0)?;
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

/// Locks all pages, also those that come later. If a memory-lock limit applies, it locks none and returns false: at the limit each
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

/// The parts that a switch is started with, a gateway's or a developer's.
struct Setup<'a> {
    device_id: u64,
    ports: &'a [PortArg],
    process: &'a ProcessArgs,
    grpc: SocketAddr,
    externs: ExternRegistry,
    /// The key-encryption keys; none in a developer's switch.
    keks: Option<Arc<KekRing>>,
    hash_keys_refused: Arc<AtomicU64>,
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
    let switch = Switch::open(Setup {
        device_id: args.device_id,
        ports: &args.ports,
        process: &args.process,
        grpc: args.grpc,
        externs,
        keks: Some(Arc::clone(&keks)),
        hash_keys_refused,
    })
    .await?;
    tokio::spawn(kek::follow(args.kek.clone(), keks));
    let (names, allowed) = (identity.names.clone(), args.allowed_sources.clone());
    tokio::spawn(identity.follow(serving));
    switch
        .serve(|listener, conditions| {
            let (accepted, connections) = mpsc::channel(CONNECTIONS);
            let port = Port {
                listener,
                config: tls,
                names,
                allowed,
                conditions,
            };
            tokio::spawn(port.accept(accepted));
            connections
        })
        .await
}

#[tokio::main(worker_threads = 2)]
async fn dev(args: &DevArgs) -> Result<(), Fault> {
    warn!(
        "DEVELOPMENT ONLY: no certificates and no keys. Every program and user of this computer may change this switch at {}",
        args.grpc
    );
    let (externs, hash_keys_refused) = externs_without_keys()?;
    let switch = Switch::open(Setup {
        device_id: args.device_id,
        ports: &args.ports,
        process: &args.process,
        grpc: args.grpc,
        externs,
        keks: None,
        hash_keys_refused,
    })
    .await?;
    if let (Some(json), Some(p4info)) = (&args.json, &args.p4info) {
        let mut program = trace_offline::load(&switch.device, json, p4info)?;
        if let Some(entries) = &args.entries {
            trace_offline::write(&mut program, entries)?;
        }
        pipeline_config::install(&switch.device, program)
            .await
            .map_err(|fault| fault.message)?;
    }
    switch
        .serve(|listener, conditions| {
            let (accepted, connections) = mpsc::channel(CONNECTIONS);
            tokio::spawn(accept_local(listener, conditions, accepted));
            connections
        })
        .await
}

/// A switch with everything opened, before packets run.
struct Switch {
    device: Arc<Device>,
    grpc: TcpListener,
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

impl Switch {
    async fn open(setup: Setup<'_>) -> Result<Self, Fault> {
        let process = setup.process;
        let threads = usize::from(process.threads);
        let ports = ports::open(setup.ports, !process.no_offload, threads)?;
        let grpc = match setup.keks {
            Some(_) => listen("--grpc", setup.grpc).await?,
            None => listen_locally("--grpc", setup.grpc)?,
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

    /// Moves packets and serves what `accept` takes from the listener, until told to end.
    async fn serve<S>(
        mut self,
        accept: impl FnOnce(
            TcpListener,
            Arc<Conditions>,
        ) -> mpsc::Receiver<std::io::Result<Connection<S>>>,
    ) -> Result<(), Fault>
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
        let (device_id, grpc, ports) = (device.id, self.grpc.local_addr()?, self.port_args.len());
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

        info!(device_id, %grpc, ports, "ready");
        supervision::ready();
        tokio::select! {
            served = serve => served?,
            ended = data_plane_ended.recv() => return Err(ended.map_or_else(|| "the data plane has crashed".into(), Fault::from)),
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

fn cannot_control(path: &std::path::Path, error: &std::io::Error) -> Fault {
    format!(
        "cannot make the control socket {}: {error}. Remedy: change --control to a path in a folder of root's that nothing else has",
        path.display()
    )
    .into()
}

async fn listen(option: &str, address: SocketAddr) -> Result<TcpListener, Fault> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(cannot_listen(option, address))
}

/// Listens on the loopback interface, so that no setting of the kernel (`route_localnet`) lets other hosts in.
fn listen_locally(option: &str, address: SocketAddr) -> Result<TcpListener, Fault> {
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

fn cannot_listen(option: &str, address: SocketAddr) -> impl Fn(std::io::Error) -> Fault {
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
