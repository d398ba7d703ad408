"""People and their devices: enrolment, codes, renewal, and the routes of all three."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from culvert_db import Database
from fastapi import APIRouter

from culvert_service.apt.service import ReleasePackages
from culvert_service.audit.refusals import Refusals
from culvert_service.config import Settings
from culvert_service.identity import endpoints
from culvert_service.identity.authenticators import Authenticators
from culvert_service.identity.denials import Denials
from culvert_service.identity.invitations import Invitations
from culvert_service.identity.late_renewal import Challenges, LateRenewal
from culvert_service.identity.people import People
from culvert_service.identity.renewal import Renewal
from culvert_service.identity.service import Identity, Now
from culvert_service.identity.tunnels import DeviceTunnels, Permissions
from culvert_service.pki.authority import Authority
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest.api import Api
from culvert_service.watch.hub import Hub
from culvert_service.watch.presence import Presence
from culvert_service.watch.pushes import Pushes


class IdentityPart:
    def __init__(
        self,
        settings: Settings,
        database: Database,
        refusals: Refusals,
        denials: Denials,
        infrastructure: Authority,
        devices: Authority,
        master_key: MasterKey,
        hub: Hub,
        pushes: Pushes,
        presence: Presence,
        packages: ReleasePackages,
        now: Now,
    ) -> None:
        self.identity = Identity(
            database,
            refusals,
            infrastructure,
            devices,
            master_key,
            hub,
            pushes,
            presence,
            agent_address=settings.agent_address,
            approval=settings.device_approval,
            now=now,
        )
        self.invitations = Invitations(
            database, infrastructure, settings.rest_url, settings.enrolment_url, packages, now
        )
        self.authenticators = Authenticators(database, master_key, pushes, denials, now)
        self.renewal = Renewal(database, infrastructure, devices, denials, now)
        late_renewal = LateRenewal(
            database,
            self.renewal,
            self.authenticators,
            denials,
            refusals,
            Challenges(master_key.derive("late renewal")),
            datetime.timedelta(days=settings.late_renewal_days),
            now,
        )
        self._database = database
        self._now = now
        self._hub = hub
        self._pushes = pushes
        self._late_renewal = late_renewal

    def public(self, api: Api) -> Sequence[APIRouter]:
        return [endpoints.public_router(api, self.identity, self.invitations, self._late_renewal)]

    def admin(self, api: Api, tunnels: DeviceTunnels, permissions: Permissions) -> Sequence[APIRouter]:
        people = People(self._database, self._hub, self._pushes, tunnels, self._now)
        return [
            endpoints.router(
                api, self.identity, self.invitations, self.authenticators, people, tunnels, permissions
            )
        ]
