"""The hash externs, in cycles of the time-stamp counter, beside the table in "Cryptographic Hashing in P4 Data
Planes" (Scholz et al., 2019), which has no row for HMAC-SHA-512 and SHA3-512 in software. Less is better.

Both are the extern alone, as the paper measures a hash alone: what the call from P4 costs is not in them.
"""

from __future__ import annotations

import json
import subprocess
from statistics import median

from esp import ROOT
from figures import Figure

RUNS = 5
EXAMPLE = "packet_hash_cycles"
PAPER = "Scholz et al. 2019"
BASELINES: dict[str, dict[str, float]] = {
    "siphash_2_4": {"cycles_byte": 1.06, "cycles_64": 121.10},
    "blake2b": {"cycles_byte": 3.14, "cycles_64": 232.77},
    "hmac_sha256": {"cycles_byte": 5.57, "cycles_64": 1462.13},
    "hmac_sha512": {},
    "sha3_512": {},
}
MEASURED = ("cycles_byte", "cycles_64")
NAMES = tuple(f"hash_{name}_{what}" for name in BASELINES for what in MEASURED)


def measure() -> list[Figure]:
    """All of `NAMES`: the slope from 64 to 1,500 bytes, and a packet of 64 bytes. Raises CalledProcessError."""
    build = ["cargo", "build", "-q", "--release", "--locked", "-p", "sluice", "--example", EXAMPLE]
    subprocess.run(build, cwd=ROOT, check=True)
    example = ROOT / "target/release/examples" / EXAMPLE
    runs = [
        json.loads(subprocess.run([example], capture_output=True, text=True, check=True).stdout)
        for _ in range(RUNS)
    ]
    figures: list[Figure] = []
    for name, paper in BASELINES.items():
        for what in MEASURED:
            value = median(run[name][what] for run in runs)
            baseline = PAPER if what in paper else ""
            figures.append(Figure(f"hash_{name}_{what}", value, "cycles", baseline, paper.get(what)))
    return figures
