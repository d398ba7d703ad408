"""The core decides and does nothing else: it may not even import what has a socket, a file or a clock."""

from __future__ import annotations

import ast
from pathlib import Path

import culvert_client
import pytest

CORE = Path(culvert_client.__file__).parent / "core"

PURE = {
    "__future__", "bisect", "collections", "dataclasses", "enum", "functools", "ipaddress", "itertools", "re", "struct",
    "typing", "urllib",
    # Reads and writes DNS messages; its resolver and its queries are other modules.
    "dns",
    # The messages and the error catalogue.
    "culvert_proto",
}  # fmt: skip
WITH_SOCKETS = {"dns.query", "dns.asyncquery", "dns.resolver", "dns.asyncresolver"}


@pytest.mark.parametrize("file", sorted(CORE.rglob("*.py")), ids=lambda file: str(file.relative_to(CORE)))
def test_the_core_imports_nothing_that_acts(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            assert name.startswith("culvert_client.core") or name.partition(".")[0] in PURE, name
            assert name not in WITH_SOCKETS
