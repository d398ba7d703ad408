"""The commands of `culvert`. Most make one call to the daemon."""

from __future__ import annotations

import re
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from importlib.metadata import version
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.dns_name import is_wildcard, make_readable
from culvert_proto.invitation_link import parse_invitation
from culvert_proto.output import EXIT_OUTPUT, OutputError
from culvert_proto.screens.opening import last_opening
from culvert_proto.screens.organisations import split_status
from culvert_proto.screens.units import clock, tomorrow
from google.protobuf import json_format

from culvert_client.cli import completion, observation, words
from culvert_client.cli.daemon_link import DaemonLink
from culvert_client.cli.diagnosis import verdicts
from culvert_client.cli.failure import EXIT_FAULT, FailureError
from culvert_client.cli.language import _
from culvert_client.cli.opening import say_chart
from culvert_client.cli.terminal import (
    confirm,
    fill,
    private_file,
    read_secret,
    require_output_for_secrets,
    say_enrolled,
    say_json,
    say_once,
)
from culvert_client.cli.usage import App
from culvert_client.cli.verdict import Verdict
from culvert_client.platform import command_line_platform

if TYPE_CHECKING:
    from culvert_proto import local_pb2_grpc

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
_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days"}
# Bytes to reserve on the disk; an authenticator's URI and its recovery codes take a tenth.
_ROOM = 4096
# After these refusals of a code, a terminal asks for another one.
_ASKED_AGAIN = (Reason.CODE_WRONG.name, Reason.CODE_USED.name)

Json = Annotated[bool, typer.Option("--json", help=_("Print JSON."))]
Whose = Annotated[
    str,
    typer.Option(
        "--organisation",
        help=_("The organisation, as culvert status names it; needed only if there are several."),
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
        str | None,
        typer.Argument(help=_("The invitation link; if it is left out, the command asks for it.")),
    ] = None,
    name: Annotated[str, typer.Option(help=_("This computer's name; without it, the host name."))] = "",
    totp_uri_file: Annotated[
        Path | None,
        typer.Option(
            help=_(
                "Write the authenticator's URI and the recovery codes to this new file (mode 0600), one per line."
            )
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help=_("Enrol without being asked."))] = False,
    json: Json = False,
) -> None:
    wanted = link if link is not None else read_secret(_("Invitation link"))
    if not yes and sys.stdin.isatty():
        _confirm_invitation(context, wanted)
    elif not yes:
        _check_replaces_nothing(context, wanted)
    # Open the file before the token is used up, so that the secret cannot be lost.
    target = None if totp_uri_file is None else private_file(totp_uri_file, room=_ROOM)
    try:
        if target is None:
            require_output_for_secrets()
        request = local_pb2.EnrollRequest(link=wanted, device_name=name)
        answer = link_of(context).ask(lambda daemon: daemon.Enroll(request))
    except FailureError:
        if totp_uri_file is not None:
            totp_uri_file.unlink()
        raise
    try:
        if target is not None:
            fill(target, "".join(f"{line}\n" for line in (answer.totp_uri, *answer.recovery_codes)))
        elif json:
            say_json(answer)
            sys.stdout.flush()
        else:
            say_once(answer)
    except (OSError, OutputError) as error:
        told = _("This computer is enrolled, but its authenticator could not be shown: {why}.")
        remedy = _("Ask your administrator for a new authenticator for this computer.")
        raise FailureError("OUTPUT_LOST", told.format(why=error), remedy, EXIT_OUTPUT) from None
    if json:
        if target is not None:
            say_json(local_pb2.EnrollResponse(user=answer.user))
        return
    asks_for_code = target is None and sys.stdin.isatty()
    if target is not None:
        say_enrolled(answer)
    elif asks_for_code:
        _submit(context, None, answer.organisation, json=False)
    _say_next(context, answer.organisation, has_code=asks_for_code)


@app.command(help=_("Enter a code from your authenticator, so that tunnels can be opened."))
def code(
    context: typer.Context,
    digits: Annotated[
        str | None,
        typer.Argument(help=_("Six digits, or a recovery code; if it is left out, the command asks for it.")),
    ] = None,
    organisation: Whose = "",
    json: Json = False,
) -> None:
    _submit(context, digits, organisation or _which_needs_a_code(status_of(context)), json)


@app.command("open", help=_("Open the tunnel for a name, and wait until packets can flow."))
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
    words.out.print(
        told.format(name=make_readable(answer.tunnel.fqdn), gateway=answer.tunnel.gateway), markup=False
    )


@app.command(help=_("Open a name, time each hop to its page, and say which is slow or fails."))
def why(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(help=_("A resource, or its name in DNS."), autocompletion=completion.resource),
    ],
    json: Json = False,
) -> None:
    request = local_pb2.TimeHopsRequest(name=name)
    try:
        fqdn = link_of(context).ask(lambda daemon: daemon.TimeHops(request)).hop_times.fqdn
    except FailureError as failure:
        opened = (
            None
            if json or "name" not in failure.fields
            else last_opening(status_of(context), failure.fields["name"])
        )
        if opened is not None:
            say_chart(opened, time.time(), failure.message)
        raise
    found = status_of(context)
    if json:
        clicks = [it for it in found.clicks if it.fqdn == fqdn][:1]
        times = [it for it in found.hop_times if it.fqdn == fqdn]
        say_json(local_pb2.Status(clicks=clicks, hop_times=times))
    elif (opened := last_opening(found, fqdn)) is not None:
        say_chart(opened, time.time())


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
        print(
            dumps(
                [asdict(it) | {"title": words.title(of, it), "organisation": of} for of, it in found],
                indent=2,
            )
        )
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
            help=_(
                "A zip that does not exist yet; without it, culvert-report-DATE-TIME.zip in the current directory."
            ),
            readable=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    file = file or Path(time.strftime("culvert-report-%Y%m%d-%H%M%S.zip"))
    target = private_file(file)
    try:
        found, status = _verdicts(context), status_of(context)
    except FailureError:
        file.unlink()
        raise
    lines = (
        " ".join(
            filter(None, ("ok" if it.good else "WRONG", of, f"{it.hop}: {it.what}", it.remedy, it.shell))
        )
        for of, it in found
    )
    observation.write_report(_PLATFORM.view, target, status, "\n".join([*lines, ""]))
    if json:
        print(dumps({"file": str(file)}))
        return
    told = _("{file} is written. Look into it before you send it.")
    words.out.print(told.format(file=file), markup=False)


def _verdicts(context: typer.Context) -> list[tuple[str, Verdict]]:
    """The verdicts, each with its organisation's name if there are several organisations."""
    here, found = observation.see(_PLATFORM.view), list[tuple[str, Verdict]]()
    for organisation, status in split_status(status_of(context)):
        seen = here
        # Only for the owner of an enrolled computer: the daemon tells other users nothing.
        if status.user and status.state != local_pb2.STATE_NOT_ENROLLED:
            request = local_pb2.ExamineRequest(organisation=organisation)
            examined = link_of(context).ask(lambda daemon, it=request: daemon.Examine(it))
            seen = replace(here, examined=examined, asks_stub=observation.asks_stub(examined))
        judged = verdicts(status, seen, time.time())
        found += [(organisation, verdict) for verdict in judged]
    return found


@app.command(
    help=_(
        "Leave an organisation: close its tunnels, and delete its key and its data from this computer. Needs root."
    )
)
def leave(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help=_("The organisation, as culvert status names it; may be left out if there is only one."),
            autocompletion=completion.organisation,
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help=_("Leave without being asked."))] = False,
    json: Json = False,
) -> None:
    if not yes:
        _confirm_leave(context, name)
    answer = link_of(context).ask(lambda daemon: daemon.Leave(local_pb2.LeaveRequest(organisation=name)))
    if json:
        say_json(answer)
        return
    told = _("This computer is no longer enrolled with {name}.")
    words.out.print(told.format(name=answer.organisation), markup=False)


@app.command(
    help=_(
        "Show the activity: tunnels opened and closed, denials with their reasons. With --json, one object per line."
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
                words.say_activity(one)

    # A person ends it with Ctrl-C.
    with suppress(KeyboardInterrupt):
        link_of(context).ask(read)


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


def link_of(context: typer.Context) -> DaemonLink:
    link: DaemonLink = context.obj
    return link


def status_of(context: typer.Context) -> local_pb2.Status:
    return link_of(context).ask(lambda daemon: daemon.GetStatus(local_pb2.GetStatusRequest())).status


def _which_needs_a_code(status: local_pb2.Status) -> str:
    """The organisation that needs a code; empty unless exactly one does: then the daemon asks for the name."""
    needing = [it.name for it in status.organisations if it.state == local_pb2.STATE_NEEDS_CODE]
    return needing[0] if len(needing) == 1 else ""


def _submit(context: typer.Context, digits: str | None, organisation: str, json: bool) -> None:
    answer = _ask_until_right(context, digits, organisation)
    if json:
        say_json(answer)
        return
    mine = [it for it in status_of(context).resources if it.organisation == organisation or not organisation]
    if not mine:
        right = _("The code is right, but you may open nothing yet: ask your administrator for access.")
    elif organisation:
        told = _("The code is right: tunnels of {organisation} can be opened.")
        right = told.format(organisation=organisation)
    else:
        right = _("The code is right: tunnels can be opened.")
    words.out.print(right, markup=False)
    if answer.HasField("recovery_codes_left"):
        words.say_recovery_codes(answer.recovery_codes_left)


def _ask_until_right(
    context: typer.Context, digits: str | None, organisation: str
) -> local_pb2.SubmitCodeResponse:
    """At a terminal, ask for another code after a wrong one; the controller limits the tries."""
    asked = _("Code for {organisation}").format(organisation=organisation) if organisation else _("Code")
    while True:
        wanted = (read_secret(asked) if digits is None else digits).strip().replace(" ", "")
        request = local_pb2.SubmitCodeRequest(code=wanted, organisation=organisation)
        try:
            return link_of(context).ask(lambda daemon, request=request: daemon.SubmitCode(request))
        except FailureError as failure:
            if digits is not None or failure.reason not in _ASKED_AGAIN or not sys.stdin.isatty():
                raise
            failure.say(json=False)


def _say_next(context: typer.Context, organisation: str, *, has_code: bool) -> None:
    """Say the next commands after an enrolment: the code, if it has not been entered, and a first page."""
    seen = link_of(context).peek(lambda daemon: daemon.GetStatus(local_pb2.GetStatusRequest()))
    resources = seen.status.resources if seen is not None else ()
    pages = sorted(
        it.fqdn for it in resources if it.organisation == organisation and not is_wildcard(it.fqdn)
    )
    steps = [*([] if has_code else ["culvert code"]), *(f"culvert open {it}" for it in pages[:1])]
    for told, command in zip((_("Next: {command}"), _("Then: {command}")), steps, strict=False):
        words.out.print(told.format(command=command), markup=False)


def _confirm_invitation(context: typer.Context, link: str) -> None:
    """Say whom the invitation is for, and ask. If the person declines, the command exits with 0; the link stays unused."""
    request = local_pb2.ShowInvitationRequest(link=link)
    whose = link_of(context).ask(lambda daemon: daemon.ShowInvitation(request))
    host = parse_invitation(link).host
    display_name = whose.user_display_name
    known, unknown = _("This invitation is for {person}, from {host}."), _("This invitation is from {host}.")
    told = known if whose.user else unknown
    person = f"{display_name} ({whose.user})" if display_name else whose.user
    words.err.print(told.format(person=person, host=host), markup=False)
    if whose.replaces:
        replaced = _("This computer is enrolled there for {user} already: that ends, and its tunnels close.")
        words.err.print(replaced.format(user=whose.replaces), markup=False)
    if not confirm(_("Enrol this computer? (yes/no)")):
        words.err.print(_("Nothing has changed. The invitation is not used."))
        raise typer.Exit


def _check_replaces_nothing(context: typer.Context, link: str) -> None:
    """A script's invitation is taken as wanted, unless an enrolment at the same controller would end."""
    try:
        controller = parse_invitation(link).controller
    except CulvertError:
        # The daemon says what is wrong with it.
        return
    seen = link_of(context).peek(lambda daemon: daemon.GetStatus(local_pb2.GetStatusRequest()))
    known = (seen.status, *seen.status.organisations) if seen is not None else ()
    if user := next((it.user for it in known if it.controller == controller), ""):
        told = _(
            "the enrolment of this computer for {user} would end: without a terminal, give --yes to agree"
        )
        raise typer.BadParameter(told.format(user=user))


def _confirm_leave(context: typer.Context, name: str) -> None:
    """Ask the person. If they decline, the command exits with 0, without a call to the daemon."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(_("without a terminal, give --yes"))
    status = status_of(context)
    known = {it.name: it for it in status.organisations}
    if name not in known and (name or known):
        # The daemon explains unknown names and unclear choices.
        return
    left = known.get(name, status)
    cut = sum(not name or it.organisation == name for it in status.tunnels)
    told = _("This computer leaves {name}: its key is deleted, and only a new invitation brings it back.")
    words.err.print(told.format(name=name or left.controller), markup=False)
    if cut:
        words.err.print(_.plural("{n} tunnel closes.", "{n} tunnels close.", cut))
    if not confirm(_("Leave? (yes/no)")):
        words.err.print(_("Nothing has changed."))
        raise typer.Exit


def end_of_pause(typed: str, now: datetime) -> datetime | None:
    """The end for `15m`, `2h`, `1d` or `tomorrow` (6:00 local time); None for other texts."""
    if typed == "tomorrow":
        return tomorrow(now)
    found = re.fullmatch(r"(\d{1,4}) ?(m|min|h|d)", typed)
    return now + timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
