"""The commands of `culvert`. Each asks the daemon one thing."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import asdict, replace
from importlib.metadata import version
from json import dumps
from pathlib import Path
from typing import Annotated

import segno
import typer
from culvert_proto import local_pb2
from culvert_proto.dns_name import shown
from culvert_proto.output import EXIT_OUTPUT, OutputError, require_output
from culvert_proto.screens.organisations import parts
from google.protobuf import json_format
from google.protobuf.message import Message

from culvert_client.cli import completion, observation, words
from culvert_client.cli.daemon_link import DaemonLink
from culvert_client.cli.diagnosis import verdicts
from culvert_client.cli.failure import EXIT_FAULT, FailureError
from culvert_client.cli.language import _
from culvert_client.cli.usage import App
from culvert_client.cli.verdict import Verdict
from culvert_client.platform import command_line_platform

app = App(
    name="culvert",
    help=_("On-demand IPsec tunnels: a name opens, and a tunnel carries it."),
    epilog=_(
        "Exit codes: 0 done, 1 fault, 2 wrong usage, 3 refused with a reason, 4 the daemon does not run, "
        "74 the output cannot be written."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_PLATFORM = command_line_platform()
# In bytes; an authenticator's URI and its recovery codes take a tenth.
_ROOM = 4096

Json = Annotated[bool, typer.Option("--json", help=_("Print JSON."))]
Whose = Annotated[
    str,
    typer.Option(
        "--organisation",
        help=_("The organisation, if there are several: as in culvert status."),
        autocompletion=completion.organisation,
    ),
]


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"culvert {version('culvert-client')}")
        raise typer.Exit


@app.callback()
def connect(
    context: typer.Context,
    socket: Annotated[
        Path, typer.Option(envvar="CULVERT_SOCKET", help=_("The daemon's socket."))
    ] = _PLATFORM.paths.socket,
    _version: Annotated[
        bool,
        typer.Option("--version", help=_("Show the version and exit."), callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    context.obj = DaemonLink(socket)


@app.command(help=_("Show the open tunnels, who is signed in, and the last error."))
def status(context: typer.Context, json: Json = False) -> None:
    found = status_of(context)
    say_json(found) if json else words.say_status(found)


@app.command(help=_("List the names that you may open."))
def resources(context: typer.Context, json: Json = False) -> None:
    found = status_of(context)
    say_json(local_pb2.Status(resources=found.resources)) if json else words.say_resources(found)


@app.command(help=_("List the gateways, whether they are online, and the round trip to each."))
def gateways(context: typer.Context, json: Json = False) -> None:
    found = status_of(context)
    if json:
        say_json(local_pb2.Status(gateways=found.gateways, selected_gateway=found.selected_gateway))
    else:
        words.say_gateways(found)


@app.command(help=_("Enrol this computer with an invitation link, and set up your authenticator."))
def enroll(
    context: typer.Context,
    link: Annotated[
        str | None, typer.Argument(help=_("culvert://enroll?…; asked for when left out."))
    ] = None,
    name: Annotated[str, typer.Option(help=_("This computer's name; its host name when left out."))] = "",
    totp_uri_file: Annotated[
        Path | None,
        typer.Option(
            help=_("Write the authenticator's URI and the recovery codes there (0600), a line each.")
        ),
    ] = None,
    json: Json = False,
) -> None:
    wanted = link if link is not None else _typed(_("Invitation link"))
    # Opened before the token is spent: a secret with nowhere to go is lost.
    target = None if totp_uri_file is None else _private_file(totp_uri_file, room=_ROOM)
    try:
        if target is None:
            _require_output()
        request = local_pb2.EnrollRequest(link=wanted, device_name=name)
        answer = link_of(context).ask(lambda daemon: daemon.Enroll(request))
    except FailureError:
        if totp_uri_file is not None:
            totp_uri_file.unlink()
        raise
    try:
        if target is not None:
            _fill(target, "".join(f"{line}\n" for line in (answer.totp_uri, *answer.recovery_codes)))
        elif json:
            say_json(answer)
            sys.stdout.flush()
        else:
            _say_once(answer)
    except (OSError, OutputError) as error:
        told = _("This computer is enrolled, but its authenticator could not be shown: {why}.")
        remedy = _("Ask your administrator for a new authenticator for this computer.")
        raise FailureError("OUTPUT_LOST", told.format(why=error), remedy, EXIT_OUTPUT) from None
    if json:
        if target is not None:
            say_json(local_pb2.EnrollResponse(user=answer.user))
        return
    if target is not None:
        _say_enrolled(answer)
    elif sys.stdin.isatty():
        _submit(context, None, answer.organisation, json=False)


def _require_output() -> None:
    """Raises FailureError where what enrolment shows once would be lost. A pipe can still break later."""
    try:
        require_output()
    except OutputError as error:
        told = _("Nothing has changed, because the output cannot be written: {why}.")
        remedy = _("Run it in a terminal, or give --totp-uri-file.")
        raise FailureError("OUTPUT_LOST", told.format(why=error), remedy, EXIT_OUTPUT) from None


def _say_enrolled(answer: local_pb2.EnrollResponse) -> None:
    words.out.print(_("Enrolled as {user}.").format(user=answer.user), markup=False)
    words.say_carried(answer)


def _say_once(answer: local_pb2.EnrollResponse) -> None:
    """Raises OutputError unless all of it was written."""
    _say_enrolled(answer)
    if sys.stdout.isatty():
        _say_qr(answer.totp_uri)
    words.out.print(_("Scan this with your authenticator; it is not shown again:"))
    words.out.print(answer.totp_uri, markup=False)
    if answer.recovery_codes:
        words.out.print(_("Keep these in case you lose your authenticator. Each works once, as a code:"))
        for one in answer.recovery_codes:
            words.out.print(f"  {one}", markup=False)
    sys.stdout.flush()


def _say_qr(uri: str) -> None:
    """Nothing where the terminal is too narrow for it."""
    drawn = segno.make(uri, error="m")
    width, columns = drawn.symbol_size()[0], shutil.get_terminal_size().columns
    try:
        "▀▄█".encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        # Spaces of two colours, two for a module.
        if 2 * width <= columns:
            drawn.terminal()
        return
    if width <= columns:
        drawn.terminal(compact=True)


@app.command(help=_("Prove a code of your authenticator, so that tunnels can be opened."))
def code(
    context: typer.Context,
    digits: Annotated[
        str | None, typer.Argument(help=_("Six digits, or a recovery code; asked for when left out."))
    ] = None,
    organisation: Whose = "",
    json: Json = False,
) -> None:
    _submit(context, digits, organisation or _which_needs_a_code(status_of(context)), json)


@app.command("open", help=_("Bring the tunnel for a name up, and wait until packets can flow."))
def open_name(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(help=_("A resource, or its name in DNS."), autocompletion=completion.resource),
    ],
    json: Json = False,
) -> None:
    answer = link_of(context).ask(lambda daemon: daemon.OpenTunnel(local_pb2.OpenTunnelRequest(name=name)))
    if json:
        say_json(answer)
        return
    told = _("{name} is open through {gateway}.")
    words.out.print(told.format(name=shown(answer.tunnel.fqdn), gateway=answer.tunnel.gateway), markup=False)


@app.command(help=_("Close the tunnel of a name, or all."))
def close(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(help=_("A resource, or its name in DNS."), autocompletion=completion.tunnel),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help=_("Close every tunnel."))] = False,
    json: Json = False,
) -> None:
    if every == (name is not None):
        raise typer.BadParameter(_("give a name, or --all"))
    request = (
        local_pb2.CloseTunnelRequest(all=True) if every else local_pb2.CloseTunnelRequest(name=name or "")
    )
    answer = link_of(context).ask(lambda daemon: daemon.CloseTunnel(request))
    if json:
        say_json(answer)
    elif every:
        words.out.print(_.plural("{n} tunnel closed.", "{n} tunnels closed.", answer.closed))
    else:
        told = _("{name} is closed.") if answer.closed else _("{name} was not open.")
        words.out.print(told.format(name=name), markup=False)


@app.command(help=_("Choose the gateway for tunnels opened from now on."))
def use(
    context: typer.Context,
    gateway: Annotated[
        str, typer.Argument(help=_("A gateway's name, or auto."), autocompletion=completion.gateway)
    ],
    organisation: Whose = "",
    json: Json = False,
) -> None:
    chosen = "" if gateway == "auto" else gateway
    request = local_pb2.SelectGatewayRequest(gateway=chosen, organisation=organisation)
    answer = link_of(context).ask(lambda daemon: daemon.SelectGateway(request))
    if json:
        say_json(answer)
        return
    words.out.print(_("Gateway: {gateway}.").format(gateway=chosen or _("automatic")), markup=False)


@app.command(help=_("Check each hop, and say what to do. Ends with 1 if a check fails."))
def doctor(context: typer.Context, json: Json = False) -> None:
    found = _verdicts(context)
    if json:
        print(dumps([asdict(it) | {"title": words.title(of, it)} for of, it in found], indent=2))
    else:
        words.say_verdicts(found)
    if not all(verdict.good for _of, verdict in found):
        raise typer.Exit(EXIT_FAULT)


@app.command(help=_("Write a zip with the facts that your administrator needs; it holds no secret."))
def report(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            help=_("A zip that does not exist yet; culvert-report-DATE-TIME.zip, here, when left out."),
            readable=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    file = file or Path(time.strftime("culvert-report-%Y%m%d-%H%M%S.zip"))
    target = _private_file(file)
    try:
        found, status = _verdicts(context), status_of(context)
    except FailureError:
        file.unlink()
        raise
    lines = (
        " ".join(filter(None, ("ok" if it.good else "WRONG", of, f"{it.hop}: {it.what}", it.remedy)))
        for of, it in found
    )
    observation.write_report(_PLATFORM.view, target, status, "\n".join([*lines, ""]))
    if json:
        print(dumps({"file": str(file)}))
        return
    told = _("{file} is written. Look into it before you send it.")
    words.out.print(told.format(file=file), markup=False)


def _verdicts(context: typer.Context) -> list[tuple[str, Verdict]]:
    """Each with the name of the organisation that it is about, where there are several."""
    here, found = observation.see(_PLATFORM.view), list[tuple[str, Verdict]]()
    for organisation, status in parts(status_of(context)):
        seen = here
        # The daemon tells others nothing, and there is nothing to tell before.
        if status.user and status.state != local_pb2.STATE_NOT_ENROLLED:
            request = local_pb2.ExamineRequest(organisation=organisation)
            examined = link_of(context).ask(lambda daemon, it=request: daemon.Examine(it))
            seen = replace(here, examined=examined, asks_stub=observation.asks_stub(examined))
        judged = verdicts(status, seen, time.time())
        found += [(organisation, verdict) for verdict in judged]
    return found


def link_of(context: typer.Context) -> DaemonLink:
    link: DaemonLink = context.obj
    return link


def status_of(context: typer.Context) -> local_pb2.Status:
    return link_of(context).ask(lambda daemon: daemon.GetStatus(local_pb2.GetStatusRequest())).status


def _which_needs_a_code(status: local_pb2.Status) -> str:
    """The one that does; the daemon says what is unclear."""
    needing = [it.name for it in status.organisations if it.state == local_pb2.STATE_NEEDS_CODE]
    return needing[0] if len(needing) == 1 else ""


def _submit(context: typer.Context, digits: str | None, organisation: str, json: bool) -> None:
    if digits is None:
        asked = _("Code for {organisation}").format(organisation=organisation)
        digits = _typed(asked if organisation else _("Code"))
    wanted = digits.strip().replace(" ", "")
    request = local_pb2.SubmitCodeRequest(code=wanted, organisation=organisation)
    answer = link_of(context).ask(lambda daemon: daemon.SubmitCode(request))
    if json:
        say_json(answer)
        return
    told = _("The code is right: tunnels of {organisation} can be opened.")
    right = (
        told.format(organisation=organisation)
        if organisation
        else _("The code is right: tunnels can be opened.")
    )
    words.out.print(right, markup=False)
    if answer.HasField("recovery_codes_left"):
        words.say_recovery_codes(answer.recovery_codes_left)


def _typed(what: str) -> str:
    """From the terminal with a prompt, or one line of what is piped in: a secret need not stand in argv."""
    if sys.stdin.isatty():
        return str(typer.prompt(what)).strip()
    line = sys.stdin.readline().strip()
    if not line:
        raise typer.BadParameter(_("{what}: nothing came in").format(what=what))
    return line


def said_yes(question: str) -> bool:
    """Asks in the person's language, because Typer's own confirmation accepts English letters alone."""
    said = str(typer.prompt(question, default=_("no"), show_default=False, err=True))
    return said.strip().lower() in ("y", "yes", _("y"), _("yes"))


def _private_file(path: Path, *, room: int = 0) -> int:
    """A descriptor of a new file with `room` bytes of the disk reserved. Raises FailureError; then there is no file."""
    made = False
    try:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        made = True
        if room:
            os.posix_fallocate(target, 0, room)
    except OSError as error:
        if made:
            path.unlink()
        told = _("{file} cannot be made: {why}.").format(file=path, why=error.strerror)
        remedy = _("Name a file that does not exist yet.")
        raise FailureError("FILE_UNUSABLE", told, remedy, EXIT_FAULT) from None
    return target


def _fill(target: int, text: str) -> None:
    """Closes the descriptor. Raises OSError unless the text is on the disk."""
    with os.fdopen(target, "w") as file:
        file.write(text)
        file.truncate()
        file.flush()
        os.fsync(target)


def say_json(message: Message) -> None:
    print(
        json_format.MessageToJson(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    )
