"""A provider of OpenID Connect on this computer, in the shape of another: its discovery, keys, tokens, userinfo."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, Key

CLIENT, SECRET = "culvert", "a secret: with a colon & more%20"
KEY = ECKey.generate_key("P-256", {"kid": "1", "use": "sig", "alg": "ES256"})
Json = dict[str, Any]


@dataclass
class Shape:
    """A provider's differences from others. `accepts`: how its token endpoint wants the client's secret."""

    path: str = ""
    metadata: Json = field(default_factory=dict[str, Any])
    keys: list[Json] = field(default_factory=lambda: [KEY.as_dict(private=False)])
    header: Json = field(default_factory=lambda: {"alg": "ES256", "kid": "1"})
    key: Key = field(default_factory=lambda: KEY)
    claims: Json = field(default_factory=dict[str, Any])
    userinfo: Json | None = None
    accepts: tuple[str, ...] = ("client_secret_basic", "client_secret_post")
    refusal: tuple[int, Json] = (401, {"error": "invalid_client"})
    # In place of what a path would answer: status, headers, body.
    instead: Mapping[str, tuple[int, Mapping[str, str], bytes]] = field(
        default_factory=dict[str, "tuple[int, Mapping[str, str], bytes]"]
    )


@dataclass
class OidcServer:
    origin: str
    shape: Shape
    asked: list[str] = field(default_factory=list[str])

    @property
    def issuer(self) -> str:
        return self.origin + self.shape.path

    def answer(
        self, path: str, headers: Mapping[str, str], body: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        self.asked.append(path)
        shape = self.shape
        for end, instead in shape.instead.items():
            if path.endswith(end):
                return instead
        if path.endswith("/.well-known/openid-configuration"):
            found: Json = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "jwks_uri": f"{self.origin}/keys",
                "userinfo_endpoint": f"{self.origin}/userinfo",
            } | shape.metadata
            return _json(200, _said(found))
        if path == "/keys":
            return _json(200, {"keys": shape.keys})
        if path == "/token":
            form = {name: values[0] for name, values in parse_qs(body).items()}
            if _way(headers, form) not in shape.accepts:
                return _json(*shape.refusal)
            return _json(200, {"access_token": "at", "token_type": "Bearer", "id_token": self.token()})
        if path == "/userinfo" and headers.get("Authorization") == "Bearer at":
            return _json(200, {"sub": "ada"} | (shape.userinfo or {}))
        return _json(404, {})

    def token(self) -> str:
        now = int(time.time())
        claims: Json = {"iss": self.issuer, "sub": "ada", "aud": CLIENT, "nonce": "n"}
        claims |= {"iat": now, "exp": now + 300} | self.shape.claims
        algorithms = [self.shape.header["alg"]]
        return jwt.encode(self.shape.header, _said(claims), self.shape.key, algorithms=algorithms)


def _said(content: Json) -> Json:
    """Without what a shape leaves out, with `...`."""
    return {name: value for name, value in content.items() if value is not ...}


def _json(status: int, content: Json) -> tuple[int, Mapping[str, str], bytes]:
    return status, {"Content-Type": "application/json"}, json.dumps(content).encode()


def _way(headers: Mapping[str, str], form: Mapping[str, str]) -> str:
    basic = headers.get("Authorization", "").removeprefix("Basic ")
    if basic:
        # RFC 6749 section 2.3.1.
        name, _, secret = base64.b64decode(basic).decode().partition(":")
        return "client_secret_basic" if (unquote(name), unquote(secret)) == (CLIENT, SECRET) else "wrong"
    posted = (form.get("client_id"), form.get("client_secret"))
    return "client_secret_post" if posted == (CLIENT, SECRET) else "wrong"


@contextmanager
def serving(shape: Shape, tls: ssl.SSLContext | None = None) -> Generator[OidcServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length).decode()
            sent = cast("Mapping[str, str]", self.headers)
            status, headers, content = provider.answer(urlsplit(self.path).path, sent, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        scheme = "https" if tls else "http"
        provider = OidcServer(f"{scheme}://localhost:{server.server_port}", shape)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
