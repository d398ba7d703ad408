//! The listening sockets of a switch: P4Runtime, metrics, control.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use tokio::net::{TcpListener, TcpSocket};

use crate::process::BoxError;
use crate::process::config::ProcessArgs;
use crate::process::trace_control::Control;

/// TCP connections that wait to be accepted by a developer's switch.
const BACKLOG: u32 = 64;

pub struct Sockets {
    pub grpc: Option<TcpListener>,
    pub metrics: Option<TcpListener>,
    pub control: Option<Control>,
}

impl Sockets {
    /// `locally`: for this computer alone.
    ///
    /// # Errors
    /// A text with its remedy.
    pub async fn open(
        grpc: Option<SocketAddr>,
        process: &ProcessArgs,
        locally: bool,
    ) -> Result<Self, BoxError> {
        let control = process.control.as_deref();
        Ok(Self {
            grpc: listen("--grpc", grpc, locally).await?,
            metrics: listen("--metrics", process.metrics, locally).await?,
            control: control
                .map(|path| Control::bind(path).map_err(|error| cannot_control(path, &error)))
                .transpose()?,
        })
    }

    /// The sockets of another process, in the order of [`Sockets::copies`].
    ///
    /// # Errors
    /// A descriptor is of something else.
    pub fn take(given: [Option<OwnedFd>; 3], process: &ProcessArgs) -> Result<Self, BoxError> {
        let [grpc, metrics, control] = given;
        let tcp = |fd: OwnedFd| {
            let listener = std::net::TcpListener::from(fd);
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        let control = control.zip(process.control.as_deref());
        Ok(Self {
            grpc: grpc.map(tcp).transpose()?,
            metrics: metrics.map(tcp).transpose()?,
            control: control
                .map(|(fd, path)| Control::take(fd, path))
                .transpose()?,
        })
    }

    /// Descriptors of the same sockets, for another process.
    ///
    /// # Errors
    /// The system gives none.
    pub fn copies(&self) -> std::io::Result<[Option<OwnedFd>; 3]> {
        let tcp = |listener: &TcpListener| listener.as_fd().try_clone_to_owned();
        Ok([
            self.grpc.as_ref().map(tcp).transpose()?,
            self.metrics.as_ref().map(tcp).transpose()?,
            self.control.as_ref().map(Control::copy).transpose()?,
        ])
    }
}

fn cannot_control(path: &std::path::Path, error: &std::io::Error) -> BoxError {
    format!(
        "cannot make the control socket {}: {error}. Remedy: change --control to a path in a folder of root's that nothing else has",
        path.display()
    )
    .into()
}

async fn listen(
    option: &str,
    address: Option<SocketAddr>,
    locally: bool,
) -> Result<Option<TcpListener>, BoxError> {
    let Some(address) = address else {
        return Ok(None);
    };
    if locally {
        return listen_locally(option, address).map(Some);
    }
    let listener = TcpListener::bind(address).await;
    listener.map(Some).map_err(cannot_listen(option, address))
}

/// Listens on the loopback interface, so that no setting of the kernel (`route_localnet`) lets other hosts in.
fn listen_locally(option: &str, address: SocketAddr) -> Result<TcpListener, BoxError> {
    let listener = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.bind_device(Some(b"lo"))?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listener().map_err(cannot_listen(option, address))
}

fn cannot_listen(option: &str, address: SocketAddr) -> impl Fn(std::io::Error) -> BoxError {
    move |error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another process listens there: end it, or change",
            std::io::ErrorKind::AddrNotAvailable => {
                "this host does not have the address: add it, or change"
            }
            _ => "change",
        };
        format!("cannot listen on {address}: {error}. Remedy: {remedy} {option}").into()
    }
}
