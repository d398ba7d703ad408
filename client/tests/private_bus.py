"""A system bus of a test's own, with services that remember what they were told as resolved and NetworkManager would."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

_CONFIGURATION = """<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>"""


@contextlib.contextmanager
def private_bus(directory: Path) -> Generator[str]:
    """Run a D-Bus daemon and return its address."""
    configuration, path = directory / "bus.conf", directory / "bus"
    configuration.write_text(_CONFIGURATION.format(path=path))
    command = ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        try:
            yield f"unix:path={path}"
        finally:
            daemon.terminate()


@contextlib.asynccontextmanager
async def remembering(
    address: str, name: str, refused: str = ""
) -> AsyncGenerator[list[tuple[str, str, list[Any]]]]:
    """A service that says yes to every call but `refused`: method, signature, body."""
    told: list[tuple[str, str, list[Any]]] = []
    bus = await MessageBus(bus_address=address).connect()

    def answer(message: Message) -> Message | None:
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        assert message.member is not None
        told.append((message.member, message.signature, message.body))
        if message.member == refused:
            return Message.new_error(message, "org.freedesktop.DBus.Error.AccessDenied", "not you")
        return Message.new_method_return(message)

    bus.add_message_handler(answer)
    await bus.request_name(name)
    try:
        yield told
    finally:
        bus.disconnect()
