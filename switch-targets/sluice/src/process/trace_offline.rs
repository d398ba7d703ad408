//! A program, its entries and packets from files: no switch runs.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pcap_file::pcap::PcapReader;
use prost_reflect::{DescriptorPool, DynamicMessage};
use sluice_pipeline::{ExternRegistry, Outcome};
use thiserror::Error;
use tokio::sync::mpsc;

use crate::dataplane::cpu_port::PacketIo;
use crate::dataplane::plane::DataPlane;
use crate::dataplane::trace::Explained;
use crate::fault::Fault;
use crate::p4runtime::pipeline_config;
use crate::p4runtime::state::{Device, Saved};
use crate::p4runtime::write;
use crate::proto::{DESCRIPTORS, info::P4Info, p4rt};

/// Bytes of a file that is read whole.
const MAX_FILE: u64 = 64 << 20;

#[derive(Debug, Error)]
pub enum OfflineError {
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("{} is longer than {} MB", path.display(), MAX_FILE >> 20)]
    TooLong { path: PathBuf },
    #[error("{} is no {message} in text form: {cause}", path.display())]
    NotText {
        path: PathBuf,
        message: &'static str,
        cause: String,
    },
    #[error("{}: {}", path.display(), fault.message)]
    Refused { path: PathBuf, fault: Fault },
    #[error("{}: update {number}: {}", path.display(), fault.message)]
    Update {
        path: PathBuf,
        number: usize,
        fault: Fault,
    },
    #[error("{} is no capture: {cause}", path.display())]
    NotCapture { path: PathBuf, cause: String },
}

/// A switch without ports, with a program.
pub struct Bench(Saved);

/// The contents of a program, for people.
pub struct Contents {
    pub tables: Vec<String>,
    pub counters: usize,
    pub digests: usize,
    /// Objects of the P4Info that the program lacks.
    pub absent: Vec<String>,
}

/// A program for `device`, from its two files.
///
/// # Errors
/// A file can't be read, or is not what it should be, with the place of the fault.
pub fn load(device: &Device, json: &Path, p4info: &Path) -> Result<Saved, OfflineError> {
    let config = p4rt::ForwardingPipelineConfig {
        p4info: Some(from_text::<P4Info>(p4info, "p4.config.v1.P4Info")?),
        p4_device_config: read(json)?,
        cookie: None,
    };
    pipeline_config::build(device, Some(config)).map_err(|fault| OfflineError::Refused {
        path: json.to_owned(),
        fault,
    })
}

/// Applies the updates of a `p4.v1.WriteRequest` in text form.
///
/// # Errors
/// The first update that is refused; those before it are applied.
pub fn write(saved: &mut Saved, entries: &Path) -> Result<(), OfflineError> {
    let request = from_text::<p4rt::WriteRequest>(entries, "p4.v1.WriteRequest")?;
    for (at, update) in request.updates.into_iter().enumerate() {
        write::perform(&saved.device, &mut saved.installed, update).map_err(|fault| {
            OfflineError::Update {
                path: entries.to_owned(),
                number: at + 1,
                fault,
            }
        })?;
    }
    Ok(())
}

impl Bench {
    /// # Errors
    /// As [`load`].
    pub fn load(json: &Path, p4info: &Path, externs: ExternRegistry) -> Result<Self, OfflineError> {
        let refused_io = |cause| OfflineError::Unreadable {
            path: json.to_owned(),
            cause,
        };
        let (learned, _) = mpsc::channel(1);
        let (packet_io, _) = PacketIo::new(None).map_err(refused_io)?;
        let plane = DataPlane::new(learned, Arc::new(packet_io), 1);
        let device = Device::new(1, Arc::new(plane), externs);
        Ok(Self(load(&device, json, p4info)?))
    }

    /// # Errors
    /// As [`write()`].
    pub fn write(&mut self, entries: &Path) -> Result<(), OfflineError> {
        write(&mut self.0, entries)
    }

    pub fn explain(&mut self, port: u16, frame: &[u8]) -> Explained {
        let running = self.0.device.plane.lock();
        let mut out = Outcome::new();
        let steps = running.as_ref().map(|running| {
            running
                .switch
                .explain(port, frame, Duration::ZERO, &mut out)
        });
        Explained {
            port,
            frame: frame.to_vec(),
            steps: steps.unwrap_or_default(),
            lost: 0,
        }
    }

    pub fn contents(&self) -> Contents {
        let schema = &self.0.installed.schema;
        let tables = schema.tables.values();
        Contents {
            tables: tables.map(|table| table.name.clone()).collect(),
            counters: schema.counters.len() + schema.direct_counters.len(),
            digests: schema.digests.len(),
            absent: schema.absent.values().cloned().collect(),
        }
    }
}

/// The packets of a capture (pcap).
///
/// # Errors
/// The file can't be read, or is no capture.
pub fn packets(path: &Path) -> Result<Vec<Vec<u8>>, OfflineError> {
    let not_capture = |cause: pcap_file::PcapError| OfflineError::NotCapture {
        path: path.to_owned(),
        cause: cause.to_string(),
    };
    let bytes = read(path)?;
    let mut reader = PcapReader::new(BufReader::new(bytes.as_slice())).map_err(not_capture)?;
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        packets.push(packet.map_err(not_capture)?.data.into_owned());
    }
    Ok(packets)
}

fn read(path: &Path) -> Result<Vec<u8>, OfflineError> {
    let unreadable = |cause| OfflineError::Unreadable {
        path: path.to_owned(),
        cause,
    };
    if fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE {
        return Err(OfflineError::TooLong {
            path: path.to_owned(),
        });
    }
    fs::read(path).map_err(unreadable)
}

/// Reads a message in text form.
fn from_text<M: prost::Message + Default>(
    path: &Path,
    message: &'static str,
) -> Result<M, OfflineError> {
    let not_text = |cause: String| OfflineError::NotText {
        path: path.to_owned(),
        message,
        cause,
    };
    let text = String::from_utf8(read(path)?).map_err(|error| not_text(error.to_string()))?;
    let pool = DescriptorPool::decode(DESCRIPTORS).map_err(|error| not_text(error.to_string()))?;
    let descriptor = pool.get_message_by_name(message);
    let descriptor = descriptor.ok_or_else(|| not_text("it is not known".to_owned()))?;
    let parsed = DynamicMessage::parse_text_format(descriptor, &text)
        .map_err(|error| not_text(error.to_string()))?;
    parsed
        .transcode_to()
        .map_err(|error| not_text(error.to_string()))
}
