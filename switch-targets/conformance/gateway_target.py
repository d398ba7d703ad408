"""A switch that runs p4/gateway.p4, as the conformance tests see it. Each kind is one module `target_NAME` here."""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import finsy as fy
from gateway_authority import CLIENT, SERVER, Authority

ROOT = Path(__file__).parents[2]
P4INFO = ROOT / "p4/build/gateway.p4info.txtpb"
PROGRAM = ROOT / "p4/build/gateway.json"
GRPC_PORT = 9559
CLIENT_NAME = "culvert-controller"


@dataclass(frozen=True)
class Launch:
    """The settings that a switch is started with. `folder` is its own: certificates, key-encryption key, log. With
    `plain_frames` it takes and makes no super-frames, where it otherwise would."""

    namespace: str
    ports: Mapping[int, str]
    kek: bytes
    allow_suites: Sequence[str]
    folder: Path
    authority: Authority
    plain_frames: bool = False

    @property
    def kek_file(self) -> Path:
        path = self.folder / "kek.bin"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_bytes(self.kek)
        return path


class Target(ABC):
    """A running switch, whose P4Runtime server is at 127.0.0.1:GRPC_PORT of its namespace."""

    @classmethod
    @abstractmethod
    def absent(cls) -> str | None:
        """The reason why this machine cannot run such a switch, if its tests may be skipped for it."""

    @abstractmethod
    def __init__(self, launch: Launch) -> None:
        """Starts it and returns when it listens.

        # Errors
        RuntimeError, with what the switch said, when it does not get ready."""

    @property
    @abstractmethod
    def log(self) -> Path: ...

    @property
    @abstractmethod
    def pid(self) -> int: ...

    @abstractmethod
    def alive(self) -> bool: ...

    @abstractmethod
    def stop(self) -> None:
        """# Errors
        RuntimeError when the switch did not end in order."""


def choose() -> type[Target]:
    """The kind that CULVERT_TARGET names; sluice without it."""
    name = os.environ.get("CULVERT_TARGET", "sluice")
    return cast(type[Target], importlib.import_module(f"target_{name}").TARGET)


def infrastructure(folder: Path) -> Authority:
    """An authority with the certificates of a gateway and of a controller."""
    authority = Authority(folder)
    authority.issue("gateway", "gw-berlin", SERVER)
    authority.issue("controller", CLIENT_NAME, CLIENT)
    return authority


def controller_options(authority: Authority, program: str = "gateway") -> fy.SwitchOptions:
    """`program`: its name in p4/build."""
    credentials = fy.GRPCCredentialsTLS(
        cacert=authority.certificate,
        cert=authority.folder / "controller.pem",
        private_key=authority.folder / "controller.key",
    )
    return fy.SwitchOptions(
        p4info=P4INFO.with_name(f"{program}.p4info.txtpb"),
        p4blob=PROGRAM.with_name(f"{program}.json"),
        p4force=True,
        channel_credentials=credentials,
    )
