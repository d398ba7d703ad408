"""REST schemas of tunnels."""

from __future__ import annotations

import uuid
from datetime import datetime

from culvert_proto.contract import Suite
from culvert_proto.dns_name import make_readable
from pydantic import BaseModel, computed_field

from culvert_service.tunnels.record import Listed


class TunnelOut(BaseModel):
    id: uuid.UUID
    state: str
    user: str
    user_display_name: str | None
    device: str
    device_id: uuid.UUID
    resource: str
    fqdn: str
    gateway: str
    suite: Suite
    # A legacy suite, which an administrator has allowed.
    legacy: bool
    inner_address: str
    inner_address6: str | None
    # The peer's endpoint: the source of the device's last authenticated packet. Port 0: ESP without UDP.
    peer_address: str
    peer_port: int
    generation: int
    opened_at: datetime
    # The gateway that it moved from: that one was gone, drained, or lost its place in the resource's order.
    moved_from: str | None

    @computed_field
    @property
    def display_name(self) -> str:
        """`fqdn` as people read it."""
        return make_readable(self.fqdn)

    @classmethod
    def of(cls, listed: Listed) -> TunnelOut:
        tunnel = listed.tunnel
        return cls(
            id=tunnel.id,
            state=tunnel.state.value,
            user=listed.user,
            user_display_name=listed.user_display_name,
            device=listed.device,
            device_id=tunnel.device_id,
            resource=listed.resource.name,
            fqdn=listed.resource.fqdn,
            gateway=listed.gateway,
            suite=Suite(listed.suite),
            legacy=Suite(listed.suite).legacy,
            inner_address=listed.inner_address,
            inner_address6=listed.inner_address6,
            peer_address=tunnel.peer_address,
            peer_port=tunnel.peer_port,
            generation=tunnel.generation,
            opened_at=tunnel.opened_at,
            moved_from=tunnel.moved_from,
        )
