"""The gateways' program, as a P4Runtime session pushes it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from finsy.proto import p4i, p4r, stratum
from google.protobuf import text_format

from culvert_service.gateways.kind import GatewayKind


@cache
def p4info_of(path: Path) -> p4i.P4Info:
    return text_format.Parse(path.read_text(), p4i.P4Info())


@dataclass(frozen=True, slots=True)
class Program:
    """The compiled program, and the P4Runtime role of its writer; empty: the default role.

    `reconciles`: use RECONCILE_AND_COMMIT, with which the switch keeps entries that fit the new program.
    """

    p4info: Path
    blob: Path
    role: str = ""
    reconciles: bool = True

    def at(self, kind: GatewayKind) -> Program:
        role = self.role if kind.keeps_roles else ""
        return replace(self, role=role, reconciles=kind.reconciles)

    def config(self) -> p4r.ForwardingPipelineConfig:
        """The cookie is derived from the program, so that a switch that already runs the program is recognised."""
        return _config(self.p4info, self.blob)

    def role_message(self) -> p4r.Role | None:
        """The controller's role (P4Runtime section 5.2), at gateways that keep roles apart.

        The role owns the objects of the gateway's program, so clients in other roles cannot write them. This client can
        write nothing else, such as multicast groups and clone sessions. A client in the default role may write
        everything.
        """
        if not self.role:
            return None
        message = p4r.Role(name=self.role)
        message.config.Pack(objects_of(self.p4info))
        return message


def objects_of(p4info: Path) -> stratum.P4RoleConfig:
    """A role config in Stratum's format, which sluice reads too."""
    info = p4info_of(p4info)
    kinds = (info.tables, info.counters, info.direct_counters, info.registers, info.digests)
    return stratum.P4RoleConfig(
        exclusive_p4_ids=[one.preamble.id for kind in kinds for one in kind], can_push_pipeline=True
    )


@cache
def _config(p4info: Path, blob: Path) -> p4r.ForwardingPipelineConfig:
    info, program = p4info_of(p4info), blob.read_bytes()
    digest = hashlib.sha256(info.SerializeToString(deterministic=True) + program).digest()
    return p4r.ForwardingPipelineConfig(
        p4info=info,
        p4_device_config=program,
        cookie=p4r.ForwardingPipelineConfig.Cookie(cookie=int.from_bytes(digest[:8])),
    )
