//! The old process's half of a hand-over.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prost::Message as _;
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::channel::{Channel, ChannelError, Kind, sealed};
use super::{COMMAND, FinalState, NextProgram, Offer};
use crate::dataplane::esp_engine::Engines;
use crate::dataplane::forwarder::Forwarder;
use crate::dataplane::ports::{Port, handover as ports};
use crate::p4runtime::handover::{self as control};
use crate::p4runtime::state::{Device, Installed};
use crate::process::supervision;

/// A program that can take over says so in this time.
const HELLO: Duration = Duration::from_secs(5);
/// The new process has this time to build the switch. Packets run meanwhile; clients' writes wait.
const PREPARE: Duration = Duration::from_secs(60);
/// The new process has this time to take the ports. Frames wait meanwhile.
const TAKE: Duration = Duration::from_secs(1);
/// Digests that are under way to the control plane have this time to arrive.
const LEARN: Duration = Duration::from_millis(10);

#[derive(Debug, Error)]
pub enum GiveError {
    #[error("cannot start {}: {cause}. Remedy: install the program again", program.display())]
    NotStarted { program: PathBuf, cause: io::Error },
    #[error("the new process does not take over: {0}. Its log has more")]
    Channel(#[from] ChannelError),
    #[error("the state can't be handed over: {0}")]
    Unreadable(String),
}

/// All that is handed over.
pub struct Giver {
    pub device: Arc<Device>,
    pub engines: Arc<Engines>,
    pub hash_keys_refused: Arc<AtomicU64>,
    /// P4Runtime's, the metrics' and the control socket's.
    pub listeners: [Option<OwnedFd>; 3],
    pub ended: mpsc::UnboundedSender<io::Error>,
    pub start: Start,
}

/// The command line of this process: the new one is started alike.
#[derive(Clone)]
pub struct Start {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Start {
    /// Call it at the start: a program that is replaced on the disk is not found afterwards.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn of_this_process(arguments: &[OsString]) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: arguments.to_vec(),
        })
    }

    fn successor(&self, socket: OwnedFd) -> io::Result<Child> {
        Command::new(&self.program)
            .arg(COMMAND)
            .args(self.arguments.iter().skip(1))
            .stdin(Stdio::from(socket))
            // It names the process that the watchdog watches: this one.
            .env_remove("WATCHDOG_PID")
            .spawn()
    }
}

impl Giver {
    /// Hands the switch over; it may take a minute. Returns the new process's id: this process is to end. After an error it goes on,
    /// with its threads in `forwarder` again.
    ///
    /// # Errors
    /// The new process can't be started, ends, refuses, or is late.
    pub fn hand_over(
        &self,
        forwarder: &mut Option<Forwarder>,
        next: Option<NextProgram>,
    ) -> Result<u32, GiveError> {
        let not_started = |cause| GiveError::NotStarted {
            program: self.start.program.clone(),
            cause,
        };
        let (channel, socket) = Channel::pair().map_err(not_started)?;
        let mut child = self.start.successor(socket).map_err(not_started)?;
        info!(pid = child.id(), "handing over to a new process");
        let given = self.give(&channel, forwarder, next);
        if given.is_err() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        // While the channel is open the new process does not speak to the service manager.
        if given.is_ok() {
            supervision::succeeded_by(child.id());
        }
        given.map(|()| child.id())
    }

    fn give(
        &self,
        channel: &Channel,
        forwarder: &mut Option<Forwarder>,
        next: Option<NextProgram>,
    ) -> Result<(), GiveError> {
        channel.receive(Kind::Hello, HELLO)?;
        // Nothing is written from here on.
        let installed = self.device.installed.blocking_write();
        self.offer(channel, installed.as_ref(), next)?;
        channel.receive(Kind::Prepared, PREPARE)?;
        let paused = Instant::now();
        let running = forwarder.take().and_then(Forwarder::pause);
        let Some(ports) = running else {
            return Err(GiveError::Unreadable("a thread has crashed".into()));
        };
        let given = self.give_state(channel, &ports);
        let pause = paused.elapsed();
        match given {
            Ok(()) => {
                info!(?pause, "the new process has taken over");
                Ok(())
            }
            Err(error) => {
                let started = Forwarder::start(&self.device.plane, ports, &self.ended);
                match started {
                    Ok(started) => *forwarder = Some(started),
                    Err(error) => drop(self.ended.send(error)),
                }
                warn!(?pause, "goes on in this process");
                Err(error)
            }
        }
    }

    fn offer(
        &self,
        channel: &Channel,
        installed: Option<&Installed>,
        next: Option<NextProgram>,
    ) -> Result<(), GiveError> {
        let unreadable = |fault: crate::fault::Fault| GiveError::Unreadable(fault.message);
        let revealed = self.device.keks.as_ref().map(|keks| keks.reveal());
        let keks = revealed.as_ref().map(|keys| sealed(keys)).transpose()?;
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(
            u64::try_from(now.tv_sec).unwrap_or(0),
            u32::try_from(now.tv_nsec).unwrap_or(0),
        );
        let started = now.saturating_sub(self.device.plane.now());
        let [grpc, metrics, control_socket] = self.listeners.each_ref().map(Option::is_some);
        let offer = Offer {
            control: control::snapshot(&self.device, installed).map_err(unreadable)?,
            engines: self.engines.snapshot(),
            started: u64::try_from(started.as_nanos()).unwrap_or(0),
            keks: revealed.as_ref().map_or(0, |keys| keys.len() as u64),
            grpc,
            metrics,
            control_socket,
            next,
        };
        let sockets = keks.iter().chain(self.listeners.iter().flatten());
        let sockets: Vec<_> = sockets.map(|fd| fd.as_fd()).collect();
        Ok(channel.send(Kind::Offer, &offer.encode_to_vec(), &sockets)?)
    }

    fn give_state(&self, channel: &Channel, open: &[Vec<Port>]) -> Result<(), GiveError> {
        let plane = &self.device.plane;
        let (ports, descriptors) =
            ports::give(open).map_err(|error| GiveError::Unreadable(error.to_string()))?;
        let learned = Instant::now();
        while !plane.is_learned() && learned.elapsed() < LEARN {
            std::thread::yield_now();
        }
        let state = FinalState {
            ports,
            switch: plane.lock().as_ref().map(|it| it.switch.snapshot()),
            engines: self.engines.snapshot(),
            traffic: plane.traffic.snapshot(),
            digests: self.device.digests.lock().snapshot(),
            packet_outs: plane.packet_io.waiting(),
            packet_ins_lost: plane.packet_io.lost(),
            hash_keys_refused: self.hash_keys_refused.load(Ordering::Relaxed),
        };
        channel.send(Kind::State, &state.encode_to_vec(), &descriptors)?;
        let taken = channel.receive(Kind::Taken, TAKE);
        if taken.is_ok() {
            return Ok(());
        }
        // It may be sent at this very moment: either it is there now, or it never will be.
        channel.refuse_more().map_err(ChannelError::from)?;
        match channel.receive(Kind::Taken, TAKE) {
            Ok(_) => Ok(()),
            Err(_) => Ok(taken.map(drop)?),
        }
    }
}
