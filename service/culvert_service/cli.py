"""The commands of culvert-controller.

Commands import what they use when they run: SQLAlchemy, FastAPI and ACME take a second, and `ready` is a health check.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from culvert_proto import narrow_help
from culvert_proto.output import check_output
from culvert_proto.private_memory import keep_memory_private
from typer.core import TyperCommand, TyperGroup

from culvert_service import config
from culvert_service.operation import administration
from culvert_service.operation.rest_client import CallRefusedError, readiness

_Result = TypeVar("_Result")


def _without_types(params: list[Any]) -> list[Any]:
    """Remove the type that Typer's help shows even for options without a value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        narrow_help.fit(self, formatter)
        super().format_help(ctx, formatter)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        pieces = " ".join(self.collect_usage_pieces(ctx))
        narrow_help.write_usage(f"Usage: {ctx.command_path} {pieces}", formatter)


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        narrow_help.fit(self, formatter)
        super().format_help(ctx, formatter)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        pieces = " ".join(self.collect_usage_pieces(ctx))
        narrow_help.write_usage(f"Usage: {ctx.command_path} {pieces}", formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        # Typer cuts what does not fit into a line.
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands[name].help) for name in self.list_commands(ctx)])


class _Commands(typer.Typer):
    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, no_args_is_help=True, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, cls=_Command, **settings)


class _Program(_Commands):
    """Exits with EXIT_OUTPUT if the output cannot be written."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        with check_output("culvert-controller"):
            return super().__call__(*arguments, **settings)


app = _Program(
    help="The Culvert controller. Settings come from CULVERT_* in the environment and from a TOML file.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
audit_commands = _Commands(help="The audit log.")
app.add_typer(audit_commands, name="audit")
user_commands = _Commands(help="People, at the controller that runs.")
app.add_typer(user_commands, name="user")
site_tunnel_commands = _Commands(help="Tunnels between gateways, at the controller that runs.")
app.add_typer(site_tunnel_commands, name="site-tunnel")
gateway_commands = _Commands(help="Gateways, at the controller that runs.")
app.add_typer(gateway_commands, name="gateway")
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", envvar="CULVERT_CONFIG", help="TOML file; the environment wins over it."),
]


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"culvert-controller {version('culvert-service')}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    pass


@app.command()
def setup(
    public_name: Annotated[
        str | None,
        typer.Option(
            help="The name by which browsers and devices find this host; with :PORT, what browsers use."
        ),
    ] = None,
    zone: Annotated[
        list[str] | None, typer.Option(help="A DNS zone whose names open tunnels; may be repeated.")
    ] = None,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            help="A prefix of the intranet, which laptops reach through tunnels alone; may be repeated; or `none`."
        ),
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="`embedded`, or the URL of a Postgres from 14 on, without a password.")
    ] = None,
    database_file: Annotated[
        Path | None, typer.Option(help="A file with the URL, which may have a password.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Of console and API [8443].")] = None,
    agent_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Of the devices [8444].")] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(help="Prefix of a reverse proxy whose X-Forwarded-For counts; may be repeated."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Certificate (PEM, with its chain) of the public name for browsers.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    acme: Annotated[
        bool, typer.Option("--acme", help="Get that certificate by ACME, at port 443 [from Let's Encrypt].")
    ] = False,
    acme_directory: Annotated[
        str | None, typer.Option(help="The directory (https) of another ACME server.")
    ] = None,
    acme_contact: Annotated[str | None, typer.Option(help="An e-mail address that it may write to.")] = None,
    agree_to_terms: Annotated[
        bool, typer.Option("--agree-to-terms", help="You agree to its terms of service.")
    ] = False,
    acme_profile: Annotated[str | None, typer.Option(help="A profile of it, as shortlived.")] = None,
    acme_eab_key_id: Annotated[
        str | None, typer.Option(help="The id of its key for external account binding.")
    ] = None,
    acme_eab_key_file: Annotated[
        Path | None, typer.Option(help="A file with that key (base64url) alone.")
    ] = None,
    acme_ca_file: Annotated[
        Path | None, typer.Option(help="The CAs (PEM) of its own certificate [the system's].")
    ] = None,
    elsewhere: Annotated[
        bool,
        typer.Option("--elsewhere", help="The name leads to a proxy, load balancer or NAT before this host."),
    ] = False,
    change: Annotated[
        bool, typer.Option("--change", help="Change what differs at a controller that is set up.")
    ] = False,
    no_start: Annotated[bool, typer.Option("--no-start", help="Start nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing.")] = False,
    root: Annotated[
        Path, typer.Option(hidden=True, help="Write below this directory, as this user, and start nothing.")
    ] = Path("/"),
) -> None:
    """Set this host up as a controller: examine, ask, write, start. A failure leaves everything as it was."""
    from culvert_service.setup import command as setup_command
    from culvert_service.setup.acme import AcmeFlags

    with _database_errors():
        visible = database is not None
        if database is None and database_file is not None:
            database = database_file.read_text().strip()
        setup_command.set_up(
            setup_command.Flags(
                public_name,
                zone or (),
                protect or (),
                database or os.environ.get("CULVERT_DATABASE_URL"),
                visible,
                port,
                agent_port,
                trusted_proxy or (),
                certificate,
                key,
                AcmeFlags(
                    acme,
                    acme_directory,
                    acme_contact,
                    agree_to_terms,
                    acme_profile,
                    acme_eab_key_id,
                    acme_eab_key_file,
                    acme_ca_file,
                ),
                elsewhere=elsewhere,
                yes=yes,
                change=change,
                start=not no_start,
                root=root,
            )
        )


@app.command()
def init(config_file: ConfigFile = None) -> None:
    """Make the state and the database, and print a one-time token for the first owner's account."""
    from culvert_service.operation import commands as operation

    _run(operation.init, config_file)


@app.command()
def serve(config_file: ConfigFile = None) -> None:
    """Run the REST API, the agent API and the gateways' links, until SIGINT or SIGTERM."""
    from culvert_service.controller import lifecycle

    _run(lifecycle.serve, config_file)


@app.command()
def ready(config_file: ConfigFile = None) -> None:
    """Ask the controller of these settings whether it is ready: exit with 0, or with 1 and the cause."""
    with _errors():
        fault = readiness(config.load(config_file))
    if fault:
        sys.exit(f"not ready: {fault}")


@app.command()
def migrate(config_file: ConfigFile = None) -> None:
    """Bring the database to the newest revision, and stop."""
    from culvert_service.controller import database

    _run(database.migrate, config_file)


@app.command()
def openapi() -> None:
    """Print what the REST API offers, as an OpenAPI document."""
    from culvert_service.operation import commands as operation

    asyncio.run(operation.openapi())


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="The file to make; it holds every key of the controller.")],
    config_file: ConfigFile = None,
) -> None:
    """Write the database and the keys into one file, beside a controller that may be running."""
    from culvert_service.operation import commands as operation

    _run(lambda settings: operation.back_up(settings, target), config_file)


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(help="A file that backup has made.")],
    config_file: ConfigFile = None,
) -> None:
    """Make a controller from a backup, where there is none yet."""
    from culvert_service.operation import commands as operation

    _run(lambda settings: operation.restore(settings, source), config_file)


@app.command("rotate-device-ca")
def rotate_device_ca(config_file: ConfigFile = None) -> None:
    """Give devices' certificates a new CA. The old one is trusted until each device has renewed."""
    from culvert_service.operation import commands as operation

    _run(operation.rotate_device_ca, config_file)


@app.command("rotate-infrastructure-ca")
def rotate_infrastructure_ca(config_file: ConfigFile = None) -> None:
    """Give the controllers' certificates a new CA. Devices and gateways that trust the old CA learn the new one."""
    from culvert_service.operation import commands as operation

    _run(operation.rotate_infrastructure_ca, config_file)


@app.command("rotate-gateway-ca")
def rotate_gateway_ca(config_file: ConfigFile = None) -> None:
    """Give gateways' certificates a new CA. The old CA is trusted until each gateway has a new bundle."""
    from culvert_service.operation import commands as operation

    _run(operation.rotate_gateway_ca, config_file)


@app.command()
def doctor(config_file: ConfigFile = None) -> None:
    """Look at what the controller needs, and say what to do about what is wrong. Exits with 1 when something is."""
    from culvert_service.operation import commands as operation

    if not _run(operation.doctor, config_file):
        sys.exit(1)


@user_commands.command("add")
def add_user(name: str, email: str, config_file: ConfigFile = None) -> None:
    """Add a person."""
    _ask(lambda settings: administration.add_user(settings, name, email), config_file)


@user_commands.command("invite")
def invite_user(name: str, config_file: ConfigFile = None) -> None:
    """Print a link that enrols one computer of a person."""
    _ask(lambda settings: administration.invite_user(settings, name), config_file)


@user_commands.command("invitations")
def list_invitations(config_file: ConfigFile = None) -> None:
    """List the invitations that nobody has used yet: number, for whom, by whom, until when."""
    _ask(administration.list_invitations, config_file)


@user_commands.command("withdraw")
def withdraw_invitation(
    number: Annotated[int, typer.Argument(min=1, help="As `user invitations` lists it.")],
    config_file: ConfigFile = None,
) -> None:
    """Make an invitation's link enrol nothing any more."""
    _ask(lambda settings: administration.withdraw_invitation(settings, number), config_file)


@site_tunnel_commands.command("add")
def add_site_tunnel(
    description: Annotated[Path, typer.Argument(help="TOML with the fields of POST /site-tunnels.")],
    config_file: ConfigFile = None,
) -> None:
    """Add a site tunnel, which joins the networks behind two gateways."""
    _ask(lambda settings: administration.add_site_tunnel(settings, description), config_file)


@site_tunnel_commands.command("change")
def change_site_tunnel(
    name: str,
    description: Annotated[
        Path, typer.Argument(help="TOML with those fields of PUT /site-tunnels that change.")
    ],
    config_file: ConfigFile = None,
) -> None:
    """Change what a tunnel carries, its owner, its suite or its limits."""
    _ask(lambda settings: administration.change_site_tunnel(settings, name, description), config_file)


@site_tunnel_commands.command("list")
def list_site_tunnels(config_file: ConfigFile = None) -> None:
    """List them, and why one is not up."""
    _ask(administration.list_site_tunnels, config_file)


@site_tunnel_commands.command("remove")
def remove_site_tunnel(name: str, config_file: ConfigFile = None) -> None:
    """Close one."""
    _ask(lambda settings: administration.remove_site_tunnel(settings, name), config_file)


@gateway_commands.command("add")
def add_gateway(
    description: Annotated[Path, typer.Argument(help="TOML with the fields of POST /gateways.")],
    config_file: ConfigFile = None,
) -> None:
    """Register a gateway."""
    _ask(lambda settings: administration.add_gateway(settings, description), config_file)


@gateway_commands.command("bundle")
def write_bundle(name: str, directory: Path, config_file: ConfigFile = None) -> None:
    """Write a gateway's certificate and keys into a directory."""
    _ask(lambda settings: administration.write_bundle(settings, name, directory), config_file)


@gateway_commands.command("reader")
def issue_reader(directory: Path, config_file: ConfigFile = None) -> None:
    """Write a certificate with which P4Runtime clients read gateways and change nothing."""
    from culvert_service.operation import commands as operation

    _run(lambda settings: operation.issue_reader(settings, directory), config_file)


@gateway_commands.command("change")
def change_gateway(
    name: str,
    description: Annotated[Path, typer.Argument(help="TOML with those fields of PUT /gateways that change.")],
    config_file: ConfigFile = None,
) -> None:
    """Change a gateway, and close the tunnels that do not fit it any more."""
    _ask(lambda settings: administration.change_gateway(settings, name, description), config_file)


@gateway_commands.command("drain")
def drain_gateway(
    name: str,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Although some resources have no other gateway.")
    ] = False,
    config_file: ConfigFile = None,
) -> None:
    """Drain a gateway: open no more tunnels through it, and move its tunnels to other gateways."""
    _ask(lambda settings: administration.drain_gateway(settings, name, anyway=anyway), config_file)


@gateway_commands.command("undrain")
def undrain_gateway(name: str, config_file: ConfigFile = None) -> None:
    """Let tunnels be opened through a gateway again."""
    _ask(lambda settings: administration.undrain_gateway(settings, name), config_file)


@gateway_commands.command("remove")
def remove_gateway(name: str, config_file: ConfigFile = None) -> None:
    """Delete a gateway that no resource and no tunnel uses."""
    _ask(lambda settings: administration.remove_gateway(settings, name), config_file)


@gateway_commands.command("list")
def list_gateways(config_file: ConfigFile = None) -> None:
    """List the gateways, and why one is offline."""
    _ask(administration.list_gateways, config_file)


@audit_commands.command()
def verify(config_file: ConfigFile = None) -> None:
    """Check the hash of every line. Exits with 1 at the first that is not as it was written."""
    from culvert_service.operation import commands as operation

    if not _run(operation.verify, config_file):
        sys.exit(1)


@audit_commands.command()
def cut(
    before: Annotated[
        datetime,
        typer.Option(
            formats=["%Y-%m-%d"],
            metavar="YYYY-MM-DD",
            help="Lines from before this day (UTC) are removed.",
        ),
    ],
    export: Annotated[
        Path | None, typer.Option(help="A new file for these lines, written before they are removed.")
    ] = None,
    without_export: Annotated[bool, typer.Option("--without-export", help="Remove them for good.")] = False,
    config_file: ConfigFile = None,
) -> None:
    """Remove lines that are at least 30 days old. A signed record of the removal stays, and `verify` starts from it."""
    from culvert_service.operation import commands as operation

    if (export is None) != without_export:
        raise typer.BadParameter("either --export or --without-export is needed")
    _run(lambda settings: operation.cut(settings, before.replace(tzinfo=UTC), export), config_file)


# SQLSTATEs of faults for the operator: user or password, database name, privilege (appendix A of Postgres's manual).
_REFUSED = ("28", "3D", "42501")


def _ask(work: Callable[[config.Settings], Coroutine[Any, Any, None]], config_file: Path | None) -> None:
    """Run a command that calls the running controller."""
    with _errors():
        asyncio.run(work(config.load(config_file)))


def _run(
    work: Callable[[config.Settings], Coroutine[Any, Any, _Result]], config_file: Path | None
) -> _Result:
    """Run a command that uses database and keys itself."""
    from culvert_db import log

    with _database_errors():
        settings = config.load(config_file)
        log.configure(as_json=settings.log_json)
        return asyncio.run(work(settings))


@contextmanager
def _errors() -> Generator[None]:
    """Ends the process with one line on an expected error."""
    keep_memory_private()
    try:
        yield
    except (config.ConfigurationError, CallRefusedError) as error:
        sys.exit(f"culvert-controller: {error}")
    except OSError as error:
        sys.exit(f"culvert-controller: {config.system_words(error)}")


@contextmanager
def _database_errors() -> Generator[None]:
    from culvert_db import MigrationError, describe, refusal, sqlstate
    from culvert_db.start_failure import PostgresFailedError
    from sqlalchemy.exc import DBAPIError

    from culvert_service.database import DatabaseDownError
    from culvert_service.pki.master_key import MasterKeyError

    with _errors():
        try:
            yield
        except (PostgresFailedError, MigrationError, MasterKeyError) as error:
            sys.exit(f"culvert-controller: {error}")
        except DBAPIError as error:
            if not sqlstate(error).startswith(_REFUSED):
                raise
            sys.exit(f"culvert-controller: database_url: the server answers: {refusal(error)}")
        except DatabaseDownError as error:
            cause = describe(error.__cause__) or error.__cause__
            sys.exit(f"culvert-controller: the database does not take a change: {cause}")
