"""pyroute2's classes and constants of netlink messages, without the rest of pyroute2.

Its package imports all that it has as soon as one part is imported, a sixth of a daemon's start. Here the package's
own code runs when somebody uses a name of it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec


def _defer(package_name: str) -> None:
    """Have the package import nothing by itself before a name of it is used; its modules can be imported at once."""
    spec = find_spec(package_name)
    if package_name in sys.modules or spec is None or spec.loader is None:
        return
    package, loader = module_from_spec(spec), spec.loader

    def load(name: str) -> object:
        if find_spec(f"{package_name}.{name}") is not None:
            # A module, which `from` imports next.
            raise AttributeError(name)
        del package.__getattr__
        loader.exec_module(package)
        return getattr(package, name)

    package.__getattr__ = load
    sys.modules[package_name] = package


_defer("pyroute2")

from pyroute2.netlink import (  # noqa: E402  after _defer
    NETLINK_XFRM,
    NLM_F_ACK,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    nlmsg,
    rtnl,
)
from pyroute2.netlink.rtnl.fibmsg import fibmsg  # noqa: E402
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg  # noqa: E402
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg  # noqa: E402
from pyroute2.netlink.rtnl.rtmsg import rtmsg  # noqa: E402

__all__ = [
    "NETLINK_XFRM",
    "NLMSG_DONE",
    "NLMSG_ERROR",
    "NLM_F_ACK",
    "NLM_F_CREATE",
    "NLM_F_DUMP",
    "NLM_F_DUMP_INTR",
    "NLM_F_EXCL",
    "NLM_F_REPLACE",
    "NLM_F_REQUEST",
    "fibmsg",
    "ifaddrmsg",
    "ifinfmsg",
    "nlmsg",
    "rtmsg",
    "rtnl",
]
