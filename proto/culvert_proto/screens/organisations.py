"""A status of several organisations taken apart again: what is shown of one is shown of each."""

from __future__ import annotations

from culvert_proto import local_pb2


def is_enrolled(status: local_pb2.Status) -> bool:
    """Also for the status that somebody sees who did not enrol this computer. A lost identity enrols nobody."""
    if status.state in (local_pb2.STATE_NOT_ENROLLED, local_pb2.STATE_UNSPECIFIED):
        return False
    return status.state != local_pb2.STATE_BLOCKED or bool(status.controller)


def code_is_unknown(status: local_pb2.Status) -> bool:
    """Whether the controller, which has not answered since the daemon's start, may know a valid code."""
    return status.state == local_pb2.STATE_OFFLINE and not status.code_valid_until


def split_status(status: local_pb2.Status) -> list[tuple[str, local_pb2.Status]]:
    """Each organisation's name and its own status; of one alone no name, and the status as it is."""
    if not status.organisations:
        return [("", status)]
    return [(it.name, _status_of(status, it)) for it in status.organisations]


def _status_of(status: local_pb2.Status, of: local_pb2.Organisation) -> local_pb2.Status:
    return local_pb2.Status(
        state=of.state,
        user=of.user,
        device_name=of.device_name,
        controller=of.controller,
        code_valid_until=of.code_valid_until,
        tunnels=[it for it in status.tunnels if it.organisation == of.name],
        gateways=[it for it in status.gateways if it.organisation == of.name],
        selected_gateway=of.selected_gateway,
        resources=[it for it in status.resources if it.organisation == of.name],
        last_error=of.last_error if of.HasField("last_error") else None,
        last_error_at=of.last_error_at,
        clicks=[it for it in status.clicks if it.organisation == of.name],
        hop_times=[it for it in status.hop_times if it.organisation == of.name],
        version=status.version,
        datapath=status.datapath,
        paused_until=of.paused_until,
        awaiting_prefixes=of.awaiting_prefixes,
        declined_prefixes=of.declined_prefixes,
        agreed_prefixes=of.agreed_prefixes,
        code_postponed=of.code_postponed,
    )
