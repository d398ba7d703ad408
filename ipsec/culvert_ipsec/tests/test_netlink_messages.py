"""The daemon's start imports pyroute2's messages alone; whoever uses more of pyroute2 gets it."""

from __future__ import annotations

import subprocess
import sys

import pytest

_USE = """
import sys
import culvert_ipsec
assert "pyroute2.netlink.rtnl" in sys.modules and "pyroute2.ndb" not in sys.modules
{use}
assert "pyroute2.ndb" in sys.modules
import pyroute2.netlink
assert pyroute2.netlink.nlmsg and not hasattr(pyroute2, "nonsense")
"""


@pytest.mark.parametrize(
    "use", ["from pyroute2 import IPRoute", "import pyroute2; pyroute2.IPRoute", "import pyroute2.ndb.main"]
)
def test_the_rest_of_pyroute2_is_imported_when_it_is_used(use: str) -> None:
    subprocess.run([sys.executable, "-c", _USE.format(use=use)], check=True)


def test_a_pyroute2_that_is_there_already_stays() -> None:
    whole = (
        "import pyroute2\nbefore = pyroute2.IPRoute\nimport culvert_ipsec\nassert pyroute2.IPRoute is before"
    )
    subprocess.run([sys.executable, "-c", whole], check=True)
