"""`culvert leave`."""

from __future__ import annotations

from typing import Annotated

import typer
from culvert_proto import local_pb2

from culvert_client.cli import completion, words
from culvert_client.cli.commands import Json, app, link_of, say_json
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
    json: Json = False,
) -> None:
    answer = link_of(context).ask(lambda daemon: daemon.Leave(local_pb2.LeaveRequest(organisation=name)))
    if json:
        say_json(answer)
        return
    told = _("This computer is no longer enrolled with {name}.")
    words.out.print(told.format(name=answer.organisation), markup=False)
