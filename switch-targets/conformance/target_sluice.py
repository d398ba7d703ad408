"""sluice as a conformance target: the binary that CULVERT_SLUICE names, or the release build."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from gateway_target import CLIENT_NAME, GRPC_PORT, ROOT, Launch, Target


class SluiceTarget(Target):
    @classmethod
    def absent(cls) -> str | None:
        return None

    def __init__(self, launch: Launch) -> None:
        binary = Path(os.environ.get("CULVERT_SLUICE", ROOT / "target/release/sluice"))
        if not binary.exists():
            raise RuntimeError(f"{binary} is not built: cargo build --release -p sluice")
        self._log = launch.folder / "sluice.log"
        keys = launch.authority.folder
        options = {
            "--device-id": "1",
            "--grpc": f"127.0.0.1:{GRPC_PORT}",
            "--cert": keys / "gateway.pem",
            "--key": keys / "gateway.key",
            "--client-ca": launch.authority.certificate,
            "--client-name": CLIENT_NAME,
            "--kek": launch.kek_file,
        }
        command = ["ip", "netns", "exec", launch.namespace, str(binary)]
        command += [str(word) for pair in options.items() for word in pair]
        command += [word for number, name in launch.ports.items() for word in ("--port", f"{number}={name}")]
        command += ["--no-offload"] if launch.plain_frames else []
        command += [word for name in launch.allow_suites for word in ("--allow-suite", name)]
        with self._log.open("wb") as stream:
            self._process = subprocess.Popen(command, stderr=stream)
        deadline = time.monotonic() + 30
        while "ready" not in self._log.read_text():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"sluice did not get ready: {self._log.read_text()}")
            time.sleep(0.01)

    @property
    def log(self) -> Path:
        return self._log

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        if (code := self._process.wait(timeout=5)) != 0:
            raise RuntimeError(f"sluice ended with {code}: {self._log.read_text()}")


TARGET = SluiceTarget
