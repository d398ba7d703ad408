//! The module `culvert_ipsec._native`. It takes the values of `desired.py` as they are, by attribute.

use std::io;
use std::net::{IpAddr, SocketAddr};

use esp::{AllowedSuites, InboundSa, KeyMaterial, Limits, OutboundSa, Spi, Suite};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use crate::address::Prefix;
use crate::counters::{Drops, FlowCount};
use crate::pump::Pump;
use crate::selector::Selector;
use crate::tun::Tun;
use crate::tunnels::{Desired, Keyed, Refusal};
use crate::udp::Udp;

#[derive(FromPyObject)]
struct PyLimits {
    packets: u64,
    bytes: u64,
    seconds: u64,
}

#[derive(FromPyObject)]
struct PyInboundSa {
    spi: u32,
    key: PyBackedBytes,
    suite: String,
    esn: bool,
    replay_window: u16,
    soft: PyLimits,
    hard: PyLimits,
}

#[derive(FromPyObject)]
struct PyOutboundSa {
    spi: u32,
    key: PyBackedBytes,
    suite: String,
    esn: bool,
    soft: PyLimits,
    hard: PyLimits,
}

#[derive(FromPyObject)]
struct PyTunnel {
    tunnel_id: String,
    inner_address: IpAddr,
    remote_prefixes: Vec<String>,
    outer_address: IpAddr,
    outer_port: u16,
    inbound: Vec<PyInboundSa>,
    outbound: Option<PyOutboundSa>,
    inner_address6: Option<IpAddr>,
    selectors: Vec<PySelector>,
    inbound_only: Vec<PySelector>,
}

#[derive(FromPyObject)]
struct PySelector {
    prefix: String,
    protocol: Option<u8>,
    ports: (u16, u16),
}

/// A TUN device, a UDP socket, and the thread between them.
#[pyclass(frozen, module = "culvert_ipsec._native")]
pub(crate) struct Datapath {
    pump: std::sync::Mutex<Option<Pump>>,
    udp_port: u16,
    allowed: AllowedSuites,
}

#[pymethods]
impl Datapath {
    #[new]
    #[pyo3(signature = (tun_name, udp_port, allowed_suites = vec![], *, offloads = true))]
    fn new(
        py: Python<'_>,
        tun_name: &str,
        udp_port: u16,
        allowed_suites: Vec<String>,
        offloads: bool,
    ) -> PyResult<Self> {
        let allowed = allowed_suites
            .iter()
            .map(|name| name.parse::<Suite>())
            .collect::<Result<_, _>>()
            .map_err(invalid)?;
        py.detach(|| {
            let udp = Udp::bind(udp_port, offloads)?;
            let udp_port = udp.port()?;
            let pump = Pump::start(Tun::open(tun_name, offloads)?, udp)?;
            Ok::<_, io::Error>(Self {
                pump: std::sync::Mutex::new(Some(pump)),
                udp_port,
                allowed,
            })
        })
        .map_err(os_error)
    }

    /// The port that is bound, also when 0 was asked for.
    #[getter]
    fn udp_port(&self) -> u16 {
        self.udp_port
    }

    fn apply(&self, py: Python<'_>, tunnels: Vec<PyTunnel>) -> PyResult<()> {
        let desired = tunnels
            .into_iter()
            .map(|tunnel| desired(tunnel, self.allowed))
            .collect::<PyResult<Vec<_>>>()?;
        self.with_pump(py, |pump| pump.apply(desired))?
            .map_err(refused)
    }

    #[allow(
        clippy::type_complexity,
        reason = "rows for the dataclasses of counters.py"
    )]
    fn traffic(
        &self,
        py: Python<'_>,
    ) -> PyResult<
        Vec<(
            String,
            (u64, u64, Option<f64>),
            (u64, u64, Option<f64>),
            Py<PyDict>,
        )>,
    > {
        let row = |flow: FlowCount| (flow.packets, flow.bytes, flow.last);
        let rows: Vec<_> = self.with_pump(py, |pump| {
            pump.inspect(|tunnels| {
                tunnels
                    .traffic()
                    .map(|(id, traffic)| (id.to_owned(), *traffic))
                    .collect()
            })
        })?;
        rows.into_iter()
            .map(|(id, traffic)| {
                Ok((
                    id,
                    row(traffic.inbound),
                    row(traffic.outbound),
                    drops(py, &traffic.drops)?,
                ))
            })
            .collect()
    }

    fn totals(&self, py: Python<'_>) -> PyResult<(Py<PyDict>, u64, u64, u64)> {
        let totals = self.with_pump(py, |pump| pump.inspect(|tunnels| *tunnels.totals()))?;
        Ok((
            drops(py, &totals.drops)?,
            totals.keepalives_in,
            totals.keepalives_out,
            totals.non_esp,
        ))
    }

    fn offloads(&self, py: Python<'_>) -> PyResult<(bool, bool, bool, bool)> {
        let offloads = self.with_pump(py, |pump| pump.offloads())?;
        Ok((
            offloads.tso,
            offloads.uso,
            offloads.udp_segment,
            offloads.udp_gro,
        ))
    }

    fn notices_fd(&self, py: Python<'_>) -> PyResult<i32> {
        self.with_pump(py, |pump| pump.notices_fd())
    }

    fn take_notices(&self, py: Python<'_>) -> PyResult<Vec<(String, u32, bool)>> {
        let notices = self.with_pump(py, |pump| pump.take_notices())?;
        Ok(notices
            .into_iter()
            .map(|it| (it.tunnel, it.spi, it.inbound))
            .collect())
    }

    /// Ends the thread and removes the TUN device. A second call does nothing.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.lock().take()));
    }
}

impl Datapath {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Pump>> {
        self.pump
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn with_pump<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&Pump) -> T + Send,
    ) -> PyResult<T> {
        py.detach(|| self.lock().as_ref().map(act))
            .ok_or_else(|| PyOSError::new_err("the datapath is closed"))
    }
}

fn desired(tunnel: PyTunnel, allowed: AllowedSuites) -> PyResult<Desired> {
    let prefix = |text: &String| {
        Prefix::parse(text)
            .ok_or_else(|| PyValueError::new_err(format!("{text:?} is not an address prefix")))
    };
    let everything = tunnel
        .remote_prefixes
        .iter()
        .map(|text| prefix(text).map(Selector::all));
    let selector = |it: &PySelector| -> PyResult<Selector> {
        Ok(Selector {
            prefix: prefix(&it.prefix)?,
            protocol: it.protocol,
            ports: it.ports,
        })
    };
    let remote: Vec<_> = if tunnel.selectors.is_empty() {
        everything.collect::<PyResult<_>>()?
    } else {
        tunnel
            .selectors
            .iter()
            .map(selector)
            .collect::<PyResult<_>>()?
    };
    Ok(Desired {
        id: tunnel.tunnel_id,
        inner: std::iter::once(tunnel.inner_address)
            .chain(tunnel.inner_address6)
            .collect(),
        remote,
        inbound_only: tunnel
            .inbound_only
            .iter()
            .map(selector)
            .collect::<PyResult<_>>()?,
        outer: SocketAddr::new(tunnel.outer_address, tunnel.outer_port),
        inbound: tunnel
            .inbound
            .into_iter()
            .map(|sa| inbound(sa, allowed))
            .collect::<PyResult<_>>()?,
        outbound: tunnel
            .outbound
            .map(|sa| outbound(sa, allowed))
            .transpose()?,
    })
}

fn inbound(desired: PyInboundSa, allowed: AllowedSuites) -> PyResult<Keyed<InboundSa>> {
    let (spi, key) = (
        checked_spi(desired.spi)?,
        material(&desired.suite, &desired.key, allowed)?,
    );
    let (soft, hard) = (limits(desired.soft), limits(desired.hard));
    let sa = InboundSa::new(spi, &key, desired.esn, desired.replay_window, soft, hard)
        .map_err(invalid)?;
    Ok(Keyed {
        spi,
        fingerprint: key.fingerprint(),
        suite: key.suite(),
        esn: desired.esn,
        soft,
        hard,
        sa,
    })
}

fn outbound(desired: PyOutboundSa, allowed: AllowedSuites) -> PyResult<Keyed<OutboundSa>> {
    let (spi, key) = (
        checked_spi(desired.spi)?,
        material(&desired.suite, &desired.key, allowed)?,
    );
    let (soft, hard) = (limits(desired.soft), limits(desired.hard));
    let sa = OutboundSa::new(spi, &key, desired.esn, soft, hard).map_err(invalid)?;
    Ok(Keyed {
        spi,
        fingerprint: key.fingerprint(),
        suite: key.suite(),
        esn: desired.esn,
        soft,
        hard,
        sa,
    })
}

fn limits(limits: PyLimits) -> Limits {
    Limits {
        packets: limits.packets,
        bytes: limits.bytes,
        seconds: limits.seconds,
    }
}

pub(crate) fn checked_spi(spi: u32) -> PyResult<Spi> {
    Spi::new(spi).map_err(invalid)
}

pub(crate) fn material(suite: &str, key: &[u8], allowed: AllowedSuites) -> PyResult<KeyMaterial> {
    let suite: Suite = suite.parse().map_err(invalid)?;
    let admitted = allowed.admit(suite).ok_or_else(|| {
        PyValueError::new_err(format!("{suite} is a legacy suite, and not allowed here"))
    })?;
    KeyMaterial::new(admitted, key).map_err(invalid)
}

pub(crate) fn invalid(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Makes an OSError with its errno, by which Python tells causes apart.
fn os_error(error: io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, error.to_string())),
        None => PyOSError::new_err(error.to_string()),
    }
}

fn refused(refusal: Refusal) -> PyErr {
    PyValueError::new_err(match refusal {
        Refusal::DuplicateTunnel(id) => format!("tunnel {id} is there twice"),
        Refusal::DuplicateSpi(spi) => format!("SPI {spi:#x} belongs to two inbound SAs"),
        Refusal::SharedKey => "two SAs share a key".to_owned(),
    })
}

fn drops(py: Python<'_>, drops: &Drops) -> PyResult<Py<PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in drops.named() {
        dict.set_item(name, count)?;
    }
    Ok(dict.unbind())
}
