"""Linux's SAs and policies, through ip(8). Keys go by standard input, never by argv."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from linux_esp.suites import Suite

IN_MACHINE_ROOT = ""
"""The namespace that a command runs in when it names none."""


@dataclass(frozen=True, slots=True)
class State:
    """An SA in tunnel mode, of either direction. `after` is the last sequence number sent or received."""

    src: str
    dst: str
    spi: int
    suite: Suite
    key: bytes
    esn: bool = True
    udp: tuple[int, int] | None = None
    window: int = 1024
    after: int = 0

    def add(self) -> str:
        # Without a family in its selector, an SA carries both families.
        words = [f"xfrm state add {self.name} reqid 1 mode tunnel flag af-unspec"]
        words.append("esn" if self.esn else "")
        words.append(f"replay-window {self.window} {self._numbers()}")
        words.append(self.suite.algorithm(self.key))
        if self.udp:
            # The third is an original address, which the kernel does not look at.
            words.append(f"encap espinudp {self.udp[0]} {self.udp[1]} 0.0.0.0")
        return " ".join(words)

    def _numbers(self) -> str:
        low, high = self.after & 0xFFFFFFFF, self.after >> 32
        if not self.after:
            return ""
        if not self.esn:
            return f"replay-seq {low} replay-oseq {low}"
        return f"replay-seq {low} replay-seq-hi {high} replay-oseq {low} replay-oseq-hi {high}"

    @property
    def name(self) -> str:
        return f"src {self.src} dst {self.dst} proto esp spi {self.spi:#x}"


def policy(direction: str, inner: tuple[str, str], outer: tuple[str, str]) -> str:
    """Packets from one inner prefix to the other are carried from one outer address to the other."""
    return (
        f"xfrm policy add src {inner[0]} dst {inner[1]} dir {direction} "
        f"tmpl src {outer[0]} dst {outer[1]} proto esp reqid 1 mode tunnel"
    )


def ip(lines: Iterable[str], namespace: str = IN_MACHINE_ROOT) -> str:
    """Run commands of ip(8) at once; what they print. Raises RuntimeError with what it says, without keys."""
    where = ["-n", namespace] if namespace else []
    done = subprocess.run(
        ["ip", *where, "-s", "-batch", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"ip: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Refused:
    """The number of packets that an SA has refused so far, by cause."""

    outside_window: int
    replayed: int
    forged: int


def refused(state: State, namespace: str = IN_MACHINE_ROOT) -> Refused:
    text = ip([f"xfrm state get {state.name}"], namespace)
    found = re.search(r"replay-window (\d+) replay (\d+) failed (\d+)", text)
    assert found, text
    return Refused(*map(int, found.groups()))


def errors(namespace: str = IN_MACHINE_ROOT) -> dict[str, int]:
    """/proc/net/xfrm_stat: what was refused, by cause."""
    command = ["cat", "/proc/net/xfrm_stat"]
    if namespace:
        command = ["ip", "netns", "exec", namespace, *command]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}
