"""A second gateway beside the first, on the same wires, with addresses of its own: where tunnels go when that one dies, and
where there is IPv6 inside.
"""

from __future__ import annotations

from collections.abc import Mapping

from culvert_lab import parts, targets
from culvert_lab import topology as net
from culvert_lab.admin import Admin
from culvert_lab.errors import StepError
from culvert_lab.lab import Lab
from culvert_lab.process import Running
from culvert_lab.topology import Site

NAME = "gw-paris"
ADDRESS = "198.51.100.3"
POOL, POOL6 = "10.99.1.0/24", "fd99:1::/64"
WIKI_ADDRESS6, PREFIX6 = "fd20::10", "fd20::/64"
_PORT = net.P4RUNTIME_PORT + 1
_LAN, _LAN6 = "10.20.0.2", "fd20::2"


async def start(lab: Lab, admin: Admin) -> Running:
    """Registered, started, online, and the intranet knows the way back. Raises StepError, ProgramError."""
    await register(lab, admin)
    program = await serve(lab)
    await admin.until(f"/gateways/{NAME}", lambda it: it["state"] == "online", f"{NAME} online")
    return program


async def serve(lab: Lab, name: str = NAME, env: Mapping[str, str] | None = None) -> Running:
    """Start its switch. Raises StepError, ProgramError."""
    target = targets.choose(f"/run/{NAME}", _PORT)
    program = await lab.start(name, Site.GATEWAY, target.argv, env=dict(target.env) | dict(env or {}))
    await program.ready(target.ready)
    return program


async def register(lab: Lab, admin: Admin, neighbours: Mapping[str, str] = parts.WIKI_ALONE) -> None:
    """Its bundle is laid out, and the intranet knows the way back. Raises StepError."""
    await admin.post(
        "/gateways",
        {
            "name": NAME,
            "kind": targets.choose().name,
            "address": ADDRESS,
            "p4runtime": f"{net.MANAGEMENT_GATEWAY}:{_PORT}",
            "device_id": 1,
            "pool": POOL,
            "pool6": POOL6,
            "wan": {"port": 1, "mac": "02:00:00:00:01:03", "next_hop_mac": net.ROUTER_GATEWAY_MAC},
            "lan": {
                "port": 2,
                "mac": "02:00:00:00:02:03",
                "address": _LAN,
                "prefix": net.PROTECTED_PREFIX,
                "address6": _LAN6,
                "prefix6": PREFIX6,
                "neighbours": {**neighbours, WIKI_ADDRESS6: net.WIKI_MAC},
            },
        },
    )
    await parts.lay_out_bundle(lab, admin, f"/gateways/{NAME}", NAME)
    for arguments in (
        f"route add {POOL} via {_LAN}",
        f"address add {WIKI_ADDRESS6}/64 dev eth0 nodad",
        f"route add {POOL6} via {_LAN6}",
    ):
        done = await lab.run(Site.INTRANET, ["ip", *arguments.split()])
        if done.code != 0:
            raise StepError(done.stderr)


async def six(admin: Admin, **more: object) -> str:
    """Registers a resource with an IPv6 address alone, and returns its name. Raises StepError."""
    fqdn = f"six.{net.ZONE}"
    resource: dict[str, object] = {"name": "six", "fqdn": fqdn, "targets": [{"prefix": WIKI_ADDRESS6}]}
    resource |= {"gateways": [NAME], "users": [parts.USER], "owner": f"bob@{net.ZONE}"}
    await admin.post("/resources", resource | more)
    return fqdn
