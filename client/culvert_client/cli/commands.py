"""The commands of `culvert`. Each asks the daemon one thing."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated

import segno
import typer
from culvert_proto import local_pb2
from google.protobuf import json_format
from google.protobuf.message import Message

from culvert_client.cli import observation, words
from culvert_client.cli.daemon_link import EXIT_FAULT, DaemonLink
from culvert_client.cli.diagnosis import Verdict, verdicts

app = typer.Typer(
    name="culvert",
    help="On-demand IPsec tunnels: a name opens, and a tunnel carries it.",
    epilog="Exit codes: 0 done, 1 fault, 2 wrong usage, 3 refused with a reason, 4 the daemon does not run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def connect(
    context: typer.Context,
    socket: Annotated[Path, typer.Option(envvar="CULVERT_SOCKET", help="The daemon's socket.")] = Path(
        "/run/culvert/culvertd.sock"
    ),
) -> None:
    context.obj = DaemonLink(socket)


@app.command()
def status(context: typer.Context, json: Json = False) -> None:
    """What is up, who is signed in, what went wrong."""
    found = _status(context)
    _json(found) if json else words.say_status(found)


@app.command()
def resources(context: typer.Context, json: Json = False) -> None:
    """The names that you may open."""
    found = _status(context)
    _json(local_pb2.Status(resources=found.resources)) if json else words.say_resources(found)


@app.command()
def gateways(context: typer.Context, json: Json = False) -> None:
    """The gateways, whether they are online, and the round trip to each."""
    found = _status(context)
    if json:
        _json(local_pb2.Status(gateways=found.gateways, selected_gateway=found.selected_gateway))
    else:
        words.say_gateways(found)


@app.command()
def enroll(
    context: typer.Context,
    link: Annotated[str | None, typer.Argument(help="culvert://enroll?…; asked for when left out.")] = None,
    name: Annotated[str, typer.Option(help="This computer's name; its host name when left out.")] = "",
    totp_uri_file: Annotated[
        Path | None,
        typer.Option(help="Write the authenticator's URI and the recovery codes there (0600), a line each."),
    ] = None,
) -> None:
    """Enrol this computer with an invitation link, and set up your authenticator."""
    wanted = link if link is not None else _typed("Invitation link")
    # Opened before the token is spent: a secret with nowhere to go is lost.
    target = None if totp_uri_file is None else _private_file(totp_uri_file)
    try:
        request = local_pb2.EnrollRequest(link=wanted, device_name=name)
        answer = link_of(context).ask(lambda daemon: daemon.Enroll(request))
    except typer.Exit:
        if totp_uri_file is not None:
            totp_uri_file.unlink()
        raise
    words.out.print(f"Enrolled as {answer.user}.", markup=False)
    if target is not None:
        with os.fdopen(target, "w") as file:
            file.write("".join(f"{line}\n" for line in (answer.totp_uri, *answer.recovery_codes)))
        return
    if sys.stdout.isatty():
        segno.make(answer.totp_uri, error="m").terminal(compact=True)
    words.out.print("Scan this with your authenticator; it is not shown again:")
    words.out.print(answer.totp_uri, markup=False)
    if answer.recovery_codes:
        words.out.print("Keep these for the day that your authenticator is gone. Each works once, as a code:")
        for one in answer.recovery_codes:
            words.out.print(f"  {one}", markup=False)
    if sys.stdin.isatty():
        _submit(context, _typed("Code"))


@app.command()
def code(
    context: typer.Context,
    digits: Annotated[
        str | None, typer.Argument(help="Six digits, or a recovery code; asked for when left out.")
    ] = None,
) -> None:
    """Prove a code of your authenticator, so that tunnels can be opened."""
    _submit(context, digits if digits is not None else _typed("Code"))


@app.command("open")
def open_name(
    context: typer.Context, name: Annotated[str, typer.Argument(help="A resource, or its name in DNS.")]
) -> None:
    """Bring the tunnel for a name up, and wait until packets can flow."""
    answer = link_of(context).ask(lambda daemon: daemon.OpenTunnel(local_pb2.OpenTunnelRequest(name=name)))
    words.out.print(f"{answer.tunnel.fqdn} is open through {answer.tunnel.gateway}.", markup=False)


@app.command()
def close(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="A resource, or its name in DNS.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Close every tunnel.")] = False,
) -> None:
    """Close the tunnel of a name, or all."""
    if every == (name is not None):
        raise typer.BadParameter("give a name, or --all")
    request = (
        local_pb2.CloseTunnelRequest(all=True) if every else local_pb2.CloseTunnelRequest(name=name or "")
    )
    answer = link_of(context).ask(lambda daemon: daemon.CloseTunnel(request))
    if every:
        words.out.print(f"{answer.closed} tunnels closed." if answer.closed != 1 else "1 tunnel closed.")
    else:
        words.out.print(f"{name} is closed." if answer.closed else f"{name} was not open.", markup=False)


@app.command()
def use(
    context: typer.Context, gateway: Annotated[str, typer.Argument(help="A gateway's name, or auto.")]
) -> None:
    """Choose the gateway for tunnels opened from now on."""
    chosen = "" if gateway == "auto" else gateway
    link_of(context).ask(lambda daemon: daemon.SelectGateway(local_pb2.SelectGatewayRequest(gateway=chosen)))
    words.out.print(f"Gateway: {chosen or 'automatic'}.", markup=False)


@app.command()
def doctor(context: typer.Context, json: Json = False) -> None:
    """Check each hop: a verdict, and what to do. Ends with 1 when something is wrong."""
    found = _verdicts(context)
    if json:
        print(dumps([asdict(verdict) for verdict in found], indent=2))
    else:
        words.say_verdicts(found)
    if not all(verdict.good for verdict in found):
        raise typer.Exit(EXIT_FAULT)


@app.command()
def report(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A zip that does not exist yet.", readable=False)],
) -> None:
    """Write what your administrator needs to help you into a zip; no secret is in it."""
    target = _private_file(file)
    try:
        found, status = _verdicts(context), _status(context)
    except typer.Exit:
        file.unlink()
        raise
    lines = (f"{'ok' if it.good else 'WRONG'} {it.hop}: {it.what} {it.remedy}".strip() for it in found)
    observation.write_report(target, status, "\n".join([*lines, ""]))
    words.out.print(f"{file} is written. Look into it before you send it.", markup=False)


def _verdicts(context: typer.Context) -> list[Verdict]:
    return list(verdicts(_status(context), observation.see(), time.time()))


def link_of(context: typer.Context) -> DaemonLink:
    link: DaemonLink = context.obj
    return link


def _status(context: typer.Context) -> local_pb2.Status:
    return link_of(context).ask(lambda daemon: daemon.GetStatus(local_pb2.GetStatusRequest())).status


def _submit(context: typer.Context, digits: str) -> None:
    wanted = digits.strip().replace(" ", "")
    link_of(context).ask(lambda daemon: daemon.SubmitCode(local_pb2.SubmitCodeRequest(code=wanted)))
    words.out.print("The code is right: tunnels can be opened.")


def _typed(what: str) -> str:
    """From the terminal with a prompt, or one line of what is piped in: a secret need not stand in argv."""
    if sys.stdin.isatty():
        return str(typer.prompt(what)).strip()
    line = sys.stdin.readline().strip()
    if not line:
        raise typer.BadParameter(f"{what.lower()}: nothing came in")
    return line


def _private_file(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        words.say_error(f"{path} cannot be made: {error.strerror}.", "Name a file that does not exist yet.")
        raise typer.Exit(EXIT_FAULT) from None


def _json(message: Message) -> None:
    print(
        json_format.MessageToJson(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    )
