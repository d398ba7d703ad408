"""The words for what has happened: the same in the tray and on the command line."""

from __future__ import annotations

from culvert_proto import local_pb2


def said(one: local_pb2.Activity) -> str:
    """One sentence or more; a kind of a newer daemon in the words that came with it."""
    why = " ".join(filter(None, (one.error.message, one.error.remedy)))
    match one.kind:
        case local_pb2.ACTIVITY_KIND_TUNNEL_UP:
            return f"{one.fqdn} is open through {one.gateway}."
        case local_pb2.ACTIVITY_KIND_TUNNEL_CLOSED:
            return f"{one.fqdn} is closed. {one.error.message}"
        case local_pb2.ACTIVITY_KIND_FAILED_OVER:
            return f"{one.fqdn} moved from {one.gateway_before} to {one.gateway}."
        case local_pb2.ACTIVITY_KIND_DENIED:
            return f"{one.fqdn} was refused. {why}"
        case local_pb2.ACTIVITY_KIND_CODE_PROVEN:
            return "A code was accepted."
        case local_pb2.ACTIVITY_KIND_PAUSED:
            return "Culvert was paused."
        case local_pb2.ACTIVITY_KIND_RESUMED:
            return "The pause ended."
        case local_pb2.ACTIVITY_KIND_CONTROLLER_LOST:
            return why
        case local_pb2.ACTIVITY_KIND_CONTROLLER_BACK:
            return "The controller answers again."
        case _:
            return f"{one.fqdn} {why}".strip()
