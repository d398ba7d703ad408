//! Tells a service manager (sd_notify(3)) of the switch: ready, alive, ending. Without a manager it does nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sd_notify::NotifyState;
use tracing::warn;

use crate::dataplane::plane::DataPlane;

pub fn ready() {
    told(sd_notify::notify(&[NotifyState::Ready]));
}

/// Another process is the service's main process from now on.
pub fn succeeded_by(pid: u32) {
    told(sd_notify::notify(&[NotifyState::MainPid(pid)]));
}

pub fn ending() {
    told(sd_notify::notify(&[NotifyState::Stopping]));
}

/// Feeds the watchdog while packets are looked after: the heart of every data-plane thread must have beaten since.
pub async fn watch(plane: Arc<DataPlane>) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    // The heart beats every second at least; three tries a limit leave room for one that is late.
    let mut every = tokio::time::interval((limit / 3).max(Duration::from_millis(500)));
    let mut before = vec![None; plane.traffic.beats.len()];
    loop {
        every.tick().await;
        let beats = plane.traffic.beats.iter();
        let beats: Vec<_> = beats.map(|it| Some(it.load(Ordering::Relaxed))).collect();
        if before.iter().zip(&beats).all(|(before, now)| before != now) {
            told(sd_notify::notify(&[NotifyState::Watchdog]));
        }
        before = beats;
    }
}

fn told(done: io::Result<()>) {
    if let Err(error) = done {
        warn!(%error, "the service manager could not be told");
    }
}
