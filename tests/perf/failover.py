"""`failover_ms`: from a gateway's death to the first packet through the next one, all parts real.

Two gateways stand side by side in the lab, on the same wires, each with addresses of its own. The one that carries the
laptop's tunnel is stopped (SIGSTOP): its connections stay open and nothing answers, which is harder to notice than a crash.
"""

from __future__ import annotations

import base64
import os
import signal
import time
from statistics import median

from culvert_lab import parts, targets
from culvert_lab import topology as net
from culvert_lab.office import Office, opened
from culvert_lab.process import Running
from culvert_lab.topology import Site
from datagrams import flowing
from figures import Figure

RUNS = 4
SPARE = "gw-paris"
_SPARE_PORT = net.P4RUNTIME_PORT + 1
_SPARE_LAN = "10.20.0.2"
_NAME = "failover"
# Where a gateway's devices come from.
_POOLS = {parts.GATEWAY: "10.99.0.", SPARE: "10.99.1."}


async def measure() -> list[Figure]:
    """The median of RUNS deaths. Raises StepError, ProgramError, RuntimeError, TimeoutError."""
    async with opened() as office:
        gateways = {parts.GATEWAY: office.joined.gateway, SPARE: await _spare(office)}
        fqdn = await office.add_resource(_NAME, gateways=list(gateways))
        if (done := await office.culvert("open", fqdn)).code != 0:
            raise RuntimeError(done.stderr)
        took = [await _once(office, gateways) for _ in range(RUNS)]
    return [Figure("failover_ms", median(took), "ms")]


async def _once(office: Office, gateways: dict[str, Running]) -> float:
    (tunnel,) = await office.joined.admin.get("/tunnels")
    here = tunnel["gateway"]
    there = next(name for name in gateways if name != here)
    async with flowing(office.lab) as datagrams:
        await datagrams.until_from(_POOLS[here], 10.0)
        died = time.perf_counter()
        os.kill(gateways[here].pid, signal.SIGSTOP)
        try:
            await datagrams.until_from(_POOLS[there], 20.0)
        finally:
            os.kill(gateways[here].pid, signal.SIGCONT)
    online = f"{here} online again"
    await office.joined.admin.until(f"/gateways/{here}", lambda it: it["state"] == "online", online)
    first = next(at for at, source in datagrams.arrived if at > died and source.startswith(_POOLS[there]))
    return (first - died) * 1e3


async def _spare(office: Office) -> Running:
    lab, admin = office.lab, office.joined.admin
    await admin.post(
        "/gateways",
        {
            "name": SPARE,
            "address": "198.51.100.3",
            "p4runtime": f"{net.MANAGEMENT_GATEWAY}:{_SPARE_PORT}",
            "device_id": 1,
            "pool": f"{_POOLS[SPARE]}0/24",
            "wan": {"port": 1, "mac": "02:00:00:00:01:03", "next_hop_mac": net.ROUTER_GATEWAY_MAC},
            "lan": {
                "port": 2,
                "mac": "02:00:00:00:02:03",
                "address": _SPARE_LAN,
                "prefix": net.PROTECTED_PREFIX,
                "neighbours": {net.WIKI_ADDRESS: net.WIKI_MAC},
            },
        },
    )
    bundle = await admin.post(f"/gateways/{SPARE}/bundle")
    directory = lab.run_directory(Site.GATEWAY) / SPARE
    directory.mkdir(mode=0o700)
    for name, content in (
        ("ca.pem", bundle["ca_pem"].encode()),
        ("gateway.pem", bundle["certificate_pem"].encode()),
        ("gateway.key", bundle["key_pem"].encode()),
        ("kek.bin", base64.b64decode(bundle["kek"])),
    ):
        (directory / name).touch(mode=0o600)
        (directory / name).write_bytes(content)
    argv = [
        it.replace(targets.BUNDLE, f"/run/{SPARE}").replace(str(net.P4RUNTIME_PORT), str(_SPARE_PORT))
        for it in targets.chosen().argv
    ]
    program = await lab.start(SPARE, Site.GATEWAY, argv)
    await program.ready(targets.chosen().ready)
    routed = await lab.run(Site.INTRANET, ["ip", "route", "add", f"{_POOLS[SPARE]}0/24", "via", _SPARE_LAN])
    if routed.code != 0:
        raise RuntimeError(routed.stderr)
    await admin.until(f"/gateways/{SPARE}", lambda it: it["state"] == "online", f"{SPARE} online")
    return program
