"""`make demo` says what it installs before it does, and asks nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]

# sudo installs nothing here: it notes the command and the text shown so far, and fails.
SUDO = '#!/bin/sh\necho "$*" >> "$NOTED"\ncp "$SHOWN" "$READ"\nexit 1\n'


def test_each_package_is_named_before_it_is_installed(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    shutil.copytree(ROOT / "deploy/setup", tmp_path / "deploy/setup")
    shutil.copy(ROOT / "Cargo.toml", tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    # A computer without any package, and a person who is not root.
    for name, text in {"sudo": SUDO, "dpkg-query": "#!/bin/sh\n", "id": "#!/bin/sh\necho 1000\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    noted, shown, read = (tmp_path / name for name in ("noted", "shown", "read"))
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    environment |= {"NOTED": str(noted), "SHOWN": str(shown), "READ": str(read)}
    with shown.open("w") as out:
        ended = subprocess.run(
            [tmp_path / "deploy/setup/setup", "demo"],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, check=False, timeout=60,
        )  # fmt: skip
    assert ended.returncode == 1
    assert noted.read_text()
    words, _, _ = read.read_text().partition("System packages")
    assert "apt-get will install as root" in words
    lines = [
        line.partition("#")[0] for line in (ROOT / "deploy/setup/packages.demo").read_text().splitlines()
    ]
    wanted = {package for line in lines for package in line.split()}
    if "ID=ubuntu\n" in Path("/etc/os-release").read_text():
        wanted.discard("chromium")
    assert wanted <= set(words.split())
    assert "What to do" in shown.read_text()
