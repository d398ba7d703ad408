"""The present faults: one error for each name, the controller and the datapath."""

from __future__ import annotations

from dataclasses import dataclass

from culvert_proto import CulvertError, Reason

CONTROLLER, DATAPATH = "controller", "datapath"
"""The subjects of faults besides a name."""
REFUSAL_AGE = 600.0
"""Our tunable, in seconds: how long the denial of a demand is shown."""
REFUSALS_KEPT = 64
"""Our tunable: a local user may ask for any number of names, and each event looks at the refusals."""

_CODE = frozenset(
    {
        Reason.CODE_NEEDED,
        Reason.CODE_EXPIRED,
        Reason.CODE_TOO_OLD,
        Reason.CODE_WRONG,
        Reason.CODE_USED,
        Reason.CODE_LOCKED,
    }
)
# Intended, so no faults.
_WANTED = frozenset({Reason.CLOSED_BY_USER, Reason.CLOSED_IDLE, Reason.DAEMON_STOPPED, Reason.PAUSED})
AWAY = frozenset(
    {
        Reason.CONTROLLER_UNREACHABLE,
        Reason.CAPTIVE_PORTAL,
        Reason.CERTIFICATE_EXPIRED,
        Reason.CERTIFICATE_REFUSED,
        Reason.RENEWAL_TOO_LATE,
        Reason.CLOCK_WRONG,
        Reason.CONTROLLER_CA_UNKNOWN,
        Reason.CONTROLLER_NAME_WRONG,
        Reason.CONTROLLER_CERTIFICATE_EXPIRED,
        Reason.HANDSHAKE_REFUSED,
    }
)
"""Why there is no connection with the controller: none holds for any name once the controller answers."""


# Faults that last until an event ends them. Any other is the answer to a single demand.
_SILENT = frozenset({Reason.GATEWAY_SILENT, Reason.TUNNEL_BLOCKED, Reason.PATH_NARROW})
_LASTING = _CODE | AWAY | _SILENT | {Reason.CONSENT_NEEDED}


@dataclass(frozen=True, slots=True)
class Fault:
    """`at`: a `now` value of the client, in seconds."""

    error: CulvertError
    at: float


class Faults:
    """`about`: a name, CONTROLLER or DATAPATH."""

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}

    @property
    def newest(self) -> Fault | None:
        return next(reversed(self._faults.values()), None)

    def of(self, about: str) -> Fault | None:
        return self._faults.get(about)

    def note(self, about: str, error: CulvertError, now: float) -> None:
        before = self._faults.pop(about, None)
        if error.reason in _WANTED:
            return
        fault = Fault(error, now)
        if before is not None and before.error.reason is error.reason and not _ages(about, fault):
            # The fault continues: keep its first time.
            fault = Fault(error, before.at)
        self._faults[about] = fault
        refused = [name for name, it in self._faults.items() if _ages(name, it)]
        for name in refused[:-REFUSALS_KEPT]:
            del self._faults[name]

    def cure(self, about: str) -> None:
        self._faults.pop(about, None)

    def answers_again(self, about: str) -> None:
        fault = self._faults.get(about)
        if fault is not None and fault.error.reason in _SILENT:
            self.cure(about)

    def code_proven(self) -> None:
        self._forget(_CODE)

    def claims_answered(self) -> None:
        self._forget(frozenset({Reason.CONSENT_NEEDED}))

    def controller_back(self) -> None:
        self._forget(AWAY)

    def deadline(self) -> float | None:
        """When the next refusal expires."""
        ageing = (it.at for about, it in self._faults.items() if _ages(about, it))
        return min((at + REFUSAL_AGE for at in ageing), default=None)

    def forget_old(self, now: float) -> None:
        self._faults = {
            about: it
            for about, it in self._faults.items()
            if not _ages(about, it) or now < it.at + REFUSAL_AGE
        }

    def _forget(self, reasons: frozenset[Reason]) -> None:
        self._faults = {about: it for about, it in self._faults.items() if it.error.reason not in reasons}


def _ages(about: str, fault: Fault) -> bool:
    return about not in (CONTROLLER, DATAPATH) and fault.error.reason not in _LASTING
