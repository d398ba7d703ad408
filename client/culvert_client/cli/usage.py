"""Translates the usage texts that Typer prints without a catalogue."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer
from culvert_proto import narrow_help
from culvert_proto.output import check_output
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from culvert_client.cli.failure import EXIT_USAGE, FailureError
from culvert_client.cli.language import _


def later(text: str) -> str:
    """Mark a text for the catalogue; it is translated when it is printed."""
    return text


_REFUSALS = (
    later("Missing argument {what}."),
    later("Missing option {what}."),
    later("No such option: {what} (Possible options: {others})"),
    later("No such option: {what}"),
    later("Got unexpected extra argument(s) ({what})"),
    later("Option {what} requires an argument."),
    later("Option {what} does not take a value."),
    later("Invalid value for {what}: {why}"),
    later("Invalid value: {why}"),
    later("{what}. Did you mean {others}?"),
)
_OF_ALL_COMMANDS = (
    later("Show this message and exit."),
    later("Install completion for the current shell."),
    later("Show completion for the current shell, to copy it or customize the installation."),
    later("[OPTIONS]"),
    later("COMMAND [ARGS]..."),
)


class App(typer.Typer):
    """An application with translated usage texts."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, **settings)

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        with check_output("culvert"):
            return super().__call__(*arguments, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, cls=_Command, **settings)


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _with_help(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        narrow_help.fit(self, formatter)
        super().format_help(ctx, formatter)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        _write_usage(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _in_words(ctx, json="--json" in args):
            _refuse_bytes(args)
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        json = bool(ctx.params.get("json"))
        with _in_words(ctx, json=json):
            try:
                return super().invoke(ctx)
            except FailureError as failure:
                failure.say(json=json)
                raise typer.Exit(failure.exit_code) from None


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _with_help(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        narrow_help.fit(self, formatter)
        super().format_help(ctx, formatter)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        _write_usage(self, ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        # Typer cuts what does not fit into a line.
        with formatter.section(_("Commands")):
            formatter.write_dl([(name, self.commands[name].help) for name in self.list_commands(ctx)])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _in_words(ctx, json="--json" in args):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        # Only the command's name can be refused here; its arguments are parsed later.
        with _in_words(ctx, json="--json" in sys.argv):
            return super().invoke(ctx)


def refusal(message: str) -> str:
    """Typer's text of a refusal, translated if it is known."""
    for text in _REFUSALS:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(text))
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return _(text).format(**found.groupdict())
    return message


@contextmanager
def _in_words(context: Any, *, json: bool) -> Generator[None]:
    try:
        yield
    except TyperException as error:
        message = error.format_message()
        told = refusal(message)
        where: Any = getattr(error, "ctx", None) or context
        if json:
            remedy = _("See: {command} --help").format(command=where.command_path)
            FailureError("USAGE", told, remedy, EXIT_USAGE).say(json=True)
            raise typer.Exit(EXIT_USAGE) from None
        if told == message:
            raise
        where.fail(told)


def _refuse_bytes(args: list[str]) -> None:
    for it in args:
        if not it.isascii() and any("\ud800" <= character <= "\udfff" for character in it):
            shown = ascii(it)[1:-1]
            raise typer.BadParameter(_("{what} is not text in this terminal's encoding").format(what=shown))


def _with_help(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "help", None) in _OF_ALL_COMMANDS:
            param.help = _(param.help)
        if getattr(param, "is_flag", False):
            # Typer prints a type even for options without a value.
            param.metavar = ""
    return params


def _write_usage(command: TyperCommand | TyperGroup, context: Any, formatter: Any) -> None:
    pieces = " ".join(_(piece) for piece in command.collect_usage_pieces(context))
    narrow_help.write_usage(f"{_('Usage: ')}{context.command_path} {pieces}", formatter)
