"""Shell completion of names that the daemon knows; empty if the daemon does not answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import typer
from culvert_proto import local_pb2
from culvert_proto.dns_name import is_wildcard, normalise_search, unicode

from culvert_client.cli.daemon_link import DaemonLink


def resource(context: typer.Context, incomplete: str) -> list[str]:
    """DNS names of resources, or their short names if no DNS name matches."""
    plain = [it for it in _status(context).resources if not is_wildcard(it.fqdn)]
    return _names_with_prefix(incomplete, [it.fqdn for it in plain]) or _filter_prefix(
        incomplete, (it.name for it in plain)
    )


def tunnel(context: typer.Context, incomplete: str) -> list[str]:
    return _names_with_prefix(incomplete, [it.fqdn for it in _status(context).tunnels])


def gateway(context: typer.Context, incomplete: str) -> list[str]:
    return _filter_prefix(incomplete, ("auto", *(it.name for it in _status(context).gateways)))


def organisation(context: typer.Context, incomplete: str) -> list[str]:
    return _filter_prefix(incomplete, (it.name for it in _status(context).organisations))


def complete_awaiting(context: typer.Context, incomplete: str) -> list[str]:
    return _filter_prefix(incomplete, _status(context).awaiting_prefixes)


def _names_with_prefix(incomplete: str, names: Sequence[str]) -> list[str]:
    """Names in Unicode, or in the DNS's spelling if none in Unicode matches."""
    return _filter_prefix(normalise_search(incomplete), map(unicode, names)) or _filter_prefix(
        incomplete, names
    )


def _filter_prefix(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def _status(context: typer.Context) -> local_pb2.Status:
    socket = Path(context.find_root().params["socket"])
    answer = DaemonLink(socket).peek(lambda daemon: daemon.GetStatus(local_pb2.GetStatusRequest()))
    return answer.status if answer is not None else local_pb2.Status()
