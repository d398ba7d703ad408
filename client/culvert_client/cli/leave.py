"""`culvert leave`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from culvert_proto import local_pb2

from culvert_client.cli import completion, words
from culvert_client.cli.commands import Json, app, link_of, said_yes, say_json, status_of
from culvert_client.cli.language import _


@app.command(
    help=_(
        "Forget an organisation: close its tunnels, and remove its key and all that is kept of it. For root."
    )
)
def leave(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help=_("As in culvert status; may be left out where there is one alone."),
            autocompletion=completion.organisation,
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help=_("Leave without being asked."))] = False,
    json: Json = False,
) -> None:
    if not yes:
        _confirm(context, name)
    answer = link_of(context).ask(lambda daemon: daemon.Leave(local_pb2.LeaveRequest(organisation=name)))
    if json:
        say_json(answer)
        return
    told = _("This computer is no longer enrolled with {name}.")
    words.out.print(told.format(name=answer.organisation), markup=False)


def _confirm(context: typer.Context, name: str) -> None:
    """Ends the command with 0 where the person declines: nothing was asked of the daemon."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(_("without a terminal, give --yes"))
    status = status_of(context)
    known = {it.name: it for it in status.organisations}
    if name not in known and (name or known):
        # The daemon refuses a name that it does not know, and a choice that is unclear, with its own words.
        return
    left = known.get(name, status)
    cut = sum(not name or it.organisation == name for it in status.tunnels)
    told = _("This computer leaves {name}: its key is deleted, and only a new invitation brings it back.")
    words.err.print(told.format(name=name or left.controller), markup=False)
    if cut:
        words.err.print(_.plural("{n} tunnel closes.", "{n} tunnels close.", cut))
    if not said_yes(_("Leave? (yes/no)")):
        words.err.print(_("Nothing has changed."))
        raise typer.Exit
