//! The new process's half of a hand-over.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esp::{KEK_LEN, Kek, KekRing};
use prost::Message as _;
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;
use tracing::info;
use zeroize::Zeroizing;

use super::channel::{Channel, ChannelError, Kind, unsealed};
use super::{FinalState, NextProgram, Offer};
use crate::dataplane::esp_engine::Engines;
use crate::dataplane::ports::{Port, PortArg, handover as ports};
use crate::fault::Fault;
use crate::p4runtime::reconcile::carry_entities;
use crate::p4runtime::state::{Device, Saved};
use crate::p4runtime::{handover as control, pipeline_config};
use crate::process::config::ProcessArgs;
use crate::process::trace_offline;

/// The old process reads its entries before it offers them; its threads end between two batches.
const PATIENCE: Duration = Duration::from_secs(60);
/// The old process ends in this time once it has handed over.
const END: Duration = Duration::from_secs(5);

#[derive(Debug, Error)]
pub enum TakeError {
    #[error("the process that hands over: {0}")]
    Channel(#[from] ChannelError),
    #[error("its state is not one of this version: {0}")]
    Undecodable(#[from] prost::DecodeError),
    #[error("the program or its entries do not fit: {}", .0.message)]
    Unfit(Fault),
    #[error("cannot go on with its state: {0}")]
    Unusable(String),
    #[error("it and this process disagree about keys: was one of them started by hand?")]
    Keys,
}

impl From<io::Error> for TakeError {
    fn from(error: io::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// The connection to the process that hands over, which is this one's standard input.
pub struct Successor {
    channel: Channel,
}

impl Successor {
    /// # Errors
    /// Standard input is no socket.
    pub fn greet() -> Result<Self, TakeError> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?).map_err(io::Error::from)?;
        let channel = Channel::new(socket);
        channel.send(Kind::Hello, &[], &[])?;
        Ok(Self { channel })
    }

    /// # Errors
    /// The other process has ended, or offers what this version does not know.
    pub fn offer(&self) -> Result<Offered, TakeError> {
        let received = self.channel.receive(Kind::Offer, PATIENCE)?;
        let offer = Offer::decode(received.content.as_slice())?;
        let mut descriptors = received.descriptors.into_iter();
        let mut next = |is_there: bool| match is_there {
            true => {
                descriptors
                    .next()
                    .map(Some)
                    .ok_or(TakeError::Channel(ChannelError::Malformed(
                        "fewer descriptors than it says",
                    )))
            }
            false => Ok(None),
        };
        let keks = next(offer.keks > 0)?;
        let keks = keks.map(|it| unsealed(&it, offer.keks)).transpose()?;
        let listeners = [
            next(offer.grpc)?,
            next(offer.metrics)?,
            next(offer.control_socket)?,
        ];
        Ok(Offered {
            offer,
            keks,
            listeners,
        })
    }

    /// Tells the other process why this one ends.
    pub fn refuse(&self, reason: &str) {
        let _ = self.channel.send(Kind::Refused, reason.as_bytes(), &[]);
    }

    /// From here on the switch is this process's.
    ///
    /// # Errors
    /// The other process has gone on meanwhile, or waits no longer.
    pub fn take(&self) -> Result<(), TakeError> {
        Ok(self.channel.send(Kind::Taken, &[], &[])?)
    }

    /// Waits for the end of the other process, but not for long.
    pub fn outlive(self) {
        let _ = self.channel.receive_any(END);
    }

    /// Waits until no packet runs, and takes what packets have changed.
    ///
    /// # Errors
    /// The state is not that of what was offered, or the system refuses the ports.
    pub async fn state(
        &self,
        prepared: Prepared,
        device: &Device,
        parts: Parts<'_>,
    ) -> Result<Vec<Vec<Port>>, TakeError> {
        self.channel.send(Kind::Prepared, &[], &[])?;
        let received = self.channel.receive(Kind::State, PATIENCE)?;
        let began = Instant::now();
        let state = FinalState::decode(received.content.as_slice())?;
        let sas = parts.engines.restore(&state.engines);
        let sas = sas.map_err(TakeError::Unusable)?;
        let plane = &device.plane;
        if let (Some(from), Some(running)) = (&state.switch, plane.lock().as_mut()) {
            let restored = running.switch.restore(from);
            restored.map_err(|error| TakeError::Unusable(error.to_string()))?;
        }
        device.digests.lock().resume(Instant::now(), state.digests);
        if let Some(next) = prepared.next {
            let replaced = pipeline_config::replace(device, *next).await;
            replaced.map_err(TakeError::Unfit)?;
        }
        plane.traffic.resume(&state.traffic);
        plane.packet_io.resume(state.packet_outs);
        plane.packet_io.count_lost(state.packet_ins_lost);
        let refused = parts.hash_keys_refused;
        refused.fetch_add(state.hash_keys_refused, Ordering::Relaxed);
        let (offload, threads) = (!parts.process.no_offload, parts.process.threads.into());
        let taken = ports::take(
            parts.ports,
            offload,
            threads,
            state.ports,
            received.descriptors,
        )?;
        info!(sas, took = ?began.elapsed(), "takes over");
        Ok(taken)
    }
}

/// The parts of the new switch that the old one's state goes to.
pub struct Parts<'a> {
    pub engines: &'a Engines,
    pub hash_keys_refused: &'a Arc<AtomicU64>,
    pub process: &'a ProcessArgs,
    pub ports: &'a [PortArg],
}

/// An offer, checked as far as it can be without a switch.
pub struct Offered {
    offer: Offer,
    keks: Option<Zeroizing<Vec<u8>>>,
    /// P4Runtime's, the metrics' and the control socket's.
    pub listeners: [Option<OwnedFd>; 3],
}

/// The program that takes the place of the running one, with its entries.
#[derive(Default)]
pub struct Prepared {
    next: Option<Box<Saved>>,
}

impl Offered {
    /// Gives the ring the keys of the old process.
    ///
    /// # Errors
    /// One of both processes has keys.
    pub fn keys(&mut self, ring: Option<&KekRing>) -> Result<(), TakeError> {
        let keys = self.keks.take();
        match (ring, keys) {
            (None, None) => Ok(()),
            (Some(ring), Some(keys)) => {
                let (keks, rest) = keys.as_chunks::<KEK_LEN>();
                let keks = keks.iter().map(Kek::from_bytes).collect();
                match rest.is_empty() && ring.replace(keks) {
                    true => Ok(()),
                    false => Err(TakeError::Keys),
                }
            }
            _ => Err(TakeError::Keys),
        }
    }

    /// The time at which the switch started.
    ///
    /// # Errors
    /// It lies in the future.
    pub fn started(&self) -> Result<Instant, TakeError> {
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(
            u64::try_from(now.tv_sec).unwrap_or(0),
            u32::try_from(now.tv_nsec).unwrap_or(0),
        );
        let since = now.checked_sub(Duration::from_nanos(self.offer.started));
        let started = since.and_then(|since| Instant::now().checked_sub(since));
        started.ok_or_else(|| TakeError::Unusable("its clock is ahead of this one".into()))
    }

    /// Builds the switch as it was when it was offered.
    ///
    /// # Errors
    /// The program does not load in this version, or its entries fit neither it nor the next one.
    pub async fn build(self, device: &Device, engines: &Engines) -> Result<Prepared, TakeError> {
        let next = self.offer.next;
        let Some(saved) = control::restore(device, self.offer.control).map_err(TakeError::Unfit)?
        else {
            return Ok(Prepared::default());
        };
        let restored = engines.restore(&self.offer.engines);
        restored.map_err(TakeError::Unusable)?;
        let installed = pipeline_config::install(device, saved).await;
        installed.map_err(TakeError::Unfit)?;
        match next {
            Some(next) => carried(device, &next).await,
            None => Ok(Prepared::default()),
        }
    }
}

async fn carried(device: &Device, next: &NextProgram) -> Result<Prepared, TakeError> {
    let (json, p4info) = (next.json.as_ref(), next.p4info.as_ref());
    let loaded = trace_offline::load(device, json, p4info);
    let mut saved = loaded.map_err(|error| TakeError::Unusable(error.to_string()))?;
    saved.installed.config.cookie = (next.cookie)
        .map(|cookie| crate::proto::p4rt::forwarding_pipeline_config::Cookie { cookie });
    if let Some(old) = device.installed.read().await.as_ref() {
        carry_entities(device, old, &mut saved).map_err(TakeError::Unfit)?;
    }
    Ok(Prepared {
        next: Some(Box::new(saved)),
    })
}
