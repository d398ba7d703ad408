"""This computer's state, as `culvert doctor` and `culvert report` read it without the daemon."""

from __future__ import annotations

import os
import platform
import re
import socket
import zipfile
from collections import defaultdict
from importlib.metadata import version
from itertools import chain

from culvert_proto import local_pb2
from google.protobuf import json_format

from culvert_client.cli.diagnosis import Interface, Seen
from culvert_client.platform.interfaces import SystemView

CANARY = "use-application-dns.net"
_OURS = "culvert"
"""The beginning of our devices' names."""
_LOOPBACK = "lo"


def see(view: SystemView) -> Seen:
    interfaces = _interfaces(view)
    return Seen(_canary(), asks_stub=False, interfaces=interfaces, version=version("culvert-client"))


def asks_stub(examined: local_pb2.ExamineResponse) -> bool:
    """Whether the system's name service returns the address that only the stub knows."""
    try:
        found = socket.getaddrinfo(examined.probe_name, 443, socket.AF_INET, socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return False
    return [it[4][0] for it in found] == [examined.probe_address]


def write_report(view: SystemView, target: int, status: local_pb2.Status, verdicts: str) -> None:
    """Write a zip without secrets and without names of the person and the computer. Closes the descriptor."""
    told = {
        "status.json": json_format.MessageToJson(
            status, preserving_proto_field_name=True, ensure_ascii=False
        ),
        "doctor.txt": verdicts,
        "system.txt": f"{platform.platform()}\nPython {platform.python_version()}\n",
    }
    for file in view.report_files():
        if file.is_file():
            told[file.name] = file.read_text(errors="replace")
    told_of = [(it.user, it.device_name) for it in (status, *status.organisations)]
    names = {name for name in (socket.gethostname(), *chain.from_iterable(told_of)) if name}
    removed = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(names, key=len, reverse=True)))
    with os.fdopen(target, "wb") as opened, zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED) as report:
        for name, text in told.items():
            report.writestr(name, removed.sub("(removed)", text) if names else text)


def _canary() -> bool | None:
    try:
        return bool(socket.getaddrinfo(CANARY, 443, socket.AF_INET))
    except socket.gaierror as error:
        return None if error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL) else False


def _interfaces(view: SystemView) -> dict[str, list[Interface]]:
    found: dict[str, list[Interface]] = defaultdict(list)
    for device, address in view.interfaces():
        if device != _LOOPBACK and not device.startswith(_OURS):
            found[device].append(address)
    return found
