"""`culvert-controller init`."""

from __future__ import annotations

from culvert_service import controller
from culvert_service.admins.admin_token import AdminToken
from culvert_service.admins.service import Admins
from culvert_service.config import Settings
from culvert_service.pki.authority import Authority
from culvert_service.pki.master_key import MasterKey


async def init(settings: Settings) -> None:
    """Makes the state and the database where they are not, and says how the first owner makes an account."""
    async with controller.administering(settings) as database:
        for authority in ("infrastructure", "gateway", "device"):
            Authority.load(settings.state_dir, authority)
        AdminToken.load(settings.state_dir)
        admins = Admins(database, MasterKey.load(settings.state_dir), controller.now)
        token = await admins.first_owner()
    if token is None:
        print("There is an owner. Owners invite others: POST /api/v1/admins/invitations")
        return
    print("For the first owner's account, within a day, in a browser:")
    # What is behind the # is sent nowhere.
    print(f"  {settings.rest_url}/console/setup#token={token}")
    print(f"or POST {settings.rest_url}/api/v1/setup")
    print(f'  {{"token": "{token}", "name": "…", "password": "…"}}')
