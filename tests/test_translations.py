"""Everything that a person reads is there in German: no text without its translation, none that nobody says any more.

A text that is new fails here, with what has to be added and where.
"""

from __future__ import annotations

import ast
import errno
import os
import re
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest
from culvert_proto import CATALOGUE
from culvert_tray.translation import forms as forms_in_qt

ROOT = Path(__file__).parents[1]
PROTO, CLIENT, TRAY, SERVICE, DNS = (
    ROOT / "proto/culvert_proto",
    ROOT / "client/culvert_client",
    ROOT / "tray-ui/culvert_tray",
    ROOT / "service/culvert_service",
    ROOT / "dns-updater/culvert_dns_updater",
)
# The kernel's errors fill fields, too.
ERRORS = {
    os.strerror(number)
    for number in (
        errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EISDIR, errno.ENOTDIR,
        errno.ELOOP, errno.EADDRNOTAVAIL,
    )
}  # fmt: skip

Texts = dict[str, list[str]]
"""English messages, a plural's forms parted by NUL, with their forms in German."""


def said_in(part: Path) -> Iterator[str]:
    """The texts that a part's code has translated: of a plural gettext wants both forms, Qt the last."""
    for file in sorted(part.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                texts = [
                    it.value for it in node.args if isinstance(it, ast.Constant) and isinstance(it.value, str)
                ]
                match ast.unparse(node.func):
                    case "_" | "tr" | "later" | "Verdict" | "fault" if texts and texts[0] is _first(node):
                        yield texts[0]
                    case "_.plural":
                        yield "\0".join(texts)
                    case "plural":
                        yield texts[1]
                    case _:
                        pass


def phrases_in(part: Path) -> Iterator[str]:
    """The templates of a part's phrases. Each is translated in proto, because any program may show it."""
    for file in sorted(part.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="Phrase"), args=[ast.Constant(value=str(template))]):
                    yield template
                case _:
                    pass


def _first(node: ast.Call) -> object:
    return node.args[0].value if isinstance(node.args[0], ast.Constant) else None


def _catalogue(part: Path) -> Texts:
    return {
        "\0".join(filter(None, (entry.msgid, entry.msgid_plural))): [*entry.msgstr_plural.values()]
        or [entry.msgstr]
        for entry in polib.pofile(str(part / "locale/de.po"))
        if not entry.fuzzy
    }


SPOKEN: dict[str, tuple[set[str], Texts]] = {
    "proto/culvert_proto/locale/de.po": (
        {text for entry in CATALOGUE.values() for text in (entry.message, entry.remedy, entry.shell) if text}
        | {*said_in(PROTO), *ERRORS}
        | {text for part in (PROTO, CLIENT, TRAY, SERVICE, DNS) for text in phrases_in(part)},
        _catalogue(PROTO),
    ),
    "client/culvert_client/locale/de.po": (set(said_in(CLIENT)), _catalogue(CLIENT)),
    "tray-ui/culvert_tray/translations/de.ts": (set(said_in(TRAY)), forms_in_qt("de")),
}

CONSOLE = _catalogue(ROOT / "service/console/src")


@pytest.mark.parametrize("file", SPOKEN)
def test_every_text_is_there_in_german(file: str) -> None:
    said, told = SPOKEN[file]
    missing = sorted(text for text in said if not all(told.get(text, [""])))
    assert not missing, f"add to {file}: {missing}"


@pytest.mark.parametrize("file", [file for file in SPOKEN if file.endswith(".po")])
def test_a_text_is_translated_once(file: str) -> None:
    """Readers show the last of two translations of a message."""
    texts = re.findall(r'^msgid (.*(?:\n".*")*)$', (ROOT / file).read_text("utf-8"), re.MULTILINE)
    assert sorted(text for text, count in Counter(texts).items() if count > 1) == []


def sentences_in(part: Path) -> Iterator[str]:
    """English sentences in the fields of errors, also through a variable: no catalogue can translate these."""
    for file in sorted(part.rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            values: dict[str, list[ast.expr]] = {}
            for node in ast.walk(function):
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        values.setdefault(name, []).append(value)
                    case _:
                        pass
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Name(id="CulvertError" | "FieldError"), keywords=fields):
                        given = [field.value for field in fields]
                    case ast.Call(func=ast.Name(id="_invalid" | "check_allowed"), args=given):
                        pass
                    case ast.Call(func=ast.Name(id="to_field_error")):
                        # The texts are in tuples of a dictionary.
                        given = [it for it in ast.walk(function) if isinstance(it, ast.JoinedStr)]
                    case ast.Call(func=ast.Attribute(attr="check"), args=[ast.JoinedStr() as what, *_]):
                        given = [what]
                    case _:
                        continue
                for it in given:
                    for value in values.get(it.id, []) if isinstance(it, ast.Name) else [it]:
                        if _is_sentence(value):
                            yield f"{file.name}:{node.lineno} {ast.unparse(value)}"


def _is_sentence(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=str(text)):
            return " " in text
        case ast.JoinedStr(values=parts):
            return any(_is_sentence(part) for part in parts)
        case _:
            return False


@pytest.mark.parametrize("part", [PROTO, CLIENT, SERVICE, DNS])
def test_a_refusal_has_no_sentence_that_cannot_be_translated(part: Path) -> None:
    assert not sorted(set(sentences_in(part)))


@pytest.mark.parametrize("file", SPOKEN)
def test_every_translation_is_of_a_text_in_use(file: str) -> None:
    said, told = SPOKEN[file]
    assert not told.keys() - said - _TYPERS


def test_the_console_says_what_the_other_parts_say() -> None:
    """A message of several parts has one translation. `npm run check` compares the catalogue with the console's code."""
    of_others = {
        text: forms
        for file, (_, texts) in SPOKEN.items()
        if file.endswith(".po")
        for text, forms in texts.items()
    }
    differing = {
        text: (forms, of_others[text])
        for text, forms in CONSOLE.items()
        if of_others.get(text, forms) != forms
    }
    assert not differing


def test_a_german_text_of_the_console_names_what_the_text_names() -> None:
    """Fields, links (`<0>…</0>`), and both forms of a plural."""
    for text, (german,) in CONSOLE.items():
        assert _marks(german) == _marks(text), (text, german)


@pytest.mark.parametrize("file", SPOKEN)
def test_a_translation_names_what_the_text_names(file: str) -> None:
    for text, forms in SPOKEN[file][1].items():
        for form in forms:
            assert _fields(form) == _fields(text), (text, form)


@pytest.mark.parametrize("file", SPOKEN)
def test_a_plural_has_both_forms(file: str) -> None:
    for text, forms in SPOKEN[file][1].items():
        plural = "\0" in text or "%n" in text
        assert len(forms) == (2 if plural else 1), text


@pytest.mark.parametrize(
    "texts", [*(texts for _, texts in SPOKEN.values()), CONSOLE], ids=[*SPOKEN, "console"]
)
def test_german_texts_do_not_address_the_reader(texts: Texts) -> None:
    """Imperatives are infinitives, as in other programs for a desktop."""
    for forms in texts.values():
        assert not re.search(r"\b(Ihr\w*|Ihnen|[Dd]u|[Dd]ein\w*|bitte)\b|\w+en Sie\b", " ".join(forms)), forms


def _marks(text: str) -> set[str]:
    """ICU's fields and keywords, and the tags of links."""
    return set(re.findall(r"\{\w+[,}]|</?\d+/?>|\b(?:one|other) \{|\b(?:select|plural),", text))


def _fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name} | set(re.findall("%n", text))


# Typer's own messages, with its own fields.
_TYPERS = {
    "Arguments", "Options", "Commands", "Error", "Aborted.", "[default: {}]", "[env var: {}]", "[required]",
    "Try [blue]'{command_path} {help_option}'[/] for help.", "No such command {name!r}.", "Missing command.",
}  # fmt: skip
