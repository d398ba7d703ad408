"""Counts of packets that the kernel dropped, by the causes in `Counters.drops` (Documentation/networking/xfrm_proc.rst)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# This path is the calling thread's network namespace; /proc/net is the main thread's.
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
    """Drops since this object was created, in the whole namespace, also those of other programs' IPsec."""

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
        return {}  # The kernel has no CONFIG_XFRM_STATISTICS.
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}
