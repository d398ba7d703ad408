"""Pages of the error catalogue: one for each reason, at the address that the error has, and a list of all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from culvert_proto import CATALOGUE, Reason
from site_contents import ROOT

_PARTS = {
    "client": "the laptop's daemon or command line",
    "ipsec": "the laptop's daemon",
    "service": "the controller",
    "dns-updater": "the DNS updater",
    "proto": "laptop and controller",
}
_NUMBER = re.compile(r"^  REASON_(\w+) = (\d+);")
_COMMENT = re.compile(r"^  // (.*)")
_FIELD = re.compile(r"\{(\w+)\}")


def write_reasons() -> Iterator[tuple[str, str]]:
    """(path in the site, Markdown) of each page."""
    raisers = _find_raisers()
    yield "reasons/index.md", _list()
    for reason in Reason:
        yield f"reasons/{reason.name}.md", _page(reason, raisers.get(reason.name, ()))


def _page(reason: Reason, parts: tuple[str, ...]) -> str:
    entry = CATALOGUE[reason]
    lines = [f"# {reason.name}", "", "## What happened", "", _show(entry.message), ""]
    lines += ["## What to do", "", _show(entry.remedy), ""]
    if fields := sorted(entry.fields()):
        names = ", ".join(f"`{it}`" for it in fields)
        lines += [f"In an error, the words in braces are names of the case: {names}.", ""]
    lines += ["## For programs", "", "| where | value |", "|---|---|"]
    lines += [f"| `reason` in JSON of REST, command line and log | `{reason.name}` |"]
    lines += [f"| `culvert.error.v1.Reason` | {reason.value} |"]
    lines += [f"| HTTP | {entry.http.value} {entry.http.phrase} |", f"| gRPC | {entry.grpc.name} |"]
    if parts:
        lines += [f"| raised by | {', '.join(parts)} |"]
    return "\n".join([*lines, "", "[All reasons](index.md)", ""])


def _list() -> str:
    lines = [
        "# Reasons of errors",
        "",
        "Each refusal and each fault has a reason from this list, with its cause and the next step in words. It leads to "
        "its page here: in the REST API the problem's `type` is the page's path, and `culvert` prints the "
        "address. Words in braces are names of the case.",
        "",
    ]
    for title, names in _groups().items():
        lines += [f"## {title}", "", "| reason | what happened |", "|---|---|"]
        lines += [f"| [{it}]({it}.md) | {_cell(CATALOGUE[Reason[it]].message)} |" for it in names]
        lines += [""]
    return "\n".join(lines)


def _groups() -> Mapping[str, list[str]]:
    """The names under the headings that the .proto file gives them."""
    groups: dict[str, list[str]] = {}
    title = ""
    lines = (ROOT / "proto/culvert/error/v1/error.proto").read_text().splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        if (comment := _COMMENT.match(line)) and not before.strip():
            title = comment[1].rstrip(".").removesuffix(", continued").removesuffix(", further")
        elif (found := _NUMBER.match(line)) and found[1] in Reason.__members__:
            groups.setdefault(title if not before.startswith("message") else "Others", []).append(found[1])
    return groups


def _find_raisers() -> Mapping[str, tuple[str, ...]]:
    """The parts whose code makes an error of each reason."""
    found: dict[str, set[str]] = {}
    for folder, part in _PARTS.items():
        for file in (ROOT / folder).rglob("*.py"):
            if "tests" in file.parts or file.name == "reasons.py" or "gen" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "Reason"
                ):
                    found.setdefault(node.attr, set()).add(part)
    return {name: tuple(sorted(parts)) for name, parts in found.items()}


def _show(template: str) -> str:
    """The text with its fields visible as such."""
    return _FIELD.sub(r"*{\1}*", _escape(template))


def _cell(template: str) -> str:
    return _show(template).replace("|", "\\|")


def _escape(text: str) -> str:
    return re.sub(r"([<>*_`\[\]])", r"\\\1", text)
