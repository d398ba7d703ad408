"""The controller's part for administrators: who may call, and the routes of accounts, sign-in and API tokens."""

from __future__ import annotations

from culvert_db import Database

from culvert_service.admins import account_endpoints, endpoints, passkey_endpoints
from culvert_service.admins.access import Access
from culvert_service.admins.account import Account
from culvert_service.admins.admin_token import AdminToken
from culvert_service.admins.credentials import OwnCredentials
from culvert_service.admins.notices import Notices
from culvert_service.admins.passkeys import Passkeys
from culvert_service.admins.password import Passwords
from culvert_service.admins.proof import Proof
from culvert_service.admins.rates import Rates
from culvert_service.admins.service import Admins, Now
from culvert_service.audit.refusals import Refusals
from culvert_service.config import Settings
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest.api import Api


class AdminsPart:
    def __init__(
        self, settings: Settings, database: Database, refusals: Refusals, master_key: MasterKey, now: Now
    ) -> None:
        passwords = Passwords()
        proof = Proof(database, master_key, passwords, now)
        admins = Admins(database, master_key, settings.rest_url, now, passwords, proof, refusals)
        account = Account(database, refusals, master_key, proof, passwords, now)
        passkeys = Passkeys(database, refusals, settings.rest_url, now)
        self.rates = Rates(settings.rest_calls_per_second, settings.rest_strangers_calls_per_second)
        self.access = Access(refusals, AdminToken.load(settings.state_dir), admins, self.rates)
        self.admin_api, self.public_api = Api(self.access), Api(self.rates.anyone)
        self.admin = [endpoints.router(self.admin_api, admins)]
        self.public = [
            endpoints.public_router(self.public_api, admins, self.access),
            account_endpoints.public_router(
                self.public_api, self.access, account, OwnCredentials(database, now), Notices(database)
            ),
            passkey_endpoints.public_router(self.public_api, self.access, passkeys),
        ]
