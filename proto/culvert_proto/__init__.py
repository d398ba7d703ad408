"""Culvert's wire contracts. Import messages and services from here and nowhere else."""

import os

# Read when gRPC is first imported. gRPC's core would write of failed handshakes past the program's own log, at ERROR too:
# three lines for each handshake of a computer whose certificate has expired.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from culvert_proto.gen.culvert.agent.v1 import agent_pb2, agent_pb2_grpc
from culvert_proto.gen.culvert.error.v1 import error_pb2
from culvert_proto.gen.culvert.local.v1 import local_pb2, local_pb2_grpc
from culvert_proto.reasons import CATALOGUE, CulvertError, Entry, Reason

__all__ = [
    "CATALOGUE",
    "CulvertError",
    "Entry",
    "Reason",
    "agent_pb2",
    "agent_pb2_grpc",
    "error_pb2",
    "local_pb2",
    "local_pb2_grpc",
]
