"""The published prototype's defects that a client can have: none is here."""

from __future__ import annotations

import ast
from pathlib import Path

import culvert_client
import culvert_ipsec
import pytest

# os.system and its like, and whatever else starts a program from a string.
STARTERS = {"system", "popen", "subprocess", "pexpect", "pty", "posix_spawn", "posix_spawnp"}
# resolvconf can be told in no other way. It is given the stub's address, never a key, and no shell stands between.
# Their arguments are no secret of ours.
ALLOWED = {
    Path("platform/linux/process.py"): {"subprocess"},
    Path("platform/linux/system_dns/resolvconf.py"): {"subprocess"},
    # It runs a module in this process, and no program.
    Path("netlink_messages.py"): {"exec_module"},
}
PACKAGES = [Path(package.__file__).parent for package in (culvert_client, culvert_ipsec) if package.__file__]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_pitfall_10_no_program_is_started_so_no_key_is_in_an_argv(package: Path) -> None:
    files = sorted(package.rglob("*.py"))
    assert files
    for file in files:
        names = {
            name
            for node in ast.walk(ast.parse(file.read_text()))
            for name in (
                [alias.name.split(".")[0] for alias in node.names]
                if isinstance(node, ast.Import | ast.ImportFrom)
                else [node.attr]
                if isinstance(node, ast.Attribute)
                else []
            )
        }
        starters = {name for name in names if name in STARTERS or name.startswith(("exec", "spawn"))}
        assert starters == ALLOWED.get(file.relative_to(package), set()), file
