"""`culvert agree`: the person's answer about public networks that an organisation wants to carry."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from culvert_proto import local_pb2
from culvert_proto.screens.organisations import split_status

from culvert_client.cli import completion, words
from culvert_client.cli.commands import Json, Whose, app, link_of, status_of
from culvert_client.cli.language import _
from culvert_client.cli.terminal import confirm, say_json


@app.command(
    help=_(
        "Decide whether an organisation may carry your traffic to public networks. If no network is given, the answer "
        "is for all that wait."
    )
)
def agree(
    context: typer.Context,
    prefixes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NETWORK",
            help=_("A network, as culvert status shows it."),
            autocompletion=completion.complete_awaiting,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help=_("Agree without being asked."))] = False,
    no: Annotated[
        bool, typer.Option("--no", help=_("Decline, also networks that were agreed to before."))
    ] = False,
    organisation: Whose = "",
    json: Json = False,
) -> None:
    if yes and no:
        raise typer.BadParameter(_("give --yes or --no, not both"))
    wanted = {organisation: prefixes} if prefixes else _list_awaiting(status_of(context), organisation)
    if not wanted:
        words.out.print(_("No public network waits for your answer."))
        return
    if not yes and not no and not sys.stdin.isatty():
        raise typer.BadParameter(_("without a terminal, give --yes or --no"))
    for name, networks in wanted.items():
        agreed = yes
        if not yes and not no:
            if name:
                words.out.print(name, style="bold", markup=False)
            words.say_awaiting(networks)
            agreed = confirm(_("Agree to this? (yes/no)"))
        request = local_pb2.AnswerClaimsRequest(prefixes=networks, agreed=agreed, organisation=name)
        answer = link_of(context).ask(lambda daemon, it=request: daemon.AnswerClaims(it))
        if json:
            say_json(answer)
            continue
        told = _("Agreed: {prefixes}.") if agreed else _("Declined: {prefixes}. You can still agree later.")
        words.out.print(told.format(prefixes=", ".join(networks)), markup=False)


def _list_awaiting(status: local_pb2.Status, organisation: str) -> dict[str, list[str]]:
    """The networks that await an answer, by organisation. A sole organisation has the key ""."""
    shown = (
        (name, list(it.awaiting_prefixes)) for name, it in split_status(status) if organisation in ("", name)
    )
    return {name: networks for name, networks in shown if networks}
