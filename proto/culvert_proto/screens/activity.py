"""The words for what has happened: the same in the tray and on the command line."""

from __future__ import annotations

from culvert_proto import CulvertError, local_pb2
from culvert_proto.dns_name import make_readable
from culvert_proto.language import words as _


def describe(one: local_pb2.Activity) -> str:
    """One or more sentences, after the organisation's name where there are several."""
    of_all = one.kind in (local_pb2.ACTIVITY_KIND_PAUSED, local_pb2.ACTIVITY_KIND_RESUMED)
    happened = make_readable(_describe_event(one))
    return f"{one.organisation}: {happened}" if one.organisation and not of_all else happened


def _describe_event(one: local_pb2.Activity) -> str:
    """A kind of a newer daemon in the words that came with it."""
    error = CulvertError.from_proto(one.error)
    why = " ".join(filter(None, (error.message, error.remedy)))
    told = {"fqdn": one.fqdn, "gateway": one.gateway, "before": one.gateway_before}
    match one.kind:
        case local_pb2.ACTIVITY_KIND_TUNNEL_UP:
            return _("{fqdn} is open through {gateway}.").format(**told)
        case local_pb2.ACTIVITY_KIND_TUNNEL_CLOSED:
            return f"{_('{fqdn} is closed.').format(**told)} {error.message}"
        case local_pb2.ACTIVITY_KIND_FAILED_OVER:
            return _("{fqdn} moved from {before} to {gateway}.").format(**told)
        case local_pb2.ACTIVITY_KIND_DENIED:
            return f"{_('{fqdn} was denied.').format(**told)} {why}"
        case local_pb2.ACTIVITY_KIND_CODE_PROVEN:
            return _("A code was accepted.")
        case local_pb2.ACTIVITY_KIND_PAUSED:
            return _("Culvert was paused.")
        case local_pb2.ACTIVITY_KIND_RESUMED:
            return _("The pause ended.")
        case local_pb2.ACTIVITY_KIND_CONTROLLER_LOST:
            return why
        case local_pb2.ACTIVITY_KIND_CONTROLLER_BACK:
            return _("The controller answers again.")
        case _other:
            return f"{one.fqdn} {why}".strip()
