"""The names of resources: exact, or `*.` and a suffix for every name below it (RFC 4592). Pure."""

from __future__ import annotations

import re

WILDCARD = "*."
# RFC 1035 section 2.3.4.
NAME_MAX = 253
_LABEL = re.compile(r"^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?$")


def parse(text: str) -> str:
    """The one spelling of a resource's name. Raises ValueError."""
    name = text.strip().rstrip(".").lower()
    labels = name.removeprefix(WILDCARD).split(".")
    if len(name) > NAME_MAX or len(labels) < 2 or not all(map(_LABEL.match, labels)):
        raise ValueError("must be a full DNS name such as wiki.corp.example, or *.corp.example for all below")
    return name


def candidates(asked: str) -> list[str]:
    """Of the resources with these names the first one that exists is meant: the exact one, then the nearest wildcard."""
    if len(asked) > NAME_MAX:
        return []
    labels = asked.split(".")
    above = (WILDCARD + ".".join(labels[start:]) for start in range(1, len(labels)))
    return list(dict.fromkeys([asked, *above]))
