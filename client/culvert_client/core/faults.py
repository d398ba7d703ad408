"""What went wrong and has not been cured since: one error for each thing that can be wrong."""

from __future__ import annotations

from culvert_proto import CulvertError, Reason

_CODE = frozenset(
    {Reason.CODE_NEEDED, Reason.CODE_TOO_OLD, Reason.CODE_WRONG, Reason.CODE_USED, Reason.CODE_LOCKED}
)
# Somebody meant it to be so.
_WANTED = frozenset({Reason.CLOSED_BY_USER, Reason.CLOSED_IDLE, Reason.PAUSED})
AWAY = frozenset(
    {
        Reason.CONTROLLER_UNREACHABLE,
        Reason.CAPTIVE_PORTAL,
        Reason.CERTIFICATE_EXPIRED,
        Reason.CERTIFICATE_REFUSED,
        Reason.CLOCK_WRONG,
        Reason.CONTROLLER_CA_UNKNOWN,
        Reason.CONTROLLER_NAME_WRONG,
        Reason.CONTROLLER_CERTIFICATE_EXPIRED,
        Reason.HANDSHAKE_REFUSED,
    }
)
"""Why there is no connection with the controller: none holds for any name once the controller answers."""


class Faults:
    """`about` is a name, or what this computer has one of: the controller, the datapath."""

    def __init__(self) -> None:
        self._errors: dict[str, CulvertError] = {}

    @property
    def newest(self) -> CulvertError | None:
        return next(reversed(self._errors.values()), None)

    def note(self, about: str, error: CulvertError) -> None:
        self._errors.pop(about, None)
        if error.reason not in _WANTED:
            self._errors[about] = error

    def cure(self, about: str) -> None:
        self._errors.pop(about, None)

    def answers_again(self, about: str) -> None:
        error = self._errors.get(about)
        if error is not None and error.reason is Reason.GATEWAY_SILENT:
            self.cure(about)

    def code_proven(self) -> None:
        self._forget(_CODE)

    def claims_answered(self) -> None:
        self._forget(frozenset({Reason.CONSENT_NEEDED}))

    def controller_back(self) -> None:
        self._forget(AWAY)

    def _forget(self, reasons: frozenset[Reason]) -> None:
        self._errors = {about: it for about, it in self._errors.items() if it.reason not in reasons}
