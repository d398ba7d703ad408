"""The front of the controller's two ports: Rust handles connections, TLS and limits; Python handles the requests."""

from culvert_agent_server._native import BODY_MAX, HEAD_MAX, REQUEST_MAX
from culvert_agent_server.rest import Problems, RestServer
from culvert_agent_server.server import Around, CallLimits, Context, Ends, Server, Shown

__all__ = [
    "BODY_MAX",
    "HEAD_MAX",
    "REQUEST_MAX",
    "Around",
    "CallLimits",
    "Context",
    "Ends",
    "Problems",
    "RestServer",
    "Server",
    "Shown",
]
