//! sluice: reads the command line, opens the ports, serves P4Runtime until told to end.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
use esp::{AllowedSuites, Kek, KekRing};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{self, DumpableBehavior, Resource, Rlimit};
use sluice::connections::dial::Dialler;
use sluice::connections::listener::{P4RuntimePort, accept_local};
use sluice::dataplane::trace::{render, unhex};
use sluice::dataplane::{esp_engine, packet_hash, payload_tail};
use sluice::p4runtime::kek::{self, KEK_LEN, read_kek};
use sluice::p4runtime::pipeline_config;
use sluice::process::command::{Command, CommandLine, ProgramArgs, TraceArgs};
use sluice::process::config::Args;
use sluice::process::dev::DevArgs;
use sluice::process::serve::{BoxError, Setup, SwitchProcess};
use sluice::process::trace_control;
use sluice::process::trace_offline::{self, Bench, packets};
use sluice_pipeline::ExternRegistry;
use tokio::sync::{mpsc, watch};
use tracing::warn;
use tracing_subscriber::EnvFilter;
use zeroize::Zeroizing;

/// TLS connections that wait to be served.
const CONNECTIONS: usize = 16;

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

fn ended(result: Result<(), BoxError>) -> ExitCode {
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
fn externs_without_keys() -> Result<(ExternRegistry, Arc<AtomicU64>), BoxError> {
    let mut externs = ExternRegistry::new();
    let mut kek = Zeroizing::new([0; KEK_LEN]);
    aws_lc_rs::rand::fill(kek.as_mut()).map_err(|_| "the system gives no random bytes")?;
    let keks = Arc::new(Kek::from_bytes(&kek).into());
    esp_engine::register(&mut externs, Arc::clone(&keks), AllowedSuites::MODERN);
    let refused = packet_hash::register(&mut externs, keks);
    payload_tail::register(&mut externs);
    Ok((externs, refused))
}

fn check(args: &ProgramArgs) -> Result<(), BoxError> {
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

fn trace(args: &TraceArgs) -> Result<(), BoxError> {
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

#[tokio::main(worker_threads = 2)]
async fn run(args: &Args) -> Result<(), BoxError> {
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
    let switch = SwitchProcess::open(Setup {
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
            let (ready, connections) = mpsc::channel(CONNECTIONS);
            if !args.dial.is_empty() {
                let conditions = Arc::clone(&conditions);
                let dialler = Dialler::new(args.identity(), conditions, ready.clone());
                tokio::spawn(dialler.dial(args.dial.clone()));
            }
            if let Some(listener) = listener {
                let port = P4RuntimePort {
                    listener,
                    config: tls,
                    names,
                    allowed,
                    conditions,
                };
                tokio::spawn(port.accept(ready));
            }
            connections
        })
        .await
}

#[tokio::main(worker_threads = 2)]
async fn dev(args: &DevArgs) -> Result<(), BoxError> {
    warn!(
        "DEVELOPMENT ONLY: no certificates and no keys. Every program and user of this computer may change this switch at {}",
        args.grpc
    );
    let (externs, hash_keys_refused) = externs_without_keys()?;
    let switch = SwitchProcess::open(Setup {
        device_id: args.device_id,
        ports: &args.ports,
        process: &args.process,
        grpc: Some(args.grpc),
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
            if let Some(listener) = listener {
                tokio::spawn(accept_local(listener, conditions, accepted));
            }
            connections
        })
        .await
}
