"""How the command line is used, in the person's language: what Typer says without asking a catalogue."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from culvert_client.cli.language import _


def later(text: str) -> str:
    """Marks a text that is translated where it is said."""
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
    """One whose commands do."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, cls=_Command, **settings)


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _with_help(super().get_params(ctx))

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        _write_usage(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _in_words(ctx):
            return super().parse_args(ctx, args)


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _with_help(super().get_params(ctx))

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        _write_usage(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _in_words(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _in_words(ctx):
            return super().invoke(ctx)


def refusal(message: str) -> str:
    """What Typer refuses with, translated where it is one of the known."""
    for text in _REFUSALS:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(text))
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return _(text).format(**found.groupdict())
    return message


@contextmanager
def _in_words(context: Any) -> Generator[None]:
    try:
        yield
    except TyperException as error:
        message = error.format_message()
        if (told := refusal(message)) == message:
            raise
        (getattr(error, "ctx", None) or context).fail(told)


def _with_help(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "help", None) in _OF_ALL_COMMANDS:
            param.help = _(param.help)
    return params


def _write_usage(command: TyperCommand | TyperGroup, context: Any, formatter: Any) -> None:
    pieces = " ".join(_(piece) for piece in command.collect_usage_pieces(context))
    formatter.write_usage(context.command_path, pieces, prefix=_("Usage: "))
