//! The control socket: `sluice trace --control PATH` asks, the running switch tells.
//!
//! The request is one line of JSON, the answer is what the client prints. One client at a time; root and the switch's own
//! user alone may ask, whatever the socket's mode is.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{info, warn};

use super::{Filter, Format, render};
use crate::dataplane::DataPlane;

/// Bytes of a request.
const MAX_REQUEST: u64 = 16384;
/// Packets that one request may ask for.
pub const MAX_COUNT: u64 = 100_000;
/// Packets between the data plane and the client.
const BACKLOG: usize = 64;
/// How long a client may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket, which goes when this does.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
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
        })
    }

    /// Answers one client after the other.
    pub async fn run(self, plane: Arc<DataPlane>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) if may_ask(&stream) => {
                    if let Err(error) = answer(&plane, stream).await {
                        info!(%error, "a trace ended");
                    }
                }
                Ok(_) => warn!("a user other than root was refused on the control socket"),
                Err(error) => {
                    warn!(%error, "the control socket is gone");
                    return;
                }
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn may_ask(stream: &UnixStream) -> bool {
    let own = std::fs::metadata("/proc/self").map(|own| own.uid());
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == 0 || own.as_ref().is_ok_and(|own| *own == peer.uid()))
}

async fn answer(plane: &DataPlane, mut stream: UnixStream) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read.take(MAX_REQUEST));
    let mut line = String::new();
    timeout(PATIENCE, read.read_line(&mut line)).await??;
    let Some((filter, format)) = parse(&line) else {
        return write.write_all(b"the request is malformed\n").await;
    };
    info!(port = filter.port, count = filter.count, "a trace begins");
    let (to, mut explained) = mpsc::channel(BACKLOG);
    if !plane.tap.open(filter, to) {
        return write.write_all(b"another trace is under way\n").await;
    }
    let tell = async {
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
    let told = tokio::select! {
        told = tell => told,
        // The client is gone, and with it the wish.
        _ = read.read_to_end(&mut rest) => Ok(()),
    };
    plane.tap.shut();
    told
}

/// What a client sends.
pub fn request(filter: &Filter, format: Format) -> String {
    let pattern = filter.pattern.as_ref();
    let pattern = pattern.map(|(offset, bytes)| json!({"offset": offset, "bytes": bytes}));
    let line = json!({
        "port": filter.port, "count": filter.count, "match": pattern, "json": format == Format::Json,
    });
    format!("{line}\n")
}

fn parse(line: &str) -> Option<(Filter, Format)> {
    let request: Value = serde_json::from_str(line).ok()?;
    let count = request["count"].as_u64()?;
    let pattern = match &request["match"] {
        Value::Null => None,
        pattern => {
            let bytes = pattern["bytes"].as_array()?.iter();
            let bytes = bytes.map(|byte| u8::try_from(byte.as_u64()?).ok());
            let offset = usize::try_from(pattern["offset"].as_u64()?).ok()?;
            Some((offset, bytes.collect::<Option<_>>()?))
        }
    };
    let filter = Filter {
        port: u16::try_from(request["port"].as_u64()?).ok()?,
        count: usize::try_from(count)
            .ok()
            .filter(|_| (1..=MAX_COUNT).contains(&count))?,
        pattern,
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
    fn a_request_is_what_was_asked_for() {
        let filter = Filter {
            port: 3,
            count: 5,
            pattern: Some((12, vec![0x08, 0x00])),
        };
        let line = request(&filter, Format::Json);
        assert_eq!(parse(&line), Some((filter, Format::Json)));
        for bad in [
            "",
            "{}",
            r#"{"port":70000,"count":1,"match":null,"json":false}"#,
            r#"{"port":1,"count":0,"match":null,"json":false}"#,
            r#"{"port":1,"count":1,"match":{"offset":0,"bytes":[256]},"json":false}"#,
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
