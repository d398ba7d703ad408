"""The controller's P4Runtime role (section 5.2), at gateways that keep roles apart: the objects of the gateway's program.

Another client in a role of its own then cannot write them, and this one nothing of another's: multicast groups, clone
sessions, whatever a program beside ours has. A client of the default role still may do everything.
"""

from __future__ import annotations

from pathlib import Path

from finsy.proto import p4i, stratum
from google.protobuf import text_format


def objects_of(p4info: Path) -> stratum.P4RoleConfig:
    """In the form that finsy and sluice share."""
    info = text_format.Parse(p4info.read_text(), p4i.P4Info())
    kinds = (info.tables, info.counters, info.direct_counters, info.registers, info.digests)
    return stratum.P4RoleConfig(
        exclusive_p4_ids=[one.preamble.id for kind in kinds for one in kind], can_push_pipeline=True
    )
