//! sluice: reads the command line, opens the ports, serves P4Runtime until told to end.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
use esp::{AllowedSuites, Kek, KekRing};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{self, DumpableBehavior, Resource, Rlimit};
use sluice::connections::dial::Dialler;
use sluice::connections::listener::{P4RuntimePort, accept_local};
use sluice::dataplane::esp_engine::Engines;
use sluice::dataplane::trace::{render, unhex};
use sluice::dataplane::{esp_engine, packet_hash, payload_tail};
use sluice::p4runtime::kek::{self, KEK_LEN, read_kek};
use sluice::p4runtime::pipeline_config;
use sluice::p4runtime::state::Device;
use sluice::process::BoxError;
use sluice::process::command::{Command, CommandLine, ProgramArgs, ReloadArgs, TraceArgs};
use sluice::process::config::Args;
use sluice::process::dev::DevArgs;
use sluice::process::handover::giver::Start;
use sluice::process::handover::successor::Successor;
use sluice::process::handover::{self, NextProgram};
use sluice::process::serve::{Setup, SwitchProcess};
use sluice::process::trace_control;
use sluice::process::trace_offline::{self, Bench, packets};
use sluice_pipeline::ExternRegistry;
use tokio::sync::{mpsc, watch};
use tracing::warn;
use tracing_subscriber::EnvFilter;
use zeroize::Zeroizing;

/// The command line of this process, and the process that it takes over from.
type Begun = (Start, Option<Successor>);

/// TLS connections that wait to be served.
const CONNECTIONS: usize = 16;

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let takes_over = arguments.get(1).is_some_and(|it| it == handover::COMMAND);
    if takes_over {
        arguments.remove(1);
    }
    let line = match CommandLine::try_parse_from(&arguments) {
        Ok(line) => line,
        Err(error) => return shown(&error),
    };
    let begin = |log_json: bool| {
        log_to_stderr(log_json);
        let successor = takes_over.then(Successor::greet).transpose()?;
        Ok((Start::of_this_process(&arguments)?, successor))
    };
    let done = match (line.command, line.run) {
        (Some(Command::Trace(args)), _) => trace(&args),
        (Some(Command::Reload(args)), _) => reload(&args),
        (Some(Command::Check(args)), _) => check(&args),
        (Some(Command::Run(args)), _) | (None, Some(args)) => {
            usage(args.check());
            return ended(begin(args.process.log_json).and_then(|begun| run(&args, begun)));
        }
        (Some(Command::Dev(args)), _) => {
            usage(args.check());
            return ended(begin(args.process.log_json).and_then(|begun| dev(&args, begun)));
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
fn externs_without_keys() -> Result<(ExternRegistry, Arc<Engines>, Arc<AtomicU64>), BoxError> {
    let mut externs = ExternRegistry::new();
    let mut kek = Zeroizing::new([0; KEK_LEN]);
    aws_lc_rs::rand::fill(kek.as_mut()).map_err(|_| "the system gives no random bytes")?;
    let keks = Arc::new(Kek::from_bytes(&kek).into());
    let engines = esp_engine::register(&mut externs, Arc::clone(&keks), AllowedSuites::MODERN);
    let refused = packet_hash::register(&mut externs, keks);
    payload_tail::register(&mut externs);
    Ok((externs, engines, refused))
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

fn reload(args: &ReloadArgs) -> Result<(), BoxError> {
    let absolute = |path: &Path| {
        let path = path
            .canonicalize()
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let text = path
            .to_str()
            .ok_or_else(|| format!("{} is not UTF-8", path.display()));
        text.map(str::to_owned)
    };
    let next = match (&args.json, &args.p4info) {
        (Some(json), Some(p4info)) => Some(NextProgram {
            json: absolute(json)?,
            p4info: absolute(p4info)?,
            cookie: args.cookie,
        }),
        _ => None,
    };
    ask(&args.control, &trace_control::reload_request(next.as_ref()))
}

/// Asks the switch that has the control socket, and shows what it says.
fn ask(control: &Path, request: &str) -> Result<(), BoxError> {
    let mut stream = UnixStream::connect(control).map_err(|error| {
        format!(
            "cannot ask {}: {error}. Remedy: name the --control of a switch that runs, as root or its user",
            control.display()
        )
    })?;
    stream.write_all(request.as_bytes())?;
    let mut stream = BufReader::new(stream);
    let mut answer = String::new();
    stream.read_line(&mut answer)?;
    match answer.trim_end() {
        trace_control::TAKEN => {
            std::io::copy(&mut stream, &mut std::io::stdout().lock())?;
            Ok(())
        }
        "" => Err("the switch ended before it answered: see its log".into()),
        reason => Err(reason.into()),
    }
}

fn trace(args: &TraceArgs) -> Result<(), BoxError> {
    if let Some(control) = &args.control {
        return ask(
            control,
            &trace_control::request(&args.filter(), args.format),
        );
    }
    let (Some(json), Some(p4info), Some(port)) = (&args.json, &args.p4info, args.port) else {
        return Err("name a program and a port: --json, --p4info and --port".into());
    };
    let mut out = std::io::stdout().lock();
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
        .with_target(false)
        // It would go to standard error too, and a full disk there would end the switch.
        .log_internal_errors(false);
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
async fn run(args: &Args, (start, successor): Begun) -> Result<(), BoxError> {
    keep_memory_private()?;
    let mut externs = ExternRegistry::new();
    let keks: Arc<KekRing> = Arc::new(Kek::from_bytes(&*read_kek(&args.kek)?).into());
    let engines = esp_engine::register(&mut externs, Arc::clone(&keks), args.allowed_suites());
    let hash_keys_refused = packet_hash::register(&mut externs, Arc::clone(&keks));
    payload_tail::register(&mut externs);
    for suite in &args.allowed_suites {
        warn!("SAs may use the legacy suite {suite}");
    }
    let identity = args.identity();
    let (serving, tls) = watch::channel(Arc::new(identity.server_config()?));
    let setup = Setup {
        device_id: args.device_id,
        ports: &args.ports,
        process: &args.process,
        grpc: args.grpc,
        externs,
        engines,
        keks: Some(Arc::clone(&keks)),
        hash_keys_refused,
        start,
    };
    let switch = match successor {
        Some(successor) => SwitchProcess::take_over(setup, successor).await?,
        None => SwitchProcess::open(setup).await?,
    };
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
async fn dev(args: &DevArgs, (start, successor): Begun) -> Result<(), BoxError> {
    warn!(
        "DEVELOPMENT ONLY: no certificates and no keys. Every program and user of this computer may change this switch at {}",
        args.grpc
    );
    let (externs, engines, hash_keys_refused) = externs_without_keys()?;
    let setup = Setup {
        device_id: args.device_id,
        ports: &args.ports,
        process: &args.process,
        grpc: Some(args.grpc),
        externs,
        engines,
        keks: None,
        hash_keys_refused,
        start,
    };
    let switch = match successor {
        Some(successor) => SwitchProcess::take_over(setup, successor).await?,
        None => {
            let switch = SwitchProcess::open(setup).await?;
            install(&switch.device, args).await?;
            switch
        }
    };
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

/// The program and the entries of the command line.
async fn install(device: &Device, args: &DevArgs) -> Result<(), BoxError> {
    let (Some(json), Some(p4info)) = (&args.json, &args.p4info) else {
        return Ok(());
    };
    let mut program = trace_offline::load(device, json, p4info)?;
    if let Some(entries) = &args.entries {
        trace_offline::write(&mut program, entries)?;
    }
    let installed = pipeline_config::install(device, program).await;
    installed.map_err(|fault| fault.message.into())
}
