"""A screen reader's view: the names that a program offers over AT-SPI, read on the desktop's accessibility bus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PyQt6.QtDBus import QDBusConnection, QDBusMessage

_ROOT = "/org/a11y/atspi/accessible/root"
_ACCESSIBLE = "org.a11y.atspi.Accessible"
_STATE_SHOWING = 25


@dataclass(frozen=True, slots=True)
class Node:
    role: str
    name: str
    showing: bool


class AccessibilityBus:
    def __init__(self, session_address: str, name: str) -> None:
        session = QDBusConnection.connectToBus(session_address, f"{name}-session")
        address = _call(session, "org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress")[0]
        self._bus = QDBusConnection.connectToBus(address, f"{name}-a11y")

    def nodes(self, program: str) -> list[Node]:
        """Every node of the program's tree, top down; empty while it has not registered."""
        found: list[Node] = []
        registry = self._children("org.a11y.atspi.Registry", _ROOT)
        queue = [child for child in registry if self._name(*child) == program]
        while queue:
            peer, path = queue.pop(0)
            role = _call(self._bus, peer, path, _ACCESSIBLE, "GetRoleName")
            states = _call(self._bus, peer, path, _ACCESSIBLE, "GetState")
            if not role or not states:
                continue  # The element went away meanwhile.
            showing = bool(int(states[0][0]) >> _STATE_SHOWING & 1)
            found.append(Node(role[0], self._name(peer, path), showing))
            queue += self._children(peer, path)
        return found

    def _name(self, peer: str, path: str) -> str:
        answer = _call(self._bus, peer, path, "org.freedesktop.DBus.Properties", "Get", _ACCESSIBLE, "Name")
        return str(answer[0]) if answer else ""

    def _children(self, peer: str, path: str) -> list[tuple[str, str]]:
        answer = _call(self._bus, peer, path, _ACCESSIBLE, "GetChildren")
        return [(str(child[0]), str(child[1])) for child in answer[0]] if answer else []


def _call(
    bus: QDBusConnection, peer: str, path: str, interface: str, method: str, *arguments: str
) -> list[Any]:
    message = QDBusMessage.createMethodCall(peer, path, interface, method)
    message.setArguments(list(arguments))  # pyright: ignore[reportUnknownMemberType]
    answer = bus.call(message, timeout=5000)
    return answer.arguments() if answer.type() == QDBusMessage.MessageType.ReplyMessage else []
