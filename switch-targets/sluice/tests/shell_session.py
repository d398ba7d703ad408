"""p4runtime-shell as a person has it: an IPython prompt, written to line by line."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from pathlib import Path

from gateway_authority import Authority
from gateway_target import ROOT

PYTHON = Path(os.environ.get("CULVERT_P4RUNTIME_SHELL", ROOT / "build/p4runtime-shell/bin/python"))
_ANSWER_TIME = 30.0  # seconds
_END = "the answer ends here"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PROMPT = re.compile(r"(P4Runtime sh >>> |\s+\.\.\.: )+")


class ShellSession:
    """A shell. Its command line says where it connects to and which program it pushes first."""

    def __init__(
        self,
        folder: Path,
        address: str,
        infrastructure: Authority,
        election_id: int,
        config: str | None = None,
    ) -> None:
        command = [
            str(PYTHON), "-m", "p4runtime_sh", "--grpc-addr", address, "--device-id", "1",
            "--election-id", f"0,{election_id}", "--ssl", "--cacert", str(infrastructure.certificate),
            "--cert", str(infrastructure.folder / "controller.pem"),
            "--private-key", str(infrastructure.folder / "controller.key"),
            *(["--config", config] if config else []),
        ]  # fmt: skip
        home = {"HOME": str(folder), "IPYTHONDIR": str(folder / "ipython"), "PATH": os.environ["PATH"]}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=home, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, cwd=folder
        )
        self.greeting = self("pass")

    def __call__(self, line: str) -> str:
        """Return the shell's output for a line.

        # Errors
        RuntimeError, with what it showed, when it ends or does not answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{line}\nprint('{_END[:3]}' '{_END[3:]}')\n".encode())
        stdin.flush()
        deadline, shown = time.monotonic() + _ANSWER_TIME, b""
        while _END.encode() not in shown:
            ready = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))[0]
            more = os.read(stdout.fileno(), 65536) if ready else b""
            if not more:
                raise RuntimeError(f"no answer to {line}: {shown.decode()}")
            shown += more
        text = _COLOURS.sub("", shown.decode().partition(_END)[0])
        return _PROMPT.sub("", text).strip()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
