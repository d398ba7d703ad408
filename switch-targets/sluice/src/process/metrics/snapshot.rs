//! A scrape: gathered first, then written.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::dataplane::ports::PortArg;
use crate::dataplane::traffic::PortTraffic;
use crate::p4runtime::state::Device;

/// Tables that are told one by one; a program with more has the rest left out.
const MAX_TABLES: usize = 256;

/// The state that a scrape reads.
pub struct Source {
    pub device: Arc<Device>,
    pub ports: Vec<PortArg>,
    pub hash_keys_refused: Arc<AtomicU64>,
    pub started: Instant,
}

impl Source {
    /// The page in the text format of OpenMetrics 1.0.
    ///
    /// # Errors
    /// The encoder's.
    pub async fn page(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("sluice");
        registry.register_collector(Box::new(self.snapshot().await));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }

    async fn snapshot(&self) -> Snapshot {
        let device = &self.device;
        let mut families = Vec::new();
        let mut single = |name, help, kind, value| {
            families.push(Family {
                name,
                help,
                kind,
                values: vec![(Vec::new(), value)],
            });
        };
        let traffic = &device.plane.traffic;
        single(
            "uptime_seconds",
            "Since the process started",
            Kind::Gauge,
            self.started.elapsed().as_secs(),
        );
        single(
            "packets_to_no_port",
            "Packets that the program sent to a port that does not exist",
            Kind::Counter,
            load(&traffic.to_no_port),
        );
        single(
            "packets_without_program",
            "Packets that came while there was no program",
            Kind::Counter,
            load(&traffic.without_program),
        );
        single(
            "digests_lost",
            "Digest messages that nobody took in time",
            Kind::Counter,
            load(&traffic.digests_lost),
        );
        single(
            "packet_ins_lost",
            "Packets for the controller that no client took in time",
            Kind::Counter,
            device.plane.packet_io.lost(),
        );
        single(
            "hash_keys_refused",
            "Packets whose hash key did not open",
            Kind::Counter,
            load(&self.hash_keys_refused),
        );
        let (streams, primary) = {
            let sessions = device.sessions.lock();
            (sessions.streams(), sessions.has_primary())
        };
        single(
            "p4runtime_streams",
            "Open P4Runtime streams",
            Kind::Gauge,
            streams as u64,
        );
        single(
            "p4runtime_primary",
            "1 when there is a primary client",
            Kind::Gauge,
            primary.into(),
        );
        let cookie = {
            let installed = device.installed.read().await;
            installed
                .as_ref()
                .map(|it| it.config.cookie.map_or(0, |cookie| cookie.cookie))
        };
        single(
            "program_present",
            "1 when a program has been pushed",
            Kind::Gauge,
            cookie.is_some().into(),
        );
        single(
            "program_cookie",
            "The cookie that the program was pushed with",
            Kind::Gauge,
            cookie.unwrap_or(0),
        );
        families.push(self.writes());
        self.of_ports(&mut families);
        self.of_program(&mut families);
        Snapshot(families)
    }

    fn writes(&self) -> Family {
        let counts = self.device.requests.0.lock();
        let values = counts.iter();
        let values = values.map(|(code, count)| (vec![("code", (*code).to_owned())], *count));
        Family {
            name: "p4runtime_writes",
            help: "Write requests by the code that they were answered with",
            kind: Kind::Counter,
            values: values.collect(),
        }
    }

    fn of_ports(&self, families: &mut Vec<Family>) {
        type Read = fn(&PortTraffic) -> &AtomicU64;
        let columns: [(&str, &str, Read); 12] = [
            ("port_received_packets", "Packets taken in", |it| {
                &it.received
            }),
            ("port_received_bytes", "Bytes of packets taken in", |it| {
                &it.received_bytes
            }),
            (
                "port_sent_packets",
                "Packets that the interface took",
                |it| &it.sent,
            ),
            (
                "port_sent_bytes",
                "Bytes of packets given to the interface",
                |it| &it.sent_bytes,
            ),
            (
                "port_missed_packets",
                "Frames that came in faster than they were taken",
                |it| &it.missed,
            ),
            (
                "port_oversize_packets",
                "Frames longer than the MTU on their way in",
                |it| &it.oversize,
            ),
            (
                "port_unfinished_packets",
                "Frames that came without their checksums",
                |it| &it.without_checksum,
            ),
            (
                "port_too_long_packets",
                "Frames longer than the MTU on their way out",
                |it| &it.too_long,
            ),
            (
                "port_refused_packets",
                "Frames that the interface did not take",
                |it| &it.refused,
            ),
            (
                "port_malformed_packets",
                "Super-frames and unfinished checksums that were not what they said",
                |it| &it.malformed,
            ),
            (
                "port_received_super_frames",
                "Super-frames taken in; each is as many packets as it stands for",
                |it| &it.received_super_frames,
            ),
            (
                "port_sent_super_frames",
                "Super-frames that packets went out in",
                |it| &it.sent_super_frames,
            ),
        ];
        for (name, help, read) in columns {
            let values = self.ports.iter().filter_map(|port| {
                let traffic = self.device.plane.traffic.port(port.number)?;
                let labels = vec![
                    ("port", port.number.to_string()),
                    ("interface", port.interface.clone()),
                ];
                Some((labels, load(read(traffic))))
            });
            families.push(Family {
                name,
                help,
                kind: Kind::Counter,
                values: values.collect(),
            });
        }
    }

    fn of_program(&self, families: &mut Vec<Family>) {
        let guard = self.device.plane.lock();
        let Some(running) = guard.as_ref() else {
            return;
        };
        let switch = &running.switch;
        let faults = switch.faults();
        let faults = [
            ("too_many_passes", faults.too_many_passes),
            ("too_many_copies", faults.too_many_copies),
            ("too_many_steps", faults.too_many_steps),
        ];
        let tables = switch.program().tables().iter().zip(switch.table_sizes());
        let tables = tables
            .take(MAX_TABLES)
            .map(|(table, size)| (vec![("table", table.name.clone())], size as u64));
        let tables = Family {
            name: "table_entries",
            help: "Entries of a table",
            kind: Kind::Gauge,
            values: tables.collect(),
        };
        drop(guard);
        families.push(tables);
        families.push(Family {
            name: "pipeline_faults",
            help: "Packets that the switch gave up, by cause",
            kind: Kind::Counter,
            values: faults
                .map(|(cause, count)| (vec![("cause", cause.to_owned())], count))
                .to_vec(),
        });
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Gauge,
}

impl Kind {
    fn write(self, value: u64, metric: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter => ConstCounter::new(value).encode(metric),
            Self::Gauge => ConstGauge::new(value).encode(metric),
        }
    }
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    values: Vec<(Labels, u64)>,
}

#[derive(Debug)]
struct Snapshot(Vec<Family>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for (labels, value) in &family.values {
                // A set of no labels would be written as braces.
                if labels.is_empty() {
                    family.kind.write(*value, metric)?;
                    break;
                }
                family.kind.write(*value, metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}
