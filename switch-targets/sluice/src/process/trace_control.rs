//! The control socket: `sluice trace --control PATH` and `sluice reload --control PATH` ask, the running switch tells.
//!
//! The request is one line of JSON. The answer's first line is [`TAKEN`], or why it is not; behind it comes what the client
//! prints. One trace at a time; root and the switch's own user alone may ask, whatever the socket's mode is.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tracing::info;

use crate::condition::{Condition, Conditions};
use crate::dataplane::plane::DataPlane;
use crate::dataplane::trace::{Filter, Format, render};
use crate::process::handover::NextProgram;

/// Bytes of a request.
const MAX_REQUEST: u64 = 16384;
/// Packets that one request may ask for.
pub const MAX_COUNT: u64 = 100_000;
/// The answer to a request that is served.
pub const TAKEN: &str = "taken";
/// Packets between the data plane and the client.
const BACKLOG: usize = 64;
/// Clients at once.
const CONNECTIONS: usize = 8;
/// The pause after the operating system refused a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// A client's request must arrive within this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client's wish that the switch goes on in a new process.
pub struct ReloadRequest {
    pub next: Option<NextProgram>,
    /// The new process's id, or the reason why this one goes on.
    pub reply: oneshot::Sender<Result<u32, String>>,
    /// Closed when the client has been answered.
    pub answered: oneshot::Receiver<()>,
}

/// The socket, which goes when this does, unless another process has it too.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// Another process has the socket.
    pub given: Arc<AtomicBool>,
}

impl Control {
    /// # Errors
    /// Something else has the path, or it can't be made.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if let Ok(old) = std::fs::symlink_metadata(path) {
            let is_left_over = old.file_type().is_socket()
                && std::os::unix::net::UnixStream::connect(path).is_err();
            if !is_left_over {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            given: Arc::default(),
        })
    }

    /// The socket of the process before, which still has it.
    ///
    /// # Errors
    /// The descriptor is no such socket.
    pub fn take(fd: OwnedFd, path: &Path) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::from(fd);
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: UnixListener::from_std(listener)?,
            path: path.to_owned(),
            given: Arc::new(true.into()),
        })
    }

    /// # Errors
    /// The system gives no descriptor.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }

    /// Answers clients. What they ask of the process as a whole goes to `reloads`.
    pub async fn run(
        self,
        plane: Arc<DataPlane>,
        conditions: Arc<Conditions>,
        reloads: mpsc::Sender<ReloadRequest>,
    ) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) if may_ask(&stream) => {
                    let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                        continue;
                    };
                    let (plane, reloads) = (Arc::clone(&plane), reloads.clone());
                    tokio::spawn(async move {
                        let _permit = permit;
                        if let Err(error) = answer(&plane, &reloads, stream).await {
                            info!(%error, "a client of the control socket has left");
                        }
                    });
                }
                Ok((stream, _)) => {
                    let user = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
                    conditions.met(Condition::Foreign, format!("user {user}"));
                }
                Err(error) => {
                    conditions.met(
                        Condition::Unaccepted,
                        format!("on the control socket: {error}"),
                    );
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if !self.given.load(Ordering::Relaxed) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn may_ask(stream: &UnixStream) -> bool {
    let own = std::fs::metadata("/proc/self").map(|own| own.uid());
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == 0 || own.as_ref().is_ok_and(|own| *own == peer.uid()))
}

async fn answer(
    plane: &DataPlane,
    reloads: &mpsc::Sender<ReloadRequest>,
    mut stream: UnixStream,
) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read.take(MAX_REQUEST));
    let mut line = String::new();
    timeout(PATIENCE, read.read_line(&mut line)).await??;
    if let Some(next) = parse_reload(&line) {
        let (reply, replied) = oneshot::channel();
        let (told, answered) = oneshot::channel();
        let request = ReloadRequest {
            next,
            reply,
            answered,
        };
        let busy = || "another reload is under way".to_owned();
        let replied = match reloads.try_send(request) {
            Ok(()) => replied.await.unwrap_or_else(|_| Err(busy())),
            Err(_) => Err(busy()),
        };
        let text = match replied {
            Ok(pid) => format!("{TAKEN}\nprocess {pid} has taken over\n"),
            Err(reason) => format!("{reason}\n"),
        };
        let written = write.write_all(text.as_bytes()).await;
        drop(told);
        return written;
    }
    let Some((filter, format)) = parse(&line) else {
        let text = b"the request is malformed: is the switch of another version?\n";
        return write.write_all(text).await;
    };
    let (to, mut explained) = mpsc::channel(BACKLOG);
    let Some(ticket) = plane.tap.open(filter, to) else {
        return write.write_all(b"another trace is under way\n").await;
    };
    info!("a trace begins");
    let print = async {
        write.write_all(format!("{TAKEN}\n").as_bytes()).await?;
        let mut number = 0;
        while let Some(packet) = explained.recv().await {
            number += 1;
            write
                .write_all(render(format, number, &packet).as_bytes())
                .await?;
        }
        Ok(())
    };
    let mut rest = Vec::new();
    let result = tokio::select! {
        result = print => result,
        // The client has closed the connection.
        _ = read.read_to_end(&mut rest) => Ok(()),
    };
    plane.tap.shut(ticket);
    result
}

/// The request line of a client. Tests are sent as they are written on the command line.
pub fn request(filter: &Filter, format: Format) -> String {
    let fields = filter.fields.iter().map(ToString::to_string);
    let line = json!({
        "port": filter.port, "count": filter.count, "match": filter.pattern.as_ref().map(ToString::to_string),
        "where": fields.collect::<Vec<_>>(), "dropped": filter.dropped, "json": format == Format::Json,
    });
    format!("{line}\n")
}

/// The request line of a client that wants a new process. Paths must be absolute: the switch has another folder.
pub fn reload_request(next: Option<&NextProgram>) -> String {
    let next = next.map(|it| json!({ "json": it.json, "p4info": it.p4info, "cookie": it.cookie }));
    format!("{}\n", json!({ "reload": true, "next": next }))
}

/// The outer `None`: no such request.
fn parse_reload(line: &str) -> Option<Option<NextProgram>> {
    let request: Value = serde_json::from_str(line).ok()?;
    request["reload"].as_bool().filter(|it| *it)?;
    let next = &request["next"];
    if next.is_null() {
        return Some(None);
    }
    Some(Some(NextProgram {
        json: next["json"].as_str()?.to_owned(),
        p4info: next["p4info"].as_str()?.to_owned(),
        cookie: next["cookie"].as_u64(),
    }))
}

fn parse(line: &str) -> Option<(Filter, Format)> {
    let request: Value = serde_json::from_str(line).ok()?;
    let count = request["count"].as_u64()?;
    let fields = request["where"].as_array()?.iter();
    let filter = Filter {
        port: match &request["port"] {
            Value::Null => None,
            port => Some(u16::try_from(port.as_u64()?).ok()?),
        },
        count: usize::try_from(count)
            .ok()
            .filter(|_| (1..=MAX_COUNT).contains(&count))?,
        pattern: match &request["match"] {
            Value::Null => None,
            pattern => Some(pattern.as_str()?.parse().ok()?),
        },
        fields: fields
            .map(|field| field.as_str()?.parse().ok())
            .collect::<Option<_>>()?,
        dropped: request["dropped"].as_bool()?,
    };
    let format = match request["json"].as_bool()? {
        true => Format::Json,
        false => Format::Text,
    };
    Some((filter, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_names_a_program_or_none() {
        let next = NextProgram {
            json: "/a".into(),
            p4info: "/b".into(),
            cookie: Some(u64::MAX),
        };
        assert_eq!(parse_reload(&reload_request(None)), Some(None));
        assert_eq!(parse_reload(&reload_request(Some(&next))), Some(Some(next)));
        for bad in [
            "",
            "{}",
            r#"{"reload":false}"#,
            r#"{"reload":true,"next":{"json":"/a"}}"#,
        ] {
            assert_eq!(parse_reload(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_request_is_what_was_asked_for() {
        let filter = Filter {
            port: Some(3),
            count: 5,
            pattern: "12:0800".parse().ok(),
            fields: "ipv4.dst=10.0.0.0/8".parse().into_iter().collect(),
            dropped: true,
        };
        let line = request(&filter, Format::Json);
        assert_eq!(parse(&line), Some((filter, Format::Json)));
        for bad in [
            "",
            "{}",
            r#"{"port":70000,"count":1,"match":null,"where":[],"dropped":false,"json":false}"#,
            r#"{"port":1,"count":0,"match":null,"where":[],"dropped":false,"json":false}"#,
            r#"{"port":1,"count":1,"match":"0:8","where":[],"dropped":false,"json":false}"#,
            r#"{"port":1,"count":1,"match":null,"where":["x"],"dropped":false,"json":false}"#,
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
