"""Fixtures: a namespace, certificates, bmv2 with the module, and a controller."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import finsy as fy
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bmv2_gateway import KEK
from bmv2_pki import make_pki
from bmv2_switch import MODULE, ROOT, Bmv2, Wire, namespace

Start = Callable[..., Bmv2]
Connect = Callable[..., AbstractAsyncContextManager[fy.Switch]]


@pytest.fixture(scope="session")
def rig() -> Iterator[None]:
    if shutil.which("simple_switch_grpc") is None:
        pytest.skip("bmv2's simple_switch_grpc is not on the PATH")
    assert os.geteuid() == 0, "needs root, for network namespaces"
    assert MODULE.exists(), f"{MODULE} is not built; run: make setup"
    with namespace():
        yield


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def start(rig: None, pki: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts bmv2 with this environment."""
    started: list[Bmv2] = []

    def start(env: dict[str, str], **options: Any) -> Bmv2:
        started.append(Bmv2(tmp_path, pki, env, **options))
        return started[-1]

    yield start
    for switch in started:
        print(switch.log())
        # Without a program that it could load, bmv2 itself crashes on the first packet.
        assert switch.stop() == -signal.SIGTERM or not switch.has_module, "simple_switch_grpc has crashed"


@pytest.fixture
def kek(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The file of the key-encryption key; its parameter is the file's mode."""
    path = tmp_path / "kek.bin"
    path.write_bytes(KEK)
    path.chmod(getattr(request, "param", 0o600))
    return path


@pytest.fixture
def connect(pki: Path) -> Connect:
    """A controller that pushes gateway.p4. Keywords are finsy's switch options."""

    @asynccontextmanager
    async def connect(switch: Bmv2, name: str = "controller", **changes: Any) -> AsyncGenerator[fy.Switch]:
        tls = fy.GRPCCredentialsTLS(
            cacert=pki / "ca.pem",
            cert=pki / f"{name}.pem",
            private_key=pki / f"{name}.key",
            target_name_override="gateway",
        )
        options = fy.SwitchOptions(
            p4info=ROOT / "p4/build/gateway.p4info.txtpb",
            p4blob=ROOT / "p4/build/gateway.json",
            channel_credentials=tls,
        )
        async with fy.Switch("gateway", switch.address, options(**changes)) as connected:
            yield connected

    return connect


@pytest.fixture
def wan(rig: None) -> Iterator[Wire]:
    wire = Wire("wan")
    yield wire
    wire.close()


@pytest.fixture
def lan(rig: None) -> Iterator[Wire]:
    wire = Wire("lan")
    yield wire
    wire.close()
