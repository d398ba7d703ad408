"""The TSIG key (RFC 8945), read from a file that only its owner can read.

Two forms: BIND's, as `tsig-keygen` prints it (key "NAME" { algorithm ALG; secret "BASE64"; };), or only the base64 secret,
for hmac-sha256 and with the file's name without `.key`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import dns.exception
import dns.name
import dns.tsig
from culvert_proto.phrases import Phrase

# Quoted strings are matched first and kept, because base64 may contain "//".
_COMMENT = re.compile(r'("[^"\n]*")|/\*.*?\*/|//[^\n]*|#[^\n]*', re.DOTALL)
_BIND_KEY = re.compile(r'\s*key\s+"?(?P<name>[^"\s{]+)"?\s*\{(?P<body>[^}]*)\}\s*;?\s*')
_STATEMENT = re.compile(r'\s*(?P<key>algorithm|secret)\s+"?(?P<value>[^"\s;]+)"?\s*')
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

# A name from the database must not lead to a file outside of the directory.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")

_ALGORITHMS = {
    name.to_text(omit_final_dot=True): name
    for name in (dns.tsig.HMAC_SHA256, dns.tsig.HMAC_SHA384, dns.tsig.HMAC_SHA512)
}


class TsigKey(dns.tsig.Key):
    """As dnspython's key, but without the secret in `repr`, which tracebacks and logs would show."""

    def __repr__(self) -> str:
        return f"<TSIG key {self.name}>"


class KeyFileError(Exception):
    """The key file is unusable; the text gives the cause without the file's content."""


def load(path: Path) -> TsigKey:
    """Raises KeyFileError."""
    try:
        found = path.stat()
        mode = found.st_mode & 0o777
        # A Secret of Kubernetes is root's, and readable by this process' own group.
        readable = 0o040 if found.st_gid == os.getegid() else 0
        if mode & 0o077 & ~readable:
            raise KeyFileError(
                Phrase(
                    "{path} has mode {mode}: others could read the key, run: chmod 600 {path}",
                    path=path,
                    mode=f"{mode:04o}",
                )
            )
        text = path.read_text(encoding="ascii")
    except OSError as error:
        raise KeyFileError(Phrase("{path} cannot be read: {why}", path=path, why=error.strerror)) from None
    except UnicodeDecodeError:
        raise KeyFileError(Phrase("{path} is not a TSIG key file", path=path)) from None
    name, algorithm, secret = path.stem, "hmac-sha256", text.strip()
    if not _BASE64.fullmatch(secret):
        name, algorithm, secret = _parse_bind(text, path, algorithm)
    if algorithm.lower().rstrip(".") not in _ALGORITHMS:
        raise KeyFileError(
            Phrase(
                "{path}: the algorithm is none of {known}", path=path, known=", ".join(sorted(_ALGORITHMS))
            )
        )
    try:
        return TsigKey(dns.name.from_text(name.lower()), secret, _ALGORITHMS[algorithm.lower().rstrip(".")])
    except (dns.exception.DNSException, ValueError):
        raise KeyFileError(Phrase("{path}: the key's name or secret is malformed", path=path)) from None


def _parse_bind(text: str, path: Path, algorithm: str) -> tuple[str, str, str]:
    found = _BIND_KEY.fullmatch(_COMMENT.sub(lambda found: found[1] or " ", text))
    if found is None:
        raise KeyFileError(Phrase("{path} is not a TSIG key file", path=path))
    values: dict[str, str] = {}
    for statement in found["body"].split(";"):
        if match := _STATEMENT.fullmatch(statement):
            values[match["key"]] = match["value"]
        elif statement.strip():
            raise KeyFileError(Phrase("{path} is not a TSIG key file", path=path))
    if "secret" not in values:
        raise KeyFileError(Phrase("{path} holds no secret", path=path))
    return found["name"], values.get("algorithm", algorithm), values["secret"]


class KeyDirectory:
    """Keys by name. Each is read at every use, so that a changed key needs no restart."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, name: str) -> TsigKey:
        """Raises KeyFileError."""
        if not _FILE_NAME.fullmatch(name):
            raise KeyFileError(Phrase("its name is not that of a file"))
        return load(self._directory / f"{name}.key")
