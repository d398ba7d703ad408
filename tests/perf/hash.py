"""The hash externs, in cycles of the time-stamp counter, beside the table in "Cryptographic Hashing in P4 Data Planes" (Scholz
et al., 2019), which has no row for HMAC-SHA-512 and SHA3-512 in software. Less is better."""

from __future__ import annotations

import json
import subprocess
from statistics import median

from esp import ROOT
from figures import Figure

RUNS = 5
PAPER = "Scholz et al. 2019"
# Cycles a byte, and cycles for 64 bytes.
BASELINES = {
    "siphash_2_4": (1.06, 121.10),
    "blake2b": (3.14, 232.77),
    "hmac_sha256": (5.57, 1462.13),
    "hmac_sha512": None,
    "sha3_512": None,
}
NAMES = tuple(f"hash_{name}_{what}" for name in BASELINES for what in ("cycles_byte", "cycles_64"))


def measure() -> list[Figure]:
    """All of `NAMES`: the slope from 64 to 1,500 bytes, and a packet of 64 bytes. Raises CalledProcessError."""
    build = ["cargo", "build", "-q", "--release", "--locked", "-p", "sluice", "--example", "packet_hash_cycles"]
    subprocess.run(build, cwd=ROOT, check=True)
    example = ROOT / "target/release/examples/packet_hash_cycles"
    runs = [
        json.loads(subprocess.run([example], capture_output=True, text=True, check=True).stdout)
        for _ in range(RUNS)
    ]
    figures: list[Figure] = []
    for name, paper in BASELINES.items():
        for index, what in enumerate(("cycles_byte", "cycles_64")):
            value = median(run[name][what] for run in runs)
            baseline = (PAPER, paper[index]) if paper else ("", None)
            figures.append(Figure(f"hash_{name}_{what}", value, "cycles", *baseline))
    return figures
