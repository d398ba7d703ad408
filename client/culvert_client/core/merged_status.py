"""Merges the statuses of several organisations. Pure.

A single organisation's status stays as it is. Of several, the most usable one gives the state, so that a denied or
unreachable organisation hides nothing of the others; `organisations` has each one's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from culvert_proto import local_pb2

from culvert_client.core.clicks import list_kept

# The most usable state first.
_READINESS = (
    local_pb2.STATE_CONNECTING,
    local_pb2.STATE_CONNECTED,
    local_pb2.STATE_PATH_NARROW,
    local_pb2.STATE_GATEWAY_SILENT,
    local_pb2.STATE_READY,
    local_pb2.STATE_NEEDS_CODE,
    local_pb2.STATE_PAUSED,
    local_pb2.STATE_OFFLINE,
    local_pb2.STATE_BLOCKED,
    local_pb2.STATE_NOT_ENROLLED,
)

One = TypeVar(
    "One", local_pb2.Tunnel, local_pb2.Gateway, local_pb2.Resource, local_pb2.Click, local_pb2.HopTimes
)


def merge(statuses: Sequence[tuple[str, local_pb2.Status]]) -> local_pb2.Status:
    """`statuses`: the name and the status of each organisation, in the order of enrolment."""
    if len(statuses) == 1:
        return statuses[0][1]
    # Organisations that another user enrolled come last.
    lead = min((it for _, it in statuses), key=lambda it: (not it.user, _READINESS.index(it.state)))
    errors = (it for it in (lead, *(status for _, status in statuses)) if it.HasField("last_error"))
    failed = next(errors, None)
    return local_pb2.Status(
        state=lead.state,
        user=lead.user,
        device_name=lead.device_name,
        controller=lead.controller,
        code_valid_until=lead.code_valid_until,
        tunnels=sorted(_of_all((name, it.tunnels) for name, it in statuses), key=lambda it: it.fqdn),
        gateways=_of_all((name, status.gateways) for name, status in statuses),
        selected_gateway=lead.selected_gateway,
        resources=_of_all((name, status.resources) for name, status in statuses),
        last_error=failed.last_error if failed is not None else None,
        last_error_at=failed.last_error_at if failed is not None else 0,
        clicks=list_kept(
            sorted(
                _of_all((name, status.clicks) for name, status in statuses),
                key=lambda click: click.started_us,
                reverse=True,
            ),
            {tunnel.fqdn for _, status in statuses for tunnel in status.tunnels},
        ),
        hop_times=_of_all((name, status.hop_times) for name, status in statuses),
        version=lead.version,
        datapath=lead.datapath,
        paused_until=lead.paused_until,
        drops=lead.drops,
        awaiting_prefixes=[prefix for _, it in statuses for prefix in it.awaiting_prefixes],
        declined_prefixes=[prefix for _, it in statuses for prefix in it.declined_prefixes],
        agreed_prefixes=[prefix for _, it in statuses for prefix in it.agreed_prefixes],
        code_postponed=lead.code_postponed,
        organisations=[_organisation(name, status) for name, status in statuses],
    )


def _of_all(parts: Iterable[tuple[str, Iterable[One]]]) -> list[One]:
    found: list[One] = []
    for name, ones in parts:
        for one in ones:
            one.organisation = name
            found.append(one)
    return found


def _organisation(name: str, status: local_pb2.Status) -> local_pb2.Organisation:
    return local_pb2.Organisation(
        name=name,
        state=status.state,
        user=status.user,
        device_name=status.device_name,
        controller=status.controller,
        code_valid_until=status.code_valid_until,
        selected_gateway=status.selected_gateway,
        last_error=status.last_error if status.HasField("last_error") else None,
        last_error_at=status.last_error_at,
        paused_until=status.paused_until,
        awaiting_prefixes=status.awaiting_prefixes,
        declined_prefixes=status.declined_prefixes,
        agreed_prefixes=status.agreed_prefixes,
        code_postponed=status.code_postponed,
    )
