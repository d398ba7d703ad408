//! The module `culvert_agent_server._native`.

use std::collections::HashMap;
use std::future::Future;
use std::net::TcpListener;
use std::os::fd::{IntoRawFd as _, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use culvert_admission::{ConnectionLimits, Forwarded, Prefix, Rate, shares};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustls::ServerConfig;
use tokio::sync::{oneshot, watch};
use tonic::{Code, Status};

use crate::call::{self, Called, Refusal};
use crate::devices::{Devices, Fingerprint};
use crate::gateways::Gateways;
use crate::news::{Asked, Board, News, Reply, Told};
use crate::port::{self, Port};
use crate::rest::{self, Front, Problems, RestNews, Times};
use crate::tls::Shown;
use crate::{listener, tls};

/// The rate of strangers' connections from one IPv4 address or IPv6 /64.
const CONNECTING: Rate = Rate {
    per_second: 50.0,
    burst: 500.0,
};
/// A burst is as many calls as the rate allows in this many seconds.
const BURST_SECONDS: f64 = 10.0;

/// The devices' port: a listening socket, its connections, and the thread that has them.
#[pyclass(frozen, module = "culvert_agent_server._native")]
struct Server {
    board: Arc<Board<News>>,
    devices: Arc<Devices>,
    gateways: Arc<Gateways>,
    shown: watch::Sender<Arc<Shown>>,
    running: Running,
    port: u16,
}

/// The REST API's port, likewise.
#[pyclass(frozen, module = "culvert_agent_server._native")]
struct RestServer {
    board: Arc<Board<RestNews>>,
    shown: watch::Sender<Arc<ServerConfig>>,
    running: Running,
    port: u16,
}

type Ends = (i32, String, Vec<u8>);
/// PEM: a certificate chain, its key, and the CAs of the peers.
type Credentials = (Vec<u8>, Vec<u8>, Vec<u8>);

#[pymethods]
impl Server {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        host: &str,
        port: u16,
        handshake_seconds: f64,
        files: usize,
        calls_per_second: f64,
        too_large: Ends,
        too_often: Ends,
        to_devices: Credentials,
        to_gateways: Option<Credentials>,
        directory: PathBuf,
        balancers: Vec<String>,
    ) -> PyResult<Self> {
        let balancers = prefixes(&balancers)?;
        let handshake_time = seconds(handshake_seconds)?;
        let shares = shares(files);
        let devices = Arc::new(Devices::new(shares.devices, rate(calls_per_second)?));
        let board = Arc::new(Board::new()?);
        let gateways = Arc::new(Gateways::new(directory, Arc::clone(&board)));
        let config = configs(&to_devices, to_gateways.as_ref(), &devices, &gateways)?;
        let socket = port::listening(host, port)?;
        let (shown, showing) = watch::channel(config);
        let called = Arc::new(Called {
            board: Arc::clone(&board),
            devices: Arc::clone(&devices),
            too_large: refusal(too_large),
            too_often: refusal(too_often),
        });
        let strangers = Port::new(
            ConnectionLimits::of(shares.handshakes),
            CONNECTING,
            Forwarded::default(),
            Forwarded::by(balancers),
            Arc::clone(&board),
        );
        let (port, telling) = (socket.local_addr()?.port(), Arc::clone(&board));
        let serving = Arc::clone(&gateways);
        let running = Running::start("devices", socket, |listener, ending| async move {
            let strangers = Arc::new(strangers);
            let patience = handshake_time;
            listener::serve(
                listener, showing, patience, called, serving, strangers, ending,
            )
            .await;
            telling.tell(News::Ended);
            // The connections of gateways last until `close`.
            std::future::pending().await
        })?;
        Ok(Self {
            board,
            devices,
            gateways,
            shown,
            running,
            port,
        })
    }

    #[getter]
    fn port(&self) -> u16 {
        self.port
    }

    fn fileno(&self) -> RawFd {
        self.board.fd()
    }

    fn show(&self, to_devices: Credentials, to_gateways: Option<Credentials>) -> PyResult<()> {
        let (devices, gateways) = (&self.devices, &self.gateways);
        let config = configs(&to_devices, to_gateways.as_ref(), devices, gateways)?;
        self.shown.send_replace(config);
        Ok(())
    }

    fn register(&self, gateways: HashMap<String, i64>) {
        self.gateways.register(gateways);
    }

    fn deny(&self, fingerprints: Vec<Fingerprint>) {
        for fingerprint in fingerprints {
            self.devices.deny(fingerprint);
        }
    }

    fn take(&self, py: Python<'_>) -> PyResult<Vec<(u64, Py<PyAny>)>> {
        let told = |one| {
            Ok(match one {
                News::Asked(asked) => (asked.number, Py::new(py, Call(asked))?.into_any()),
                News::Taken(number) => (
                    number,
                    true.into_pyobject(py)?.to_owned().into_any().unbind(),
                ),
                News::Gone(number) => (
                    number,
                    false.into_pyobject(py)?.to_owned().into_any().unbind(),
                ),
                News::Limited(it) => {
                    let limited = Limited {
                        fingerprint: it.fingerprint,
                        address: it.address.to_string(),
                        count: it.count,
                    };
                    (0, Py::new(py, limited)?.into_any())
                }
                News::Told(told) => (0, Py::new(py, Condition::from(told))?.into_any()),
                News::Gateway(it) => {
                    let gateway = Gateway {
                        name: it.name,
                        path: it.path,
                        connected: it.connected,
                    };
                    (0, Py::new(py, gateway)?.into_any())
                }
                News::Ended => (0, py.None()),
            })
        };
        self.board.take().into_iter().map(told).collect()
    }

    fn end(&self) {
        self.running.end();
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.running.close(py)
    }
}

#[pymethods]
impl RestServer {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        host: &str,
        port: u16,
        handshake_seconds: f64,
        request_seconds: f64,
        files: usize,
        strangers_calls_per_second: f64,
        trusted_proxies: Vec<String>,
        balancers: Vec<String>,
        problems: (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>),
        chain: &[u8],
        key: &[u8],
    ) -> PyResult<Self> {
        let (trusted, balancers) = (prefixes(&trusted_proxies)?, prefixes(&balancers)?);
        let config = tls::open(chain, key, None, None).map_err(PyValueError::new_err)?;
        let socket = port::listening(host, port)?;
        let board = Arc::new(Board::new()?);
        let (shown, showing) = watch::channel(config);
        let (malformed, too_large, too_often, fault) = problems;
        let problems = Problems {
            malformed: malformed.into(),
            too_large: too_large.into(),
            too_often: too_often.into(),
            fault: fault.into(),
        };
        let times = Times {
            handshake: seconds(handshake_seconds)?,
            request: seconds(request_seconds)?,
        };
        let rate = rate(strangers_calls_per_second)?;
        let front = Arc::new(Front::new(Arc::clone(&board), problems, times, rate));
        let connections = Port::new(
            ConnectionLimits::of(shares(files).rest),
            CONNECTING,
            Forwarded::by(trusted),
            Forwarded::by(balancers),
            Arc::clone(&board),
        );
        let (port, telling) = (socket.local_addr()?.port(), Arc::clone(&board));
        let running = Running::start("rest", socket, |listener, ending| async move {
            rest::serve(listener, showing, front, Arc::new(connections), ending).await;
            telling.tell(RestNews::Ended);
        })?;
        Ok(Self {
            board,
            shown,
            running,
            port,
        })
    }

    #[getter]
    fn port(&self) -> u16 {
        self.port
    }

    fn fileno(&self) -> RawFd {
        self.board.fd()
    }

    #[pyo3(signature = (chain, key, public=None, challenge=None))]
    fn show(
        &self,
        chain: &[u8],
        key: &[u8],
        public: Option<(Vec<u8>, Vec<u8>)>,
        challenge: Option<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<()> {
        let config = tls::open(chain, key, public.as_ref(), challenge.as_ref())
            .map_err(PyValueError::new_err)?;
        self.shown.send_replace(config);
        Ok(())
    }

    fn take(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let told = |one| {
            Ok(match one {
                RestNews::Request(socket, source) => (socket.into_raw_fd(), source.to_string())
                    .into_pyobject(py)?
                    .into_any()
                    .unbind(),
                RestNews::Told(told) => Py::new(py, Condition::from(told))?.into_any(),
                RestNews::Ended => py.None(),
            })
        };
        self.board.take().into_iter().map(told).collect()
    }

    fn end(&self) {
        self.running.end();
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.running.close(py)
    }
}

fn prefixes(texts: &[String]) -> PyResult<Vec<Prefix>> {
    let prefix = |text: &String| {
        Prefix::parse(text).ok_or_else(|| PyValueError::new_err(format!("{text} is not a prefix")))
    };
    texts.iter().map(prefix).collect()
}

/// A thread with its own runtime.
struct Running(Mutex<Option<Parts>>);

struct Parts {
    end: Option<oneshot::Sender<()>>,
    abort: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start<F: Future<Output = ()> + Send + 'static>(
        name: &str,
        socket: TcpListener,
        serve: impl FnOnce(tokio::net::TcpListener, oneshot::Receiver<()>) -> F,
    ) -> PyResult<Self> {
        let (end, ending) = oneshot::channel();
        let (abort, aborted) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(socket)?
        };
        let serving = serve(listener, ending);
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serving => {}
                    _ = aborted => {}
                }
            });
        })?;
        Ok(Self(Mutex::new(Some(Parts {
            end: Some(end),
            abort,
            thread,
        }))))
    }

    fn end(&self) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = parts.as_mut().and_then(|it| it.end.take()) {
            let _ = end.send(());
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(parts) = parts.take() else {
            return Ok(());
        };
        let _ = parts.abort.send(());
        py.detach(|| parts.thread.join())
            .map_err(|_| PyRuntimeError::new_err("a server's thread panicked"))
    }
}

fn configs(
    (chain, key, roots): &Credentials,
    to_gateways: Option<&Credentials>,
    devices: &Arc<Devices>,
    gateways: &Arc<Gateways>,
) -> PyResult<Arc<Shown>> {
    let dialled = |(chain, key, roots): &Credentials| tls::dialled(chain, key, roots, gateways);
    let shown = Shown {
        devices: tls::mutual(chain, key, roots, devices).map_err(PyValueError::new_err)?,
        gateways: to_gateways
            .map(dialled)
            .transpose()
            .map_err(PyValueError::new_err)?,
    };
    Ok(Arc::new(shown))
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn rate(per_second: f64) -> PyResult<Rate> {
    // A smaller rate would overflow the time at which a bucket is full.
    if !(1e-6..=1e9).contains(&per_second) {
        return Err(PyValueError::new_err("a rate is from 1e-6 to 1e9 a second"));
    }
    Ok(Rate {
        per_second,
        burst: (per_second * BURST_SECONDS).max(1.0),
    })
}

fn refusal((code, said, details): Ends) -> Refusal {
    Refusal {
        code,
        said,
        details: details.into(),
    }
}

/// A call that a device has made.
#[pyclass(frozen, module = "culvert_agent_server._native")]
struct Call(Asked);

#[pymethods]
impl Call {
    #[getter]
    fn path(&self) -> &str {
        &self.0.path
    }

    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.message)
    }

    #[getter]
    fn address(&self) -> String {
        self.0.device.address.to_string()
    }

    #[getter]
    fn fingerprint<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.device.fingerprint)
    }

    fn send(&self, message: &[u8]) -> PyResult<()> {
        let framed = call::framed(message).ok_or_else(|| PyValueError::new_err("too long"))?;
        self.reply(Reply::Message(framed));
        Ok(())
    }

    fn end(&self, code: i32, said: &str, details: &[u8]) {
        let details = Bytes::copy_from_slice(details);
        let status = Status::with_details(Code::from_i32(code), said, details);
        self.reply(Reply::End(status));
    }
}

impl Call {
    fn reply(&self, reply: Reply) {
        // Python hears of it when nobody waits any more.
        let _ = self.0.replies.send(Box::new(reply));
    }
}

/// Calls of one device that were refused before Python, because they came too often.
#[pyclass(frozen, module = "culvert_agent_server._native")]
struct Limited {
    fingerprint: Fingerprint,
    #[pyo3(get)]
    address: String,
    #[pyo3(get)]
    count: u64,
}

#[pymethods]
impl Limited {
    #[getter]
    fn fingerprint<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.fingerprint)
    }
}

/// A gateway's connection has begun or ended.
#[pyclass(frozen, get_all, module = "culvert_agent_server._native")]
struct Gateway {
    name: String,
    path: PathBuf,
    connected: bool,
}

/// An event that deserves a line in the log.
#[pyclass(frozen, get_all, module = "culvert_agent_server._native")]
struct Condition {
    name: &'static str,
    count: u64,
    ended: bool,
}

impl From<Told> for Condition {
    fn from(told: Told) -> Self {
        Self {
            name: told.condition.name(),
            count: told.report.count,
            ended: told.report.ended,
        }
    }
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{Call, Condition, Gateway, Limited, RestServer, Server};

    #[pymodule_export]
    const REQUEST_MAX: usize = crate::call::LONGEST;
    #[pymodule_export]
    const HEAD_MAX: usize = crate::rest::HEAD;
    #[pymodule_export]
    const BODY_MAX: u64 = crate::rest::BODY;
}
