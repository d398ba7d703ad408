"""Packets that the kernel refused, by our causes (Documentation/networking/xfrm_proc.rst)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# The calling thread's network namespace; /proc/net is the main thread's.
_STATISTICS = Path("/proc/thread-self/net/xfrm_stat")

CAUSES = {
    "malformed": ("XfrmInBufferError", "XfrmInHdrError", "XfrmInStateModeError"),
    "unknown_spi": ("XfrmInNoStates",),
    "replay": ("XfrmInStateSeqError",),
    "icv": ("XfrmInStateProtoError",),
    "selector": ("XfrmInTmplMismatch", "XfrmInNoPols", "XfrmInPolBlock", "XfrmInStateMismatch"),
    "dummy": (),
    "hard_limit": ("XfrmInStateExpired", "XfrmOutStateExpired", "XfrmOutStateSeqError"),
    "ecn": (),
    "no_policy": ("XfrmOutPolBlock", "XfrmOutNoStates"),
    "send_failed": ("XfrmOutError", "XfrmOutStateProtoError", "XfrmOutBundleGenError"),
}


class Drops:
    """Drops since this was made, in the whole namespace: another program's IPsec counts too."""

    def __init__(self) -> None:
        self._before = _read()

    def by_cause(self) -> Mapping[str, int]:
        now = _read()
        return {
            cause: sum(now.get(name, 0) - self._before.get(name, 0) for name in names)
            for cause, names in CAUSES.items()
        }


def _read() -> dict[str, int]:
    try:
        text = _STATISTICS.read_text()
    except FileNotFoundError:
        return {}  # A kernel without CONFIG_XFRM_STATISTICS.
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}
