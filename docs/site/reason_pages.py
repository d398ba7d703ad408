"""Pages of the error catalogue: one for each reason, at the address that the error has, and a list of all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from culvert_proto import CATALOGUE, Reason
from reason_examples import list_examples
from site_contents import ROOT

_PARTS = {
    "client": "the laptop's daemon or command line",
    "ipsec": "the laptop's daemon",
    "service": "the controller",
    "dns-updater": "the DNS updater",
    "proto": "laptop and controller",
}
# The denials whose remedy the access check offers to an administrator.
_CHECKED = frozenset(
    (
        Reason.NO_POLICY,
        Reason.NAME_UNKNOWN,
        Reason.OUTSIDE_HOURS,
        Reason.POSTURE_NOT_MET,
        Reason.SOURCE_NOT_ALLOWED,
        Reason.DEVICE_NOT_APPROVED,
        Reason.DEVICE_REVOKED,
        Reason.GATEWAY_DOWN,
        Reason.GATEWAY_DRAINING,
    )
)
_NUMBER = re.compile(r"^  REASON_(\w+) = (\d+);")
_COMMENT = re.compile(r"^  // (.*)")
_FIELD = re.compile(r"\{(\w+)\}")
_ESCAPED = re.compile(r"([<>*_`\[\]])")


def write_reasons() -> Iterator[tuple[str, str]]:
    """(path in the site, Markdown) of each page."""
    raisers = _find_raisers()
    yield "reasons/index.md", _list()
    for reason in Reason:
        yield f"reasons/{reason.name}.md", _page(reason, raisers.get(reason.name, ()))


def _page(reason: Reason, parts: tuple[str, ...]) -> str:
    entry = CATALOGUE[reason]
    examples = list_examples(reason)
    lines = [f"# {reason.name}", "", "## What happened", "", _show(reason, entry.message), ""]
    lines += ["## What to do", "", _show(reason, f"{entry.remedy} {entry.shell}".rstrip()), ""]
    if reason in _CHECKED:
        lines += [
            "## For administrators",
            "",
            "In the console, *Access check* shows the decision for the person and the name, step by step, and leads to the "
            "remedy, such as *Add a policy*.",
            "",
        ]
    if examples:
        lines += ["The sentences have examples, instead of which an error names the case:", ""]
        lines += ["| example | stands for | field |", "|---|---|---|"]
        lines += [
            f"| *{_escape(example)}* | {meaning} | `{field}` |"
            for field, (example, meaning) in examples.items()
        ]
        lines += [""]
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
        "address. Words in italics are examples, instead of which an error names the case.",
        "",
    ]
    for title, names in _groups().items():
        lines += [f"## {title}", "", "| reason | what happened |", "|---|---|"]
        lines += [f"| [{it}]({it}.md) | {_cell(Reason[it])} |" for it in names]
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


def _show(reason: Reason, template: str) -> str:
    """The text with an example, in italics, for each field."""
    examples = list_examples(reason)
    return _FIELD.sub(lambda found: f"*{_escape(examples[found[1]][0])}*", _ESCAPED.sub(r"\\\1", template))


def _cell(reason: Reason) -> str:
    return _show(reason, CATALOGUE[reason].message).replace("|", "\\|")


def _escape(text: str) -> str:
    return _ESCAPED.sub(r"\\\1", text)
