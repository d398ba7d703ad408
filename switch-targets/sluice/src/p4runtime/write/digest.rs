//! Writes to digest entries: which digests are sent, and how they are bundled (section 9.9).

use std::time::Duration;

use tonic::Code;

use crate::fault::Fault;
use crate::p4runtime::digest;
use crate::p4runtime::state::{Device, Installed};
use crate::proto::p4rt::{self, update::Type};

pub fn digest(
    device: &Device,
    installed: &Installed,
    kind: Type,
    entry: &p4rt::DigestEntry,
) -> Result<(), Fault> {
    let digest = installed.schema.digest(entry.digest_id)?;
    let place = |fault: Fault| fault.at(&format!("digest '{}'", digest.name));
    let mut queue = device.digests.lock();
    match (kind, queue.config(entry.digest_id)) {
        (Type::Insert, Some(_)) => {
            return Err(place(Fault::new(
                Code::AlreadyExists,
                "it is enabled already",
            )));
        }
        (Type::Modify | Type::Delete, None) => {
            return Err(place(Fault::not_found("it is not enabled")));
        }
        _ => {}
    }
    if kind == Type::Delete {
        queue.disable(entry.digest_id);
    } else {
        let config = entry.config.unwrap_or_default();
        queue.configure(entry.digest_id, bundling(config).map_err(place)?);
    }
    device.digests_changed.notify_one();
    Ok(())
}

fn bundling(config: p4rt::digest_entry::Config) -> Result<digest::Config, Fault> {
    let negative = |_| Fault::invalid("sizes and timeouts can't be negative");
    Ok(digest::Config {
        max_timeout: Duration::from_nanos(config.max_timeout_ns.try_into().map_err(negative)?),
        max_list_size: config.max_list_size.try_into().map_err(negative)?,
        ack_timeout: Duration::from_nanos(config.ack_timeout_ns.try_into().map_err(negative)?),
    })
}
