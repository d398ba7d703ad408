"""Maps the suites to Linux's algorithms."""

from __future__ import annotations

from collections.abc import Collection

from culvert_proto.contract import Suite

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.xfrm_values import Algorithms


def allow_suites(names: Collection[str]) -> frozenset[str]:
    """The usable suites if these legacy ones are allowed. Raises DatapathError."""
    if unknown := set(names) - set(Suite):
        raise DatapathError(f"The allowed suites are not known: {', '.join(sorted(unknown))}.")
    return frozenset(suite.value for suite in Suite if not suite.legacy or suite in names)


def algorithms(name: str, key: bytes, usable: Collection[str]) -> Algorithms:
    """Raises DatapathError for a suite that is not usable, or a key of the wrong length."""
    if name not in usable:
        raise DatapathError(f"The tunnels cannot be installed: the suite {name!r} is not allowed here.")
    suite = Suite(name)
    if len(key) != suite.key_material:
        raise DatapathError(f"The tunnels cannot be installed: a key of {name} has another length.")
    cipher, integrity = key[: suite.cipher_key], key[suite.cipher_key :]
    return Algorithms(suite.linux, cipher, 8 * suite.icv, suite.linux_integrity, integrity)
