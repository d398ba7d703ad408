"""`make bench`: every figure of one run, into build/bench.jsonl and build/bench.html. `bench.py FIGURE...` measures those
alone and prints them, without touching the files. Without bmv2's simple_switch_grpc on the PATH, what is measured on it is
left out, and said.

Links to sluice have the kernel's offloads, but where it is measured packet by packet; the hosts beside bmv2 switch off
those of what they send, because it takes no frames that are longer than the wire's or lack their checksum.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import platform
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "switch-targets/conformance"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "dns-updater/tests"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tray-ui/tests"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests/kernel"))

import audit_log
import client_rekey
import console_pages
import crypto_hosts
import daemon
import dns_zone
import esp
import failover
import first_reply
import flood
import hash
import host_moves
import lab
import p4runtime_inserts
import page
import pipeline
import reconcile
import rekey
import restart
import revocation
import roam
import scale
import setups
import site_to_site
import tray
import watchers
from figures import Figure

BUILD = esp.ROOT / "build"
NAMES = (
    *(*lab.NAMES, *daemon.NAMES, "first_reply_ms", *tray.NAMES),
    *("esp_1400_mbit_s", *hash.NAMES, *pipeline.NAMES, *p4runtime_inserts.NAMES),
    *(
        *site_to_site.NAMES,
        *crypto_hosts.NAMES,
        *host_moves.NAMES,
        "scale_ratio",
        *rekey.NAMES,
        *client_rekey.NAMES,
        "dns_1000_s",
    ),
    *(
        *setups.NAMES,
        *watchers.NAMES,
        *flood.NAMES,
        "reconcile_100k_s",
        "failover_ms",
        "roam_ms",
        "restart_ms",
        "revoke_ms",
    ),
    *console_pages.NAMES,
    *audit_log.NAMES,
)


async def measure(names: list[str]) -> AsyncGenerator[list[Figure]]:
    """The figures called `names`, as they are measured: a run takes half an hour, and may fail in its last part.

    Baselines are measured between our own runs, so that both see the same machine.
    """
    if wanted := [name for name in lab.NAMES if name in names]:
        yield await lab.measure(wanted)
    if wanted := [name for name in daemon.NAMES if name in names]:
        yield await daemon.measure(wanted)
    if "first_reply_ms" in names:
        yield await first_reply.measure()
    if wanted := [name for name in tray.NAMES if name in names]:
        yield [figure for figure in await asyncio.to_thread(tray.measure) if figure.name in wanted]
    if "esp_1400_mbit_s" in names:
        yield esp.measure()
    if wanted := [name for name in hash.NAMES if name in names]:
        yield [figure for figure in hash.measure() if figure.name in wanted]
    if wanted := [name for name in pipeline.NAMES if name in names]:
        yield pipeline.measure(wanted)
    if wanted := [name for name in p4runtime_inserts.NAMES if name in names]:
        yield await p4runtime_inserts.measure(wanted)
    if wanted := [name for name in site_to_site.NAMES if name in names]:
        yield await site_to_site.measure(wanted)
    if wanted := [name for name in crypto_hosts.NAMES if name in names]:
        yield await crypto_hosts.measure(wanted)
    if wanted := [name for name in host_moves.NAMES if name in names]:
        yield await host_moves.measure(wanted)
    if "scale_ratio" in names:
        yield await scale.measure()
    if wanted := [name for name in rekey.NAMES if name in names]:
        yield await rekey.measure(wanted)
    if wanted := [name for name in client_rekey.NAMES if name in names]:
        yield await client_rekey.measure(wanted)
    if "dns_1000_s" in names:
        yield await dns_zone.measure()
    if wanted := [name for name in audit_log.NAMES if name in names]:
        yield await audit_log.measure(wanted)
    if wanted := [name for name in setups.NAMES if name in names]:
        yield await setups.measure(wanted)
    if wanted := [name for name in watchers.NAMES if name in names]:
        yield await watchers.measure(wanted)
    if wanted := [name for name in flood.NAMES if name in names]:
        yield await flood.measure(wanted)
    if "reconcile_100k_s" in names:
        yield await reconcile.measure()
    if "failover_ms" in names:
        yield await failover.measure()
    if "roam_ms" in names:
        yield await roam.measure()
    if "restart_ms" in names:
        yield await restart.measure()
    if "revoke_ms" in names:
        yield await revocation.measure()
    if wanted := [name for name in console_pages.NAMES if name in names]:
        yield [figure for figure in await console_pages.measure() if figure.name in wanted]


async def collect(names: list[str]) -> list[Figure]:
    figures: list[Figure] = []
    async for measured in measure(names):
        figures += measured
        print(*(figure.line() for figure in measured), sep="\n", flush=True)
    return figures


def main() -> None:
    names = sys.argv[1:]
    if unknown := [name for name in names if name not in NAMES]:
        sys.exit(f"no such figure: {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    if "bmv2" not in site_to_site.targets():
        print("bmv2 is not measured: its simple_switch_grpc is not on the PATH", file=sys.stderr)
    figures = asyncio.run(collect(names or list(NAMES)))
    if not names:
        lines = [figure.line() for figure in figures]
        (BUILD / "bench.jsonl").write_text("\n".join(lines) + "\n")
        machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"
        (BUILD / "bench.html").write_text(page.render(figures, datetime.date.today().isoformat(), machine))


if __name__ == "__main__":
    main()
