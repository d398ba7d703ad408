"""bmv2's simple_switch_grpc as a conformance target, with the extern module that set-up built."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from gateway_target import GRPC_PORT, ROOT, Launch, Target

MODULE = ROOT / "build/bmv2/culvert_bmv2.so"


class Bmv2Target(Target):
    """The target's own tests change `modules` and `environment`."""

    modules = ("--load-modules", str(MODULE))

    @staticmethod
    def environment(launch: Launch) -> dict[str, str]:
        """The module's settings."""
        return {
            "CULVERT_ESP_KEK": str(launch.kek_file),
            "CULVERT_ESP_ALLOW": ",".join(launch.allow_suites),
        }

    @classmethod
    def absent(cls) -> str | None:
        return None if shutil.which("simple_switch_grpc") else "bmv2's simple_switch_grpc is not on the PATH"

    def __init__(self, launch: Launch) -> None:
        if not MODULE.exists():
            raise RuntimeError(f"{MODULE} is not built: make setup")
        self._log = launch.folder / "bmv2.log"
        keys = launch.authority.folder
        # Without stdbuf the log stays in a buffer until bmv2 ends.
        command = ["ip", "netns", "exec", launch.namespace, "stdbuf", "-oL", "simple_switch_grpc", "--no-p4"]
        command += ["--device-id", "1"]
        command += [word for number, name in launch.ports.items() for word in ("-i", f"{number}@{name}")]
        command += ["--", *self.modules, "--grpc-server-addr", f"127.0.0.1:{GRPC_PORT}"]
        command += ["--grpc-server-ssl", "--grpc-server-with-client-auth"]
        command += ["--grpc-server-cacert", str(launch.authority.certificate)]
        command += ["--grpc-server-cert", str(keys / "gateway.pem")]
        command += ["--grpc-server-key", str(keys / "gateway.key")]
        environment = os.environ | self.environment(launch)
        with self._log.open("wb") as stream:
            self._process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
        deadline = time.monotonic() + 20
        while "Server listening" not in self._log.read_text():
            if not self.alive() or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"simple_switch_grpc did not get ready: {self._log.read_text()}")
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
        self._process.terminate()
        # bmv2 has no handler of its own.
        if (code := self._process.wait(timeout=10)) != -signal.SIGTERM:
            raise RuntimeError(f"simple_switch_grpc ended with {code}: {self._log.read_text()}")


TARGET = Bmv2Target
