"""What fills a message's field and is words of ours, not a name: sent in English, translated where it is shown."""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Mapping

from culvert_proto.language import words

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

# The fields that may hold words; every other one holds a name, also where somebody is called May.
_WORDY = frozenset({"why", "what", "age", "opens", "asked", "address", "day", "month", "peer"})

# As the kernel's errors are said (strerror), which fill the same fields.
ERRORS = tuple(
    os.strerror(number)
    for number in (
        errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EISDIR, errno.ENOTDIR,
        errno.ELOOP, errno.EADDRNOTAVAIL,
    )
)  # fmt: skip

# With the fields' names in braces, which may hold fragments in turn. The first that fits is taken.
FRAGMENTS = (
    # decision/conditions.py
    "{number} hours",
    "{number} minutes",
    "{number} seconds",
    "{day}, {number} {month}, {time} ({zone})",
    "(unknown)",
    *DAYS,
    *MONTHS,
    # decision/posture.py
    "{fact} {version} or later",
    # sessions
    "the device was revoked",
    "the person was deleted",
    "the resource was withdrawn",
    "closed in the administration",
    "the gateway {gateway} has an address that tunnels alone may reach",
    "the gateway {gateway}",
    "the resource {name}",
    "The gateway {gateway}",
    "The resource {name}",
    "Opening {name}",
    "it has no free SA numbers",
    "it has no free endpoints",
    "it has no IPv6 address, but this device has",
    # client
    "Another program",
    "The choice of a gateway is forgotten",
    "Tunnels of the last run are not closed",
    "A pause is forgotten",
    "{what} has it",
    "another program",
    "{name} (process {number})",
    "it is missing",
    "it is damaged",
    "it cannot be read",
    "it is a link that leads nowhere",
    "its content cannot be used",
    "a newer version wrote it",
    "a different version wrote it",
    "The answer of the Culvert daemon",
    "The answer of {peer}",
    "The tunnel for {name}",
    "a pause ends in the future, and within seven days",
    "a code has six digits, a recovery code 16 characters",
    "read the status",
    "enrol this computer again",
    "enrol this computer with another organisation",
    "leave an organisation",
    "decide what an organisation may carry",
    "enter a code",
    "open a tunnel",
    "close a tunnel",
    "choose the gateway",
    "pause Culvert",
    "read what has happened",
    "it claims every name there is",
    "it claims more than {number} prefixes",
    "it claims more than {number} zones",
    "it claims more of the Internet than two /8 of IPv4 or two /16 of IPv6",
    "the names under {zone} have many owners",
    "{prefix} is too wide for a private network",
    "{prefix} holds addresses that each computer needs for itself",
    "{address} is no address of a computer",
    "this computer's own network {network}",
    "the controller's own address {address}",
    "this computer's name server {address}",
    "The organisation {name}",
    "The zone {name}",
    "The name {name}",
    "The network {prefix}",
    "The address {address}",
    "The SA number {number}",
    "neither a name nor all is given",
    # dns_name.py
    "the name is empty",
    "a part between dots is empty",
    "a name has at most 253 characters as DNS writes it, and each part between dots at most 63",
    "each part of a name begins and ends with a letter or a digit",
    "the character {character} cannot stand in a name",
    "the character {character} cannot stand at this place of a name",
    "a part of a name mixes letters that are written from the right with others",
    "a part that begins with xn-- is not the encoding of a valid name",
    # oidc
    "the sign-in was broken off, by the person or by the provider",
    "it answers with HTTP status {number}",
    "it answers {name}",
    "its answer is no JSON object",
    "its answer is too long",
    "its discovery document lacks what a sign-in needs",
    "it takes no client secret",
    "it shows no key that Culvert can use",
    "its token is encrypted",
    "its token does not verify",
    "its token is of another time: its clock or the controller's is wrong",
    "its userinfo is about another account",
    "it is from an authority that the controller does not know",
    "it is for another name",
    "it has expired, or the controller's clock is wrong",
    "it is not valid yet, or the controller's clock is wrong",
    "it is not valid",
    # invitations
    "the invitation link cannot be read, {why}",
    "it is too long",
    "it holds characters that no link has",
    "it is not a link",
    "it does not begin with culvert://enroll",
    "it must name a controller, a token and a CA, each once",
    "its controller is not a URL",
    "its controller is not an https URL",
    "its CA is not a SHA-256 fingerprint",
    *ERRORS,
    # Which file it is about.
    "{path}: {why}",
)


def translated(fields: Mapping[str, str]) -> dict[str, str]:
    """With the words among them in the person's language."""
    return {name: _said(value) if name in _WORDY else value for name, value in fields.items()}


def _said(value: str) -> str:
    for template in FRAGMENTS:
        if found := _pattern(template).fullmatch(value):
            return words(template).format(**translated(found.groupdict()))
    return value


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    texts, names = parts[::2], parts[1::2]
    fields = (r"(?P<number>\d+)" if name == "number" else f"(?P<{name}>.+?)" for name in names)
    return re.compile(
        "".join(re.escape(text) + field for text, field in zip(texts, (*fields, ""), strict=True))
    )
