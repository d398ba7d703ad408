"""A P4 switch for Mininet: `sluice dev` on the interfaces that Mininet makes.

    from mininet.net import Mininet
    from sluice_mininet import SluiceSwitch

    net = Mininet(topo, switch=SluiceSwitch, controller=None)
    net.addSwitch("s1", cls=SluiceSwitch, program="build/basic.json", p4info="build/basic.p4info.txtpb")

P4Runtime is at 127.0.0.1:grpc_port, device device_id, without certificates.
"""

# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUntypedBaseClass=false
# pyright: reportUnknownMemberType=false
# Mininet is Debian's, beside the system's Python.
from __future__ import annotations

import itertools
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

from mininet.node import Switch

START_TIME = 30.0
STOP_TIME = 10.0


class SluiceSwitch(Switch):
    """Port N of the program is the interface that Mininet has at port N. Without a program, a controller pushes one."""

    _ids: ClassVar[itertools.count[int]] = itertools.count(1)
    _grpc_ports: ClassVar[itertools.count[int]] = itertools.count(50051)

    def __init__(
        self,
        name: str,
        program: str | None = None,
        p4info: str | None = None,
        entries: str | None = None,
        cpu_port: int | None = None,
        device_id: int | None = None,
        grpc_port: int | None = None,
        sluice: str = "sluice",
        log_file: str | None = None,
        options: tuple[str, ...] = (),
        **params: Any,
    ) -> None:
        """`entries` is a p4.v1.WriteRequest in text form; `options` are more of `sluice dev`'s."""
        super().__init__(name, **params)
        self.device_id = next(self._ids) if device_id is None else device_id
        self.grpc_port = next(self._grpc_ports) if grpc_port is None else grpc_port
        self.log_file = Path(log_file or Path(tempfile.gettempdir(), f"{name}.log"))
        self._command = [sluice, "dev", *(it for it in (program, p4info) if it)]
        self._command += ["--device-id", str(self.device_id), "--grpc", f"127.0.0.1:{self.grpc_port}"]
        self._command += ["--entries", entries] if entries else []
        self._command += ["--cpu-port", str(cpu_port)] if cpu_port is not None else []
        self._command += options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, controllers: object) -> None:
        """Returns when the switch forwards.

        Raises RuntimeError, with what the switch said, when it does not get ready."""
        ports = {port: interface.name for port, interface in self.intfs.items() if interface.name != "lo"}
        interfaces = [word for port, name in ports.items() for word in ("-i", f"{port}@{name}")]
        with self.log_file.open("wb") as log:
            command = [*self._command, *interfaces]
            process: subprocess.Popen[bytes] = self.popen(command, stdout=log, stderr=subprocess.STDOUT)
        self._process = process
        deadline = time.monotonic() + START_TIME
        while " ready " not in self.log_file.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not get ready: {self.log_file.read_text()}")
            time.sleep(0.05)

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIME)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None
        super().stop(deleteIntfs)

    def describe(self) -> str:
        return f"{self.name}: P4Runtime at 127.0.0.1:{self.grpc_port}, device {self.device_id}"
