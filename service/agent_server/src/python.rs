//! The module `culvert_agent_server._native`.

use std::net::TcpListener;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustls::ServerConfig;
use tokio::sync::{oneshot, watch};
use tonic::{Code, Status};

use crate::news::{Asked, Board, News, Reply};
use crate::{call, listener, tls};

/// A listening socket, its connections, and the thread that has them.
#[pyclass(frozen, module = "culvert_agent_server._native")]
struct Server {
    board: Arc<Board>,
    shown: watch::Sender<Arc<ServerConfig>>,
    running: Mutex<Option<Running>>,
    port: u16,
}

struct Running {
    end: Option<oneshot::Sender<()>>,
    abort: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

#[pymethods]
impl Server {
    #[new]
    fn new(
        host: &str,
        port: u16,
        handshake_seconds: f64,
        chain: &[u8],
        key: &[u8],
        devices: &[u8],
    ) -> PyResult<Self> {
        let handshake_time = Duration::try_from_secs_f64(handshake_seconds)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let config = tls::config(chain, key, devices).map_err(PyValueError::new_err)?;
        let socket = TcpListener::bind((host, port))?;
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        let board = Arc::new(Board::new()?);
        let (shown, showing) = watch::channel(config);
        let (end, ending) = oneshot::channel();
        let (abort, aborted) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(socket)?
        };
        let telling = Arc::clone(&board);
        let thread = thread::Builder::new()
            .name("devices".into())
            .spawn(move || {
                runtime.block_on(async {
                    let serving = listener::serve(
                        listener,
                        showing,
                        handshake_time,
                        Arc::clone(&telling),
                        ending,
                    );
                    tokio::select! {
                        () = serving => {}
                        _ = aborted => {}
                    }
                });
                drop(runtime);
                telling.tell(News::Ended);
            })?;
        Ok(Self {
            board,
            shown,
            running: Mutex::new(Some(Running {
                end: Some(end),
                abort,
                thread,
            })),
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

    fn show(&self, chain: &[u8], key: &[u8], devices: &[u8]) -> PyResult<()> {
        let config = tls::config(chain, key, devices).map_err(PyValueError::new_err)?;
        self.shown.send_replace(config);
        Ok(())
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
                News::Ended => (0, py.None()),
            })
        };
        self.board.take().into_iter().map(told).collect()
    }

    fn end(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = running.as_mut().and_then(|it| it.end.take()) {
            let _ = end.send(());
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = running.take() else {
            return Ok(());
        };
        let _ = running.abort.send(());
        py.detach(|| running.thread.join())
            .map_err(|_| PyRuntimeError::new_err("the thread of the devices' server panicked"))
    }
}

/// What a device has asked.
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

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{Call, Server};
}
