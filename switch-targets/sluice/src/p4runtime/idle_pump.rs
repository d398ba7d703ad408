//! Tells the primaries of a table of entries that no packet has hit for their timeouts (section 16.4).
//!
//! ```text
//!   every INTERVAL ─► each table that has timeouts ─► AT_ONCE rows under the data plane's lock ─► … ─► notification ─► primaries
//! ```
//! A notification may be lost, as the specification allows: what is still idle after another timeout is told again.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_pipeline::EntryView;

use crate::p4runtime::read::noted;
use crate::p4runtime::state::{Device, Installed};
use crate::p4runtime::translate::{EntryKey, field_matches, shown_key};
use crate::proto::p4rt::{self, stream_message_response::Update};
use crate::schema::Table;

/// Precision of timeouts.
const INTERVAL: Duration = Duration::from_millis(20);
/// Rows looked at while the data plane waits.
const AT_ONCE: usize = 4096;
/// Entries of one notification.
const PER_NOTIFICATION: usize = 256;

/// Runs as long as the process.
pub async fn run(device: Arc<Device>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let installed = device.installed.read().await;
        if let Some(installed) = installed.as_ref() {
            let tables = installed.schema.tables.iter();
            for (id, table) in tables.filter(|(_, table)| table.idle_timeout) {
                // There is nobody to tell without a primary, and no timeout starts again.
                let owners = &installed.schema.owners;
                if device.sessions.lock().is_heard(owners, *id) {
                    device.tell_expired(installed, *id, table);
                }
            }
        }
    }
}

impl Device {
    fn tell_expired(&self, installed: &Installed, id: u32, table: &Table) {
        let (mut from, mut waiting) = (Some(0), Vec::new());
        while let Some(row) = from {
            from = self.plane.lock().as_mut().and_then(|running| {
                let (switch, now) = (&mut running.switch, self.plane.now());
                switch.expired(table.index, row, AT_ONCE, now, &mut waiting)
            });
            while waiting.len() >= PER_NOTIFICATION {
                let rest = waiting.split_off(PER_NOTIFICATION);
                self.tell(installed, id, table, std::mem::replace(&mut waiting, rest));
            }
        }
        if !waiting.is_empty() {
            self.tell(installed, id, table, waiting);
        }
    }

    fn tell(&self, installed: &Installed, id: u32, table: &Table, expired: Vec<EntryView>) {
        let entry = |view: EntryView| {
            let (fields, priority) = (shown_key(table, &view.entry.key), view.entry.priority);
            let timeout = view.idle.unwrap_or_default().timeout;
            let entry = p4rt::TableEntry {
                table_id: id,
                r#match: field_matches(table, &fields),
                priority,
                idle_timeout_ns: i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX),
                ..Default::default()
            };
            let at = (id, Some(EntryKey { fields, priority }));
            noted(installed, &at, entry, &p4rt::TableEntry::default())
        };
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let notification = p4rt::IdleTimeoutNotification {
            table_entry: expired.into_iter().filter_map(entry).collect(),
            timestamp: i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX),
        };
        let update = Update::IdleTimeoutNotification(notification);
        self.sessions
            .lock()
            .offer(&installed.schema.owners, id, update);
    }
}
