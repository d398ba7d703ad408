"""iperf3 between two network namespaces."""

from __future__ import annotations

import json
import subprocess
import time

# Linux's default, whatever this machine is set to: a pacing sender would measure its own estimate of the path.
CONGESTION_CONTROL = "cubic"


def goodput(
    client: str, server: str, address: str, seconds: int, warm_up: int = 1, source: str | None = None
) -> float:
    """TCP goodput from namespace `client` to `address` in namespace `server`, as received, in Mbit/s. `source` is the
    client's own address, where it has several.

    Raises RuntimeError with iperf3's own words when the test does not run.
    """
    listener = subprocess.Popen(
        ["ip", "netns", "exec", server, "iperf3", "-s", "-1", "-B", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.3)
        command = ["ip", "netns", "exec", client, "iperf3", "-c", address, "-J", "-C", CONGESTION_CONTROL]
        command += ["-t", str(seconds), "-O", str(warm_up), *(["-B", source] if source else [])]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + warm_up + 30, check=False
        )
        report = json.loads(done.stdout)
        if "error" in report:
            raise RuntimeError(f"iperf3 from {client} to {address}: {report['error']}")
        return float(report["end"]["sum_received"]["bits_per_second"]) / 1e6
    finally:
        listener.terminate()
        listener.wait()
