//! The head of a request on its way to Python.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri, Version};

/// Python sets this header in its answer when it has admitted the caller; the client does not get it.
pub const ADMITTED: HeaderName = HeaderName::from_static("culvert-admitted");

/// Headers for one hop alone (RFC 9110 section 7.6.1), and headers that only a proxy may set.
const NOT_FORWARDED: [HeaderName; 12] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::FORWARDED,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// The request's target and host, in a form that Python's parser accepts; none for a malformed request.
pub fn target<B>(request: &Request<B>) -> Option<(Uri, HeaderValue)> {
    let uri = request.uri();
    let path = uri.path_and_query()?.as_str();
    let plain = path.bytes().all(|byte| matches!(byte, 0x21..=0x7e));
    if !plain || request.method() == Method::CONNECT {
        return None;
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (uri.authority(), hosts.next()) {
        (_, None) if request.version() >= Version::HTTP_11 => return None,
        (Some(authority), _) => HeaderValue::from_str(authority.as_str()).ok()?,
        (None, Some(host)) => host.clone(),
        (None, None) => HeaderValue::from_static("localhost"),
    };
    let readable = host.to_str().is_ok_and(|it| !it.contains(' '));
    (readable && hosts.next().is_none()).then_some((path.parse().ok()?, host))
}

pub fn onward<B>(
    method: Method,
    target: Uri,
    host: HeaderValue,
    mut headers: HeaderMap,
    body: B,
) -> Request<B> {
    for name in named(&headers) {
        headers.remove(name);
    }
    for name in NOT_FORWARDED {
        headers.remove(name);
    }
    headers.remove(ADMITTED);
    headers.insert(header::HOST, host);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = target;
    *request.headers_mut() = headers;
    request
}

/// Headers that the Connection header names: they are for one hop alone.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION);
    let names = values.iter().filter_map(|it| it.to_str().ok());
    let names = names.flat_map(|it| it.split(','));
    let names: Vec<HeaderName> = names.filter_map(|it| it.trim().parse().ok()).collect();
    // Python decides by these headers: a client must not have them removed.
    let kept = [
        header::AUTHORIZATION,
        header::COOKIE,
        header::CONTENT_LENGTH,
    ];
    names.into_iter().filter(|it| !kept.contains(it)).collect()
}
