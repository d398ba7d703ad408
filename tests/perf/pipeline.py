"""The pipeline in memory, parse to deparse, on one core: gateway.p4 seals with AES-GCM-256.

Beside it the best AES configuration of Korona et al., "FPGA implementation of IPsec protocol suite for multigigabit
networks", with 128 packets in the stream (tables 7 to 9). What to aim at is their best with DES: 4,120, 8,018 and 10,227
Mbit/s (tables 3 to 5).
"""

from __future__ import annotations

import json
import subprocess
from statistics import median

from esp import ROOT
from figures import Figure

FPGA_AES_MBIT_S = {64: 2187.06, 240: 4424.76, 1500: 5518.80}
NAMES = {f"pipeline_{size}_mbit_s": size for size in FPGA_AES_MBIT_S}
RUNS = 3


def measure(names: list[str]) -> list[Figure]:
    """The figures asked for, of NAMES. Raises CalledProcessError."""
    build = ["cargo", "build", "-q", "--release", "--locked", "-p", "sluice", "--example", "seal"]
    subprocess.run(build, cwd=ROOT, check=True)
    runs = [_run() for _ in range(RUNS)]
    return [
        Figure(name, median(run[size] for run in runs), "Mbit/s", "FPGA, AES", FPGA_AES_MBIT_S[size])
        for name, size in NAMES.items()
        if name in names
    ]


def _run() -> dict[int, float]:
    """Mbit/s by the size of the packet before it is sealed."""
    program = str(ROOT / "target/release/examples/seal")
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    return {one["size"]: one["mbit_s"] for one in map(json.loads, done.stdout.splitlines())}
