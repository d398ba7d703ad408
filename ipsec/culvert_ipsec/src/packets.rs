//! Single SAs for Python, packet by packet: for tests, and for who brings his own I/O.

use std::time::Duration;

use esp::{AllowedSuites, InboundSa, Limits, OpenError, OutboundSa, SUITES, SealError};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::device::monotonic;
use crate::python::{checked_spi, invalid, material};

create_exception!(culvert_ipsec._native, EspError, PyException);

/// An outbound SA without a datapath around it.
#[pyclass(module = "culvert_ipsec._native")]
pub(crate) struct Outbound(OutboundSa);

#[pymethods]
impl Outbound {
    #[new]
    #[pyo3(signature = (spi, suite, key, esn = true, allow_legacy = false, *, after = 0, pad_to = 0))]
    fn new(
        spi: u32,
        suite: &str,
        key: &[u8],
        esn: bool,
        allow_legacy: bool,
        after: u64,
        pad_to: u16,
    ) -> PyResult<Self> {
        let (spi, key) = (
            checked_spi(spi)?,
            material(suite, key, allowed(allow_legacy))?,
        );
        let mut sa =
            OutboundSa::new(spi, &key, esn, Limits::NONE, Limits::NONE).map_err(invalid)?;
        sa.resume_after(after);
        sa.pad_to(pad_to);
        Ok(Self(sa))
    }

    fn seal<'py>(&mut self, py: Python<'py>, inner: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = vec![0; self.0.sealed_len(inner.len())];
        let sealed = self.0.seal(inner, &mut out, now());
        let sealed = sealed.map_err(|error| seal_error(py, error))?;
        Ok(PyBytes::new(py, out.get(..sealed.len).unwrap_or_default()))
    }

    #[pyo3(signature = (len = 0))]
    fn seal_dummy<'py>(&mut self, py: Python<'py>, len: u16) -> PyResult<Bound<'py, PyBytes>> {
        let len = usize::from(len);
        let mut out = vec![0; self.0.sealed_len(len)];
        let sealed = self.0.seal_dummy(len, &mut out, now());
        let sealed = sealed.map_err(|error| seal_error(py, error))?;
        Ok(PyBytes::new(py, out.get(..sealed.len).unwrap_or_default()))
    }
}

/// An inbound SA without a datapath around it.
#[pyclass(module = "culvert_ipsec._native")]
pub(crate) struct Inbound(InboundSa);

#[pymethods]
impl Inbound {
    #[new]
    #[pyo3(signature = (spi, suite, key, esn = true, replay_window = 1024, allow_legacy = false, *, after = 0))]
    fn new(
        spi: u32,
        suite: &str,
        key: &[u8],
        esn: bool,
        replay_window: u16,
        allow_legacy: bool,
        after: u64,
    ) -> PyResult<Self> {
        let (spi, key) = (
            checked_spi(spi)?,
            material(suite, key, allowed(allow_legacy))?,
        );
        let (soft, hard) = (Limits::NONE, Limits::NONE);
        let mut sa = InboundSa::new(spi, &key, esn, replay_window, soft, hard).map_err(invalid)?;
        sa.resume_after(after);
        Ok(Self(sa))
    }

    fn open<'py>(&mut self, py: Python<'py>, packet: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let mut packet = packet.to_vec();
        let opened = self.0.open(&mut packet, now());
        let opened = opened.map_err(|error| open_error(py, error))?;
        Ok(PyBytes::new(
            py,
            packet.get(opened.range).unwrap_or_default(),
        ))
    }
}

fn allowed(legacy: bool) -> AllowedSuites {
    SUITES.into_iter().filter(|_| legacy).collect()
}

fn now() -> Duration {
    Duration::try_from_secs_f64(monotonic()).unwrap_or_default()
}

fn seal_error(py: Python<'_>, error: SealError) -> PyErr {
    let cause = match error {
        SealError::Malformed => "malformed",
        SealError::BufferTooSmall => "too_small",
        SealError::HardLimit => "hard_limit",
        SealError::NoRandomness => "no_randomness",
    };
    esp_error(py, cause, &error)
}

fn open_error(py: Python<'_>, error: OpenError) -> PyErr {
    let cause = match error {
        OpenError::Malformed => "malformed",
        OpenError::WrongSpi => "wrong_spi",
        OpenError::Replay => "replay",
        OpenError::Icv => "icv",
        OpenError::Dummy => "dummy",
        OpenError::HardLimit => "hard_limit",
    };
    esp_error(py, cause, &error)
}

fn esp_error(py: Python<'_>, cause: &str, error: &dyn std::error::Error) -> PyErr {
    let raised = EspError::new_err(error.to_string());
    match raised.value(py).setattr("cause", cause) {
        Ok(()) => raised,
        Err(other) => other,
    }
}
