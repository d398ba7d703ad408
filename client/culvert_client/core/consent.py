"""The consent to public networks: an organisation may carry those in root's settings and those a person agreed to.

offered by the controller ─┬─ private, or agreed to ───► protected
                           ├─ public, without an answer ► awaiting: not carried, and the person is asked
                           └─ public, declined ─────────► declined: not carried, and the person is not asked again
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import ip_network

from culvert_proto import CulvertError, Reason

from culvert_client.core.claims import holds, is_public
from culvert_client.core.grant import Network, Tunnel
from culvert_client.core.profile import Profile


@dataclass(frozen=True, slots=True)
class Consent:
    """`agreed`, `declined`: the person's answers; `allowed`: root's settings. A prefix covers all prefixes inside it."""

    agreed: frozenset[Network] = frozenset()
    declined: frozenset[Network] = frozenset()
    allowed: tuple[Network, ...] = ()

    def permits(self, prefix: Network) -> bool:
        return not is_public(prefix) or any(holds(it, prefix) for it in (*self.agreed, *self.allowed))

    def with_answer(self, prefixes: Iterable[Network], *, agreed: bool) -> Consent:
        """The consent with an answer for these prefixes and all inside. Declining a part ends agreement to the whole."""
        wanted = frozenset(prefixes)
        yes = frozenset(it for it in self.agreed if not any(holds(other, it) for other in wanted))
        no = frozenset(it for it in self.declined if not any(holds(other, it) for other in wanted))
        if agreed:
            return replace(self, agreed=yes | wanted, declined=no)
        yes = frozenset(it for it in yes if not any(holds(it, other) for other in wanted))
        return replace(self, agreed=yes, declined=no | wanted)

    def apply(self, profile: Profile) -> Profile:
        """The profile with permitted prefixes as protected, and the other offered prefixes as `awaiting` or `declined`."""
        offered = profile.offered
        refused = [it for it in offered if not self.permits(it)]
        declined = tuple(it for it in refused if any(holds(no, it) for no in self.declined))
        return replace(
            profile,
            protected_prefixes=tuple(it for it in offered if self.permits(it)),
            awaiting=tuple(it for it in refused if it not in declined),
            declined=declined,
            agreed=tuple(it for it in offered if any(holds(yes, it) for yes in self.agreed)),
        )

    def missing(self, tunnel: Tunnel) -> list[Network]:
        """The tunnel's public prefixes and inner addresses without the person's agreement.

        A public inner address hides a host of the Internet, as a prefix does.
        """
        wanted = [*tunnel.remote_prefixes, *map(ip_network, tunnel.inner_addresses)]
        return [it for it in wanted if not self.permits(it)]

    def check(self, tunnel: Tunnel) -> None:
        """Raises CulvertError CONSENT_NEEDED."""
        if missing := self.missing(tunnel):
            raise CulvertError(Reason.CONSENT_NEEDED, prefixes=", ".join(map(str, missing)))


def already_agreed(profile: Profile) -> Consent:
    """The consent of an enrolment from before the question existed: all of its public prefixes."""
    return Consent(agreed=frozenset(filter(is_public, profile.offered)))
