"""Stands in for systemctl where no systemd runs: `unit_starter.py ROOT VERB… UNIT` starts sluice as its unit says.

The unit's own commands, settings file and user are used; what systemd alone can do (sandbox, restarts) is left out.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy/systemd/sluice@.service"
PROGRAM = ROOT / "target/release/culvert-gateway"
# The user sluice of the root's etc/passwd.
UID = 7734


def main(root: Path, verbs: list[str], unit: str) -> int:
    if not unit.startswith("sluice@"):
        return 0
    name = unit.removeprefix("sluice@").removesuffix(".service")
    state = root / "run/sluice" / name
    match verbs[0]:
        case "enable":
            start(root, name, state)
            return 0
        case "disable":
            stop(root, state)
            return 0
        case _:
            return 0 if pid_of(state) is not None else 3


def start(root: Path, name: str, state: Path) -> None:
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chown(state, UID, UID)
    settings = {"KEYS": str(root / "etc/culvert/sluice" / name)}
    for line in (root / f"etc/culvert/sluice/{name}.env").read_text().splitlines():
        if not line.startswith("#"):
            key, _, value = line.partition("=")
            settings[key] = value
    command = command_of(UNIT.read_text()).replace("/run/sluice/%i", str(state))
    argv: list[str] = []
    for word in shlex.split(command):
        if word.startswith("$") and not word.startswith("${"):
            argv += settings[word[1:]].split()
        else:
            for key, value in settings.items():
                word = word.replace(f"${{{key}}}", value)
            argv.append(word)
    argv[0] = str(root / "usr/bin/sluice")
    run_as_root("ExecStartPre", root, name)
    caps = "+net_raw,+sys_nice"
    as_user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    as_user += [f"--inh-caps={caps}", f"--ambient-caps={caps}"]
    with (root / "sluice.log").open("ab") as log:
        process = subprocess.Popen([*as_user, *argv], stdout=log, stderr=log, start_new_session=True)
    (root / f"{name}.pid").write_text(str(process.pid))


def stop(root: Path, state: Path) -> None:
    pid = pid_of(state)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        while pid_of(state) is not None:
            time.sleep(0.02)
        run_as_root("ExecStopPost", root, state.name)


def pid_of(state: Path) -> int | None:
    """The running switch's process."""
    file = state.parents[2] / f"{state.name}.pid"
    if not file.exists():
        return None
    pid = int(file.read_text())
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return None if status.rpartition(")")[2].split()[0] == "Z" else pid


def command_of(unit: str, when: str = "ExecStart") -> str:
    whole = unit.replace("\\\n", " ")
    [command] = [line for line in whole.splitlines() if line.startswith(f"{when}=")]
    return command.removeprefix(f"{when}=")


def run_as_root(when: str, root: Path, name: str) -> None:
    """The unit's command before or after the switch; its failure does not count ("-"), and root runs it ("+")."""
    program, *arguments = command_of(UNIT.read_text(), when).removeprefix("-+").replace("%i", name).split()
    assert program == "/usr/bin/culvert-gateway"
    subprocess.run([PROGRAM, "--root", str(root), *arguments], check=False)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:-1], sys.argv[-1]))
