"""Fixtures that several test files use."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def place() -> Generator[Path]:
    """A directory that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="culvert-") as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path


@pytest.fixture
def gateway_address() -> Iterator[str]:
    """An address that answers a ping and that a controller may give a gateway, which 127.0.0.1 is not. Needs root."""
    # Tests run side by side, each in a process of its own.
    address = f"198.18.77.{1 + os.getpid() % 254}"
    subprocess.run(["ip", "address", "replace", f"{address}/32", "dev", "lo"], check=True)
    yield address
    subprocess.run(["ip", "address", "delete", f"{address}/32", "dev", "lo"], check=True)


# The addresses of a name, of IPv4 or, with "any" behind it, of both families.
ASKER = """
#include <netdb.h>
#include <stdio.h>
int main(int count, char **words) {
    struct addrinfo hints = {.ai_family = count > 2 ? AF_UNSPEC : AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    char text[64];
    int failed = getaddrinfo(words[1], 0, &hints, &found);
    for (; !failed && found; found = found->ai_next) {
        getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, 0, 0, NI_NUMERICHOST);
        puts(text);
    }
    return 0;
}
"""


@pytest.fixture
def askers(tmp_path: Path) -> list[Path]:
    """A program for each library, named as the library."""
    compilers = {
        name: path for name, it in (("glibc", "cc"), ("musl", "musl-gcc")) if (path := shutil.which(it))
    }
    if len(compilers) < 2:
        pytest.skip("needs a C compiler for each library (packages gcc, musl-tools)")
    source = tmp_path / "asker.c"
    source.write_text(ASKER)
    for name, compiler in compilers.items():
        subprocess.run([compiler, source, "-o", tmp_path / name], check=True)
    return [tmp_path / name for name in compilers]
