"""One request of a browser to the denial page (RFC 9112), parsed strictly: what is unusual is refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from culvert_proto.dns_name import NameInvalidError, parse

# Our tunables, in bytes.
LONGEST_HEAD, LONGEST_BODY = 16_384, 1024

_REQUEST_LINE = re.compile(r"([A-Z]{3,8}) (/[\x21-\x7e]*) HTTP/1\.[01]")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\t\x80-\xff]*)")
# Fields that decide: a second one would be read differently by another program.
_SINGLE = ("host", "origin", "content-length", "content-type", "sec-fetch-site")


@dataclass(frozen=True, slots=True)
class Request:
    """`host`: with its port, if one is given. `name`: the host as a canonical DNS name. `target`: begins with a slash.
    `fields`: by lower-case name."""

    method: str
    target: str
    name: str
    host: str
    fields: Mapping[str, str]

    @property
    def is_own_form(self) -> bool:
        """Whether the browser vouches that a page of this very host has sent it (Fetch standard, section 3.2)."""
        return (
            self.fields.get("origin") == f"http://{self.host}"
            and self.fields.get("sec-fetch-site", "same-origin") == "same-origin"
            and self.fields.get("content-type", "").split(";")[0].strip()
            == "application/x-www-form-urlencoded"
        )

    @property
    def body_length(self) -> int | None:
        """Bytes; None if it is not given, or too long."""
        length = self.fields.get("content-length", "")
        if "transfer-encoding" in self.fields or not re.fullmatch(r"[0-9]{1,4}", length):
            return None
        return int(length) if int(length) <= LONGEST_BODY else None


def parse_head(head: bytes) -> Request | None:
    """`head`: up to the empty line. None: it is malformed, or names no host."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    fields: dict[str, str] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None or (field[1].lower() in fields and field[1].lower() in _SINGLE):
            return None
        fields[field[1].lower()] = field[2].strip()
    host = fields.get("host", "").lower()
    try:
        name = parse(re.sub(r":[0-9]{1,5}$", "", host))
    except NameInvalidError:
        return None
    return Request(found[1], found[2], name, host, fields) if found is not None else None


def parse_form(body: bytes) -> dict[str, str]:
    """The fields of a form; empty if it is malformed or has a field twice."""
    try:
        pairs = parse_qsl(body.decode("ascii"), strict_parsing=True, max_num_fields=8, errors="strict")
    except ValueError:
        return {}
    return dict(pairs) if len(dict(pairs)) == len(pairs) else {}


def is_path(target: str) -> bool:
    """Whether a browser stays at this host when it is sent there."""
    return (
        re.fullmatch(r"/([\x21-\x5b\x5d-\x7e][\x21-\x5b\x5d-\x7e]*)?", target) is not None
        and target[:2] != "//"
    )
