"""The names of resources: exact, or `*.` and a suffix for every name below it (RFC 4592). Pure."""

from __future__ import annotations

from culvert_proto import dns_name
from culvert_proto.dns_name import WILDCARD


def parse(text: str) -> str:
    """The one spelling of a resource's name. Raises ValueError."""
    name = dns_name.parse(text, wildcard=True)
    if "." not in name.removeprefix(WILDCARD):
        raise ValueError("must be a full DNS name such as wiki.corp.example, or *.corp.example for all below")
    return name
