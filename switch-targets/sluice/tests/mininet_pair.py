# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""Two hosts on one `SluiceSwitch`, by the system's Python: SLUICE LOG. Prints the loss of their pings."""

from __future__ import annotations

import sys
from pathlib import Path

from mininet.net import Mininet

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "mininet"))

from sluice_mininet import SluiceSwitch  # noqa: E402

PROGRAM = HERE / "programs/wires.json"

net = Mininet(switch=SluiceSwitch, controller=None, autoSetMacs=True, autoStaticArp=True)
files = {"program": str(PROGRAM), "p4info": str(PROGRAM.with_suffix(".p4info.txtpb"))}
switch = net.addSwitch("s1", sluice=sys.argv[1], log_file=sys.argv[2], **files)
for name in ("h1", "h2"):
    net.addLink(net.addHost(name), switch)
net.start()
print(switch.describe())
lost = net.pingAll()
net.stop()
print(f"lost {lost:.0f} %")
