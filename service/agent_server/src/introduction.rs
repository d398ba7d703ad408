//! Reads the PROXY protocol at the beginning of a connection, and no byte behind it.

use std::io;

use culvert_admission::proxy_protocol::{self, Introduced, LINE_MAX, Malformed, SIGNATURE, TEXT};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// # Errors
/// The stream's, and `InvalidData` for a beginning that is not the PROXY protocol's.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Introduced> {
    let mut first = [0; SIGNATURE.len()];
    stream.read_exact(&mut first).await?;
    if first == SIGNATURE {
        let mut head = [0; 16];
        head[..12].copy_from_slice(&first);
        stream.read_exact(&mut head[12..]).await?;
        let mut rest = vec![0_u8; proxy_protocol::rest(&head).map_err(invalid)?];
        stream.read_exact(&mut rest).await?;
        return proxy_protocol::binary(&head, &rest).map_err(invalid);
    }
    if !first.starts_with(TEXT) {
        return Err(invalid(Malformed));
    }
    let mut line = first.to_vec();
    // Byte by byte: what follows the line belongs to TLS.
    while !line.ends_with(b"\r\n") {
        if line.len() == LINE_MAX {
            return Err(invalid(Malformed));
        }
        line.push(stream.read_u8().await?);
    }
    line.truncate(line.len() - 2);
    proxy_protocol::line(&line).map_err(invalid)
}

fn invalid(_: Malformed) -> io::Error {
    io::ErrorKind::InvalidData.into()
}
