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
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Source;
use crate::condition::{Condition, Conditions};
use crate::connections::crowd::{Crowd, CrowdLimits};

const TEXT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// Connections at once. At a limit an old one is closed, so that a scrape, which takes milliseconds, has a place.
const CONNECTIONS: CrowdLimits = CrowdLimits {
    all: 16,
    address: 4,
    site: 8,
};
/// A connection ends after this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs until the process ends.
pub async fn serve(listener: TcpListener, source: Arc<Source>, conditions: Arc<Conditions>) {
    let crowd = Arc::new(Mutex::new(Crowd::new(CONNECTIONS)));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                conditions.met(Condition::Unaccepted, format!("for metrics: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let source = Arc::clone(&source);
        let (handle, dropped) = oneshot::channel::<()>();
        let (number, _) = crowd.lock().arrive(peer.ip().to_canonical(), handle);
        let crowd = Arc::clone(&crowd);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(&source, request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .max_buf_size(16384)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = timeout(PATIENCE, connection) => {}
                _ = dropped => {}
            }
            crowd.lock().leave(number);
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
