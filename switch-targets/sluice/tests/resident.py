"""Resident memory of a process, as the kernel counts it (proc_pid_status(5))."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class Resident:
    """Resident memory in MiB."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    @property
    def now(self) -> int:
        return self._field("VmRSS")

    @property
    def peak(self) -> int:
        return self._field("VmHWM")

    @contextmanager
    def growing_at_most(self, bound: int) -> Generator[None]:
        """Assert that the peak within grows by at most `bound`."""
        (self._folder / "clear_refs").write_text("5")  # the peak begins anew
        before = self.now
        yield
        print(f"grew by {self.peak - before} MiB of {bound}")
        assert self.peak - before <= bound, f"{before} MiB, at its peak {self.peak} MiB"

    def _field(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith(f"{name}:"))
