"""`culvert log`: what has happened, and what happens."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer
from culvert_proto import local_pb2
from culvert_proto.screens.activity import said
from google.protobuf import json_format

from culvert_client.cli import words
from culvert_client.cli.commands import Json, app, link_of
from culvert_client.cli.language import _

if TYPE_CHECKING:
    from culvert_proto import local_pb2_grpc

_COLOURS = {
    local_pb2.ACTIVITY_KIND_TUNNEL_UP: "green",
    local_pb2.ACTIVITY_KIND_DENIED: "red",
    local_pb2.ACTIVITY_KIND_FAILED_OVER: "yellow",
    local_pb2.ACTIVITY_KIND_CONTROLLER_LOST: "red",
}


@app.command(
    help=_(
        "Show the activity: tunnels up and closed, denials with their reasons. With --json, an object a line."
    )
)
def log(
    context: typer.Context,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help=_("Keep running and show new activity."))
    ] = False,
    json: Json = False,
) -> None:

    async def read(daemon: local_pb2_grpc.LocalServiceAsyncStub) -> None:
        async for answer in daemon.WatchActivity(local_pb2.WatchActivityRequest(follow=follow)):
            one = answer.activity
            if json:
                print(
                    json_format.MessageToJson(one, preserving_proto_field_name=True, indent=None), flush=True
                )
            else:
                words.out.print(_line(one), style=_COLOURS.get(one.kind), markup=False)

    # Ctrl-C is how a person ends it.
    with suppress(KeyboardInterrupt):
        link_of(context).ask(read)


def _line(one: local_pb2.Activity) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at_ms / 1e3))
    return f"{at}  {said(one)}"
