//! Moves what the data plane learned through the digest queue to the primary.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;

use crate::dataplane::plane::Learned;
use crate::p4runtime::digest::List;
use crate::p4runtime::state::Device;
use crate::proto::p4rt::{self, stream_message_response::Update};

/// Digest messages between the data plane and the queue.
pub const BACKLOG: usize = 1024;

/// Runs until the data plane is gone.
pub async fn run(device: Arc<Device>, mut learned: mpsc::Receiver<Learned>) {
    let mut batch = Vec::with_capacity(BACKLOG);
    loop {
        // There is nobody to send to without a primary: wait for one.
        let deadline = if device.sessions.lock().has_primary() {
            device.digests.lock().deadline()
        } else {
            None
        };
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            count = learned.recv_many(&mut batch, BACKLOG) => if count == 0 { return },
            () = due => {}
            () = device.digests_changed.notified() => {}
        }
        let now = Instant::now();
        for (digest_id, message) in batch.drain(..) {
            device.digests.lock().push(now, digest_id, message);
        }
        while device.sessions.lock().has_primary() {
            let Some(list) = device.digests.lock().poll(now) else {
                break;
            };
            device.send(list).await;
        }
    }
}

impl Device {
    async fn send(&self, list: List) {
        let installed = self.installed.read().await;
        let Some(installed) = installed.as_ref() else {
            return;
        };
        let Some(digest) = installed.schema.digests.get(&list.digest_id) else {
            return;
        };
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.sessions.lock().notify(
            &installed.schema.owners,
            list.digest_id,
            Update::Digest(p4rt::DigestList {
                digest_id: list.digest_id,
                list_id: list.list_id,
                data: list
                    .messages
                    .iter()
                    .map(|message| digest.shape.data(message))
                    .collect(),
                timestamp: i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX),
            }),
        );
    }
}
