"""The gRPC server that devices call: its connections are Rust's, its methods Python's."""

from culvert_agent_server.server import Around, Context, Server, Shown

__all__ = ["Around", "Context", "Server", "Shown"]
