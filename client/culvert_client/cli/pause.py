"""`culvert pause` and `culvert resume`."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import Annotated

import typer
from culvert_proto import local_pb2
from culvert_proto.screens.units import clock, tomorrow

from culvert_client.cli import words
from culvert_client.cli.commands import Json, app, link_of, say_json
from culvert_client.cli.language import _

_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


def end_of_pause(typed: str, now: datetime) -> datetime | None:
    """`15m`, `2h`, `1d` or `tomorrow` (6 in the morning, local time); None for anything else."""
    if typed == "tomorrow":
        return tomorrow(now)
    found = re.fullmatch(r"(\d{1,4}) ?(m|min|h|d)", typed)
    return now + timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


@app.command(
    help=_(
        "Close every tunnel and open none for a while. Names are resolved; protected addresses stay blocked."
    )
)
def pause(
    context: typer.Context,
    duration: Annotated[str, typer.Argument(help=_("15m, 1h, 1d, or tomorrow."))] = "1h",
    json: Json = False,
) -> None:
    until = end_of_pause(duration, datetime.now().astimezone())
    if until is None:
        raise typer.BadParameter(_("give 15m, 1h, 1d or tomorrow"))
    request = local_pb2.PauseRequest(until=round(until.timestamp()))
    link_of(context).ask(lambda daemon: daemon.Pause(request))
    if json:
        say_json(request)
        return
    told = _("Paused until {time}. Before that: culvert resume")
    words.out.print(told.format(time=clock(request.until, time.time())), markup=False)


@app.command(help=_("End a pause now."))
def resume(context: typer.Context, json: Json = False) -> None:
    answer = link_of(context).ask(lambda daemon: daemon.Resume(local_pb2.ResumeRequest()))
    if json:
        say_json(answer)
        return
    words.out.print(_("Tunnels are opened again when their names are used."))
