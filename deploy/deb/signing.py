"""Signs with the release's OpenPGP key, in a GnuPG home that is gone afterwards.

with Signer.of(Path("release.key")) as signer:      the exported secret key; GnuPG asks for its passphrase
    signer.sign_inside(text)                        as InRelease is
    signer.sign_beside(text)                        as Release.gpg and SHA256SUMS.asc are

add_options(parser)                                 the command line of a program that signs
with agent(home):                                    GnuPG's agent for a home, until the end of this process at the latest
with signing(chosen, "there is no release"):        the same by that, with the words for a failure and for a throwaway key
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from urllib.parse import unquote

# A key that ends leaves every laptop without updates on that day, so there has to be time for a successor.
_SHORTEST_LIFE = datetime.timedelta(days=365)
# RFC 9580, section 9.1.
_RSA, _DSA = "1", "17"
_SHORTEST_RSA = 3072
_DAY = 86_400
# In memory, where a key outlives no restart. The agent's socket is in it, and its path has at most 107 bytes (unix(7)).
_MEMORY = "/dev/shm"  # noqa: S108
_THROWAWAY = "Throwaway key of a build of Culvert, not of a release"


@dataclass(frozen=True, slots=True)
class Signer:
    """`fingerprint`: of the primary key, in upper-case hexadecimal. `public`: the keys that laptops shall trust, binary.

    Methods raise CalledProcessError.
    """

    home: Path
    fingerprint: str
    public: bytes
    is_throwaway: bool

    @staticmethod
    @contextmanager
    def of(key: Path | None, successors: Sequence[Path] = ()) -> Generator[Signer]:
        """`key`: a file with the secret key; None makes a throwaway key. `successors`: public keys that may sign later.

        Raises LookupError for a file without a usable key.
        """
        with (
            tempfile.TemporaryDirectory(prefix="culvert-signing-", dir=_MEMORY) as folder,
            ExitStack() as stack,
        ):
            home = Path(folder)
            # Debian 13 refuses a key that SHA-1 binds to its name.
            (home / "gpg.conf").write_text("weak-digest SHA1\n")
            # The passphrase is asked for once, before the build.
            (home / "gpg-agent.conf").write_text(f"default-cache-ttl {_DAY}\nmax-cache-ttl {_DAY}\n")
            stack.enter_context(agent(home))
            if key is None:
                make = ("--passphrase", "", "--quick-generate-key", _THROWAWAY, "ed25519", "sign", "never")
                _gpg(home, *make)
            else:
                _import(home, key)
            fingerprint = _find_signing_key(home, key)
            for successor in successors:
                _import(home, successor)
            public = _gpg(home, "--export", "--export-options", "export-minimal")
            signer = Signer(home, fingerprint, public, key is None)
            signer.try_to_sign()
            yield signer

    def sign_inside(self, text: str) -> bytes:
        return self._sign("--clearsign", text)

    def sign_beside(self, text: str) -> bytes:
        return self._sign("--detach-sign", text)

    def try_to_sign(self) -> None:
        """Raises LookupError, as for a wrong passphrase."""
        try:
            self.sign_beside("")
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip()
            raise LookupError(f"GnuPG does not sign with the key {self.fingerprint}: {said}") from None

    def _sign(self, form: str, text: str) -> bytes:
        options = ("--local-user", self.fingerprint, "--digest-algo", "SHA512", "--armor")
        return _gpg(self.home, *options, form, content=text.encode())


@contextmanager
def agent(home: Path) -> Generator[None]:
    """GnuPG's agent for a home. An agent that gpg starts outlives a process that is killed; this one ends within seconds of
    the program whose parent it is, and that program ends with its standard input.
    """
    command = ["gpg-agent", "--homedir", str(home), "--quiet", "--daemon", "cat"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    ask = ["gpgconf", "--homedir", str(home), "--list-dirs", "agent-socket"]
    socket = Path(unquote(subprocess.check_output(ask, text=True).strip()))
    try:
        while not socket.is_socket():
            if process.poll() is not None:
                raise OSError(f"gpg-agent does not start in {home}")
            time.sleep(0.02)
        yield
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
        process.communicate()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", type=Path)
    parser.add_argument("--successor", type=Path, action="append", default=[])


@contextmanager
def signing(chosen: argparse.Namespace, failure: str) -> Generator[Signer]:
    """The signer of `add_options`' options. What is raised inside ends the program, with `failure` before the reason."""

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(f"{failure}: SIGTERM has ended it")

    # The secret key is removed also then.
    signal.signal(signal.SIGTERM, end)
    try:
        with Signer.of(chosen.key, chosen.successor) as signer:
            yield signer
    except (subprocess.CalledProcessError, LookupError, OSError) as error:
        said = getattr(error, "stderr", None) or ""
        sys.exit(f"{failure}: {error}\n{said.decode(errors='replace') if isinstance(said, bytes) else said}")
    if signer.is_throwaway:
        print(
            "signed with a throwaway key, for trials alone: KEY=FILE signs with the release's",
            file=sys.stderr,
        )


def _import(home: Path, file: Path) -> None:
    """Raises LookupError."""
    try:
        _gpg(home, "--import", str(file))
    except subprocess.CalledProcessError as error:
        raise LookupError(
            f"{file}: no OpenPGP key: {error.stderr.decode(errors='replace').strip()}"
        ) from None


def _find_signing_key(home: Path, file: Path | None) -> str:
    """The fingerprint of the only secret key. Raises LookupError."""
    listed = _gpg(home, "--list-secret-keys", "--with-colons", "--fixed-list-mode").decode()
    keys = re.findall(r"^sec:([^:]*):(\d+):(\d+):[^:]*:[^:]*:(\d*):.*\n(?:fpr:+(\w+):)", listed, re.MULTILINE)
    if len(keys) != 1:
        raise LookupError(f"{file}: {len(keys)} secret keys, and exactly one signs a release")
    [(validity, bits, algorithm, ends, fingerprint)] = keys
    if validity in ("e", "r", "i", "d"):
        raise LookupError(f"{file}: the key {fingerprint} has expired or is revoked")
    if algorithm == _DSA or (algorithm == _RSA and int(bits) < _SHORTEST_RSA):
        raise LookupError(
            f"{file}: apt refuses DSA, and RSA of less than {_SHORTEST_RSA} bits: sign with an Ed25519 key"
        )
    life = datetime.timedelta(seconds=int(ends)) if ends else None
    if life is not None and life - datetime.timedelta(seconds=_now()) < _SHORTEST_LIFE:
        raise LookupError(
            f"{file}: the key {fingerprint} ends within a year: extend it, and let laptops have it before it ends"
        )
    return fingerprint


def _now() -> float:
    return datetime.datetime.now(datetime.UTC).timestamp()


def _gpg(home: Path, *arguments: str, content: bytes | None = None) -> bytes:
    command = ["gpg", "--homedir", str(home), "--batch", "--no-tty", "--quiet", *arguments]
    settings = os.environ | {"LC_ALL": "C.UTF-8"}
    if sys.stdin.isatty():
        # GnuPG's program that asks for a passphrase finds no terminal by itself: its standard input is a pipe.
        settings["GPG_TTY"] = os.ttyname(sys.stdin.fileno())
    return subprocess.run(command, input=content, env=settings, capture_output=True, check=True).stdout
