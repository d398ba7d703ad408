"""Prefixes to block before the controller answers, from the state files; without writing or network access.

profile.json ─┬─ read ───────► its prefixes, public ones with the person's answers
              ├─ missing ────► none; on an enrolled computer as unreadable
              └─ unreadable ─► all private networks except for the name servers and the controller
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from culvert_proto import CulvertError
from culvert_proto.phrases import Phrase

from culvert_client.controller.messages import kept_profile
from culvert_client.core.claims import apart
from culvert_client.core.consent import Consent, already_agreed
from culvert_client.core.grant import Address, Network
from culvert_client.core.profile import Profile
from culvert_client.platform.interfaces import NameServices
from culvert_client.state_dir import StateDir
from culvert_client.state_file import unreadable

# Private networks (RFC 1918, RFC 6598, RFC 4193).
_INTRANETS: tuple[Network, ...] = (
    *map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")),
    IPv6Network("fc00::/7"),
)


@dataclass(frozen=True, slots=True)
class Kept:
    """`profile`: the prefixes to block. `consent`: None if the person was never asked. `faults`: the unreadable files."""

    profile: Profile
    consent: Consent | None
    faults: tuple[CulvertError, ...]
    identity_is_damaged: bool


def read_kept(
    state: StateDir, state_dir: Path, names: NameServices, allowed: tuple[Network, ...] = ()
) -> Kept:
    """The stored state of one organisation. `state_dir`: that of all organisations. `allowed`: as in Consent."""
    faults: list[CulvertError] = []
    try:
        stored = state.profile()
        if stored is None and state.is_enrolled:
            raise unreadable(state.profile_path, Phrase("it is missing"))
        profile = kept_profile(stored)
    except CulvertError as error:
        named = "path" in error.fields
        faults.append(
            error if named else unreadable(state.profile_path, Phrase("its content cannot be used"))
        )
        profile = _unknown(state, names.name_servers_on_disk(state_dir))
    try:
        consent = state.consent()
        answers = already_agreed(profile) if consent is None else consent
    except CulvertError as error:
        faults.append(error)
        # Block networks that the person may have agreed to, until the person answers again.
        answers, consent = already_agreed(profile), Consent()
    damaged = False
    try:
        state.check_identity()
    except CulvertError as error:
        faults.append(error)
        damaged = True
    return Kept(replace(answers, allowed=allowed).apply(profile), consent, tuple(faults), damaged)


def read_blocked(
    state_dir: Path, names: NameServices, allowed: tuple[Network, ...] = ()
) -> frozenset[Network]:
    """The prefixes of all organisations, also from files of earlier versions."""
    try:
        found = [it for it in (state_dir / "organisations").iterdir() if it.name.isdecimal()]
    except FileNotFoundError:
        found = []
    except OSError:
        return frozenset(_INTRANETS)
    states = [StateDir(it, made=False) for it in (state_dir, *found)]
    return frozenset(
        prefix
        for it in states
        for prefix in read_kept(it, state_dir, names, allowed).profile.protected_prefixes
    )


def _unknown(state: StateDir, name_servers: Iterable[Address]) -> Profile:
    # Leave out the name servers, which must resolve the controller's name.
    spared = set(name_servers)
    if (identity := state.identity()) is not None:
        with suppress(ValueError):
            spared.add(ip_address(identity.agent_address.rpartition(":")[0].strip("[]")))
    return Profile(protected_prefixes=tuple(apart(_INTRANETS, map(ip_network, spared))))
