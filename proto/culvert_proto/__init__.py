"""Culvert's wire contracts. Import messages and services from here and nowhere else."""

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
