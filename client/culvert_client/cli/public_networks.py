"""`culvert agree`, and what is said of public networks that wait for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

import typer
from culvert_proto import local_pb2
from culvert_proto.organisations import parts

from culvert_client.cli import completion, words
from culvert_client.cli.commands import Json, Whose, app, link_of, say_json, status_of
from culvert_client.cli.language import _


@app.command(
    help=_(
        "Decide whether an organisation may carry your traffic to public networks. Without a network, to all that wait."
    )
)
def agree(
    context: typer.Context,
    prefixes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NETWORK", help=_("As in culvert status."), autocompletion=completion.awaiting
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help=_("Agree without being asked."))] = False,
    no: Annotated[bool, typer.Option("--no", help=_("Decline; also what was agreed to before."))] = False,
    organisation: Whose = "",
    json: Json = False,
) -> None:
    if yes and no:
        raise typer.BadParameter(_("give --yes or --no, not both"))
    wanted = prefixes or _awaiting(status_of(context), organisation)
    if not wanted:
        words.out.print(_("No public network waits for your answer."))
        return
    if not yes and not no:
        if not sys.stdin.isatty():
            raise typer.BadParameter(_("give --yes or --no where nobody can be asked"))
        words.say_awaiting(wanted)
        yes = typer.confirm(_("Agree to this?"))
    request = local_pb2.AnswerClaimsRequest(prefixes=wanted, agreed=yes, organisation=organisation)
    answer = link_of(context).ask(lambda daemon: daemon.AnswerClaims(request))
    if json:
        say_json(answer)
        return
    told = _("Agreed: {prefixes}.") if yes else _("Declined: {prefixes}. You can still agree later.")
    words.out.print(told.format(prefixes=", ".join(wanted)), markup=False)


def _awaiting(status: local_pb2.Status, organisation: str) -> list[str]:
    shown: Iterable[local_pb2.Status] = (it for name, it in parts(status) if organisation in ("", name))
    return [prefix for it in shown for prefix in it.awaiting_prefixes]
