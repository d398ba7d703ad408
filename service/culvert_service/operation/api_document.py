"""`culvert-controller openapi`: what the REST API offers, as the console's client is made from it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from culvert_db import bind_database

from culvert_service.config import Settings
from culvert_service.controller import Controller
from culvert_service.database import connect


async def write() -> None:
    """To standard output. Needs neither settings nor a database: nothing is started."""
    engine = connect("postgresql://nobody@localhost/none")
    with tempfile.TemporaryDirectory() as state:
        controller = Controller(Settings(state_dir=Path(state)), bind_database(engine))
        print(json.dumps(controller.openapi(), indent=1, sort_keys=True))
    await engine.dispose()
