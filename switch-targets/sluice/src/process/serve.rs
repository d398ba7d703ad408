//! A switch from its start to its end: opens ports and listeners, or takes over those of another process, moves packets, serves
//! P4Runtime until told to end or to hand over.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use esp::KekRing;
use sluice_pipeline::ExternRegistry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tracing::{info, warn};

use crate::condition::Conditions;
use crate::connections::listener::Connection;
use crate::dataplane::cpu_port::{PacketIo, Punted};
use crate::dataplane::esp_engine::Engines;
use crate::dataplane::forwarder::Forwarder;
use crate::dataplane::plane::{DataPlane, Learned};
use crate::dataplane::ports::{self, Port, PortArg};
use crate::p4runtime::state::Device;
use crate::p4runtime::{digest_pump, idle_pump, packet_io, server};
use crate::process::BoxError;
use crate::process::config::ProcessArgs;
use crate::process::handover::giver::{GiveError, Giver, Start};
use crate::process::handover::successor::{Parts, Successor};
use crate::process::metrics::{self, Source};
use crate::process::sockets::Sockets;
use crate::process::supervision;
use crate::process::trace_control::ReloadRequest;

/// Time for the client that has asked for a new process to be answered.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(1);

/// The parts that a switch is started with, a gateway's or a developer's.
pub struct Setup<'a> {
    pub device_id: u64,
    pub ports: &'a [PortArg],
    pub process: &'a ProcessArgs,
    /// None: the switch only dials.
    pub grpc: Option<SocketAddr>,
    pub externs: ExternRegistry,
    pub engines: Arc<Engines>,
    /// The key-encryption keys; none in a developer's switch.
    pub keks: Option<Arc<KekRing>>,
    pub hash_keys_refused: Arc<AtomicU64>,
    pub start: Start,
}

/// A switch with everything opened, before packets run.
pub struct SwitchProcess {
    pub device: Arc<Device>,
    sockets: Sockets,
    port_args: Vec<PortArg>,
    ports: Vec<Vec<Port>>,
    punted: mpsc::Receiver<Punted>,
    learned: mpsc::Receiver<Learned>,
    engines: Arc<Engines>,
    hash_keys_refused: Arc<AtomicU64>,
    start: Start,
    /// The process that this one takes over from still has the switch.
    successor: Option<Successor>,
}

impl SwitchProcess {
    /// # Errors
    /// A text with its remedy for a port, an address or the control socket.
    pub async fn open(setup: Setup<'_>) -> Result<Self, BoxError> {
        let process = setup.process;
        let threads = usize::from(process.threads);
        let ports = ports::open(setup.ports, !process.no_offload, threads)?;
        let sockets = Sockets::open(setup.grpc, process, setup.keks.is_none()).await?;
        let switch = Self::new(setup, sockets, Instant::now())?;
        Ok(Self { ports, ..switch })
    }

    /// The switch of another process, up to the point where both could go on.
    ///
    /// # Errors
    /// A text; the other process is told it, and goes on.
    pub async fn take_over(setup: Setup<'_>, successor: Successor) -> Result<Self, BoxError> {
        match Self::taken_from(setup, &successor).await {
            Ok(switch) => Ok(Self {
                successor: Some(successor),
                ..switch
            }),
            Err(error) => {
                successor.refuse(&error.to_string());
                Err(error)
            }
        }
    }

    async fn taken_from(setup: Setup<'_>, from: &Successor) -> Result<Self, BoxError> {
        let mut offered = from.offer()?;
        offered.keys(setup.keks.as_deref())?;
        let sockets = Sockets::take(std::mem::take(&mut offered.listeners), setup.process)?;
        let (process, ports) = (setup.process, setup.ports);
        let switch = Self::new(setup, sockets, offered.started()?)?;
        let prepared = offered.build(&switch.device, &switch.engines).await?;
        let parts = Parts {
            engines: &switch.engines,
            hash_keys_refused: &switch.hash_keys_refused,
            process,
            ports,
        };
        let ports = from.state(prepared, &switch.device, parts).await?;
        Ok(Self { ports, ..switch })
    }

    fn new(setup: Setup<'_>, sockets: Sockets, started: Instant) -> Result<Self, BoxError> {
        let process = setup.process;
        let (digests, learned) = mpsc::channel(digest_pump::BACKLOG);
        let (packet_io, punted) = PacketIo::new(process.cpu_port)?;
        let plane = DataPlane::new(digests, Arc::new(packet_io), process.threads.into());
        let plane = Arc::new(plane.since(started));
        let device = Device {
            keks: setup.keks,
            ..Device::new(setup.device_id, plane, setup.externs)
        };
        Ok(Self {
            device: Arc::new(device),
            sockets,
            port_args: setup.ports.to_vec(),
            ports: Vec::new(),
            punted,
            learned,
            engines: setup.engines,
            hash_keys_refused: setup.hash_keys_refused,
            start: setup.start,
            successor: None,
        })
    }

    /// Moves packets and serves the connections that `accept` takes from the listener, or makes, until told to end or to hand over.
    ///
    /// # Errors
    /// A thread of the data plane or the server has ended.
    pub async fn serve<S>(
        self,
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
        let (mut terminate, mut interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let giver = Arc::new(Giver {
            device: Arc::clone(&device),
            engines: self.engines,
            hash_keys_refused: Arc::clone(&self.hash_keys_refused),
            listeners: self.sockets.copies()?,
            ended: alive.clone(),
            start: self.start,
        });
        let Sockets {
            grpc,
            metrics,
            control,
        } = self.sockets;
        let router = server::router(Arc::clone(&device))?;
        let address = grpc.as_ref().map(TcpListener::local_addr).transpose()?;
        let given = control.as_ref().map(|it| Arc::clone(&it.given));
        let give = |is_given| {
            given
                .iter()
                .for_each(|it| it.store(is_given, Ordering::Relaxed))
        };
        if let Some(successor) = &self.successor {
            successor.take()?;
            give(false);
        }
        let mut forwarder = Some(Forwarder::start(&plane, self.ports, &alive)?);

        let conditions = Arc::new(Conditions::default());
        let (reload, mut reloads) = mpsc::channel(1);
        let controlled = control.map(|control| {
            let (plane, conditions) = (Arc::clone(&plane), Arc::clone(&conditions));
            tokio::spawn(control.run(plane, conditions, reload.clone()))
        });
        tokio::spawn(digest_pump::run(Arc::clone(&device), self.learned));
        tokio::spawn(idle_pump::run(Arc::clone(&device)));
        tokio::spawn(packet_io::run(Arc::clone(&device), self.punted));
        let (device_id, ports) = (device.id, self.port_args.len());
        let connections = accept(grpc, Arc::clone(&conditions));
        if let Some(listener) = metrics {
            let source = Source {
                device,
                ports: self.port_args,
                hash_keys_refused: self.hash_keys_refused,
                started: Instant::now(),
            };
            let conditions = Arc::clone(&conditions);
            tokio::spawn(metrics::serve(listener, Arc::new(source), conditions));
        }
        tokio::spawn(async move { conditions.sum_up().await });
        tokio::spawn(supervision::watch(plane));
        let serve = router.serve_with_incoming(ReceiverStream::new(connections));
        tokio::pin!(serve);

        info!(
            device_id,
            grpc = address.map(tracing::field::display),
            ports,
            "ready"
        );
        match self.successor {
            // The service manager hears this process when the other one has named it.
            Some(successor) => drop(std::thread::spawn(|| {
                successor.outlive();
                supervision::ready();
            })),
            None => supervision::ready(),
        }
        let mut handing = None;
        loop {
            tokio::select! {
                served = &mut serve => { served?; break }
                ended = data_plane_ended.recv() => return Err(ended.map_or_else(|| "the data plane has crashed".into(), BoxError::from)),
                _ = terminate.recv() => { info!("ending: SIGTERM"); break }
                _ = interrupt.recv() => { info!("ending: SIGINT"); break }
                Some(request) = reloads.recv(), if handing.is_none() => {
                    handing = Some(Handing::begin(&giver, forwarder.take(), request));
                }
                (back, outcome) = finished(&mut handing) => {
                    let has_given = outcome.is_ok();
                    give(has_given);
                    if let Some(handing) = handing.take() {
                        handing.answer(outcome).await;
                    }
                    if has_given {
                        return Ok(());
                    }
                    forwarder = back;
                }
            }
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

type Outcome = (Option<Forwarder>, Result<u32, GiveError>);

/// A hand-over that is under way, in a thread of its own.
struct Handing {
    request: ReloadRequest,
    done: oneshot::Receiver<Outcome>,
}

impl Handing {
    fn begin(
        giver: &Arc<Giver>,
        mut forwarder: Option<Forwarder>,
        mut request: ReloadRequest,
    ) -> Self {
        let (giver, next) = (Arc::clone(giver), request.next.take());
        let (tell, done) = oneshot::channel();
        std::thread::spawn(move || {
            let outcome = giver.hand_over(&mut forwarder, next);
            let _ = tell.send((forwarder, outcome));
        });
        Self { request, done }
    }

    async fn answer(self, outcome: Result<u32, GiveError>) {
        let outcome = outcome.map_err(|error| {
            let text = error.to_string();
            warn!("this process goes on: {text}");
            format!("the running process goes on: {text}")
        });
        let _ = self.request.reply.send(outcome);
        let _ = tokio::time::timeout(ANSWER, self.request.answered).await;
    }
}

/// The end of the hand-over that is under way; none comes without one, or when its thread has crashed.
async fn finished(handing: &mut Option<Handing>) -> Outcome {
    if let Some(handing) = handing
        && let Ok(outcome) = (&mut handing.done).await
    {
        return outcome;
    }
    pending().await
}
