"""The daemon's choice of a datapath on this machine's kernel; tests/kernel needs a kernel with IPsec."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest
from culvert_client.config import Config, DatapathChoice, Endpoint
from culvert_client.platform.linux.datapath import open_datapath
from culvert_client.platform.linux.paths import PATHS
from culvert_lab import netns
from culvert_proto import CulvertError, Reason

pytestmark = pytest.mark.slow


def test_our_datapath_replaces_the_kernels_unless_the_kernel_is_demanded() -> None:
    with ThreadPoolExecutor(1, initializer=netns.leave) as apart:
        chosen = {it: apart.submit(asyncio.run, _opened(it)).result() for it in DatapathChoice}
    assert chosen[DatapathChoice.USERSPACE] == "userspace"
    if chosen[DatapathChoice.KERNEL] != Reason.DATAPATH_FAILED:
        pytest.skip("this kernel has IPsec")
    assert chosen[DatapathChoice.AUTO] == "userspace"


async def _opened(choice: DatapathChoice) -> str | Reason:
    upstream = Endpoint("192.0.2.53", 53)
    settings = Config(**asdict(PATHS), dns_upstream=upstream, tun_name="choice0", datapath=choice)
    try:
        path = await open_datapath(settings, print)
    except CulvertError as error:
        return error.reason
    await path.close()
    return path.name
