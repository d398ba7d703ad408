//! The page over HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::warn;

use super::Source;

const TEXT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// Scrapers at once.
const CONNECTIONS: usize = 8;
/// How long a connection may last: a scrape takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs until the process ends.
pub async fn serve(listener: TcpListener, source: Arc<Source>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "a connection for metrics failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let source = Arc::clone(&source);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(&source, request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .max_buf_size(16384)
                .serve_connection(TokioIo::new(stream), service);
            let _ = timeout(PATIENCE, connection).await;
            drop(permit);
        });
    }
}

async fn answer(
    source: &Source,
    request: Request<Incoming>,
) -> Result<Response<String>, Infallible> {
    let plain = |status, text: &str| {
        let mut response = Response::new(text.to_owned());
        *response.status_mut() = status;
        response
    };
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => match source.page().await {
            Ok(page) => {
                let mut response = Response::new(page);
                response.headers_mut().insert(CONTENT_TYPE, TEXT);
                response
            }
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "cannot be written\n"),
        },
        (_, "/metrics") => plain(StatusCode::METHOD_NOT_ALLOWED, "GET alone\n"),
        _ => plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"),
    })
}
