"""ESP alone, on one core, beside OpenSSL's AES-256-GCM on messages of the same length."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from statistics import median

from figures import Figure

ROOT = Path(__file__).resolve().parents[2]
RUNS = 5
SECONDS = 1
LENGTH = 1400
SUITE = "aes-gcm-256"


def measure() -> list[Figure]:
    """The slower of sealing and opening, since a packet needs both. Raises CalledProcessError."""
    build = ["cargo", "build", "-q", "--release", "--locked", "-p", "esp", "--example", "esp_speed"]
    subprocess.run(build, cwd=ROOT, check=True)
    seal: list[float] = []
    opened: list[float] = []
    openssl: list[float] = []
    for _ in range(RUNS):
        answer = _run(str(ROOT / "target/release/examples/esp_speed"), str(SECONDS), SUITE)
        ours = json.loads(answer)[SUITE]
        seal.append(ours["seal_mbit_s"])
        opened.append(ours["open_mbit_s"])
        openssl.append(_openssl_mbit_s())
    return [
        Figure("esp_1400_mbit_s", min(median(seal), median(opened)), "Mbit/s", "openssl", median(openssl))
    ]


def _openssl_mbit_s() -> float:
    options = ["-seconds", str(SECONDS), "-bytes", str(LENGTH), "-mr"]
    lines = _run("openssl", "speed", "-evp", "aes-256-gcm", *options).splitlines()
    # +F:number:name:bytes a second, for each length.
    found = next(line for line in lines if line.startswith("+F:"))
    return float(found.split(":")[-1]) * 8 / 1e6


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
