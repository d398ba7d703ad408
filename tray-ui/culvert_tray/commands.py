"""The person's commands: values in menu and window, which the tray executes at a click."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from culvert_tray.pause import PauseLength
from culvert_tray.preferences import NoticeKind
from culvert_tray.translation import later


class Page(Enum):
    RESOURCES = later("Resources")
    TUNNELS = later("Tunnels")
    GATEWAYS = later("Gateways")
    ACTIVITY = later("Activity")
    DIAGNOSTICS = later("Diagnostics")
    SETTINGS = later("Settings")
    ABOUT = later("About")


@dataclass(frozen=True, slots=True)
class OpenPage:
    """Bring the tunnel up, then show the name's page in the browser."""

    fqdn: str


@dataclass(frozen=True, slots=True)
class ShowReason:
    """Show a reason's page of the controller's documentation in the browser."""

    page: str


@dataclass(frozen=True, slots=True)
class WriteMail:
    """Open the person's mail program with an empty mail."""

    address: str
    subject: str


@dataclass(frozen=True, slots=True)
class CopyText:
    text: str


@dataclass(frozen=True, slots=True)
class ShowDetails:
    """`organisation`, here and below: empty if there is only one."""

    tunnel_id: str
    organisation: str = ""


@dataclass(frozen=True, slots=True)
class CloseTunnel:
    name: str


@dataclass(frozen=True, slots=True)
class TimeHops:
    """Time each hop to the name's page."""

    fqdn: str


@dataclass(frozen=True, slots=True)
class SelectGateway:
    """Empty for automatic."""

    gateway: str
    organisation: str = ""


@dataclass(frozen=True, slots=True)
class EnterCode:
    organisation: str = ""


@dataclass(frozen=True, slots=True)
class AnswerClaims:
    """Show public networks that an organisation wants to carry, for a decision. `answered`: the answer so far, None for the
    networks that have none."""

    organisation: str = ""
    answered: bool | None = None


@dataclass(frozen=True, slots=True)
class Enrol:
    pass


@dataclass(frozen=True, slots=True)
class StartDaemon:
    """Ask the system to start the daemon, which asks the person for a password where it must."""


@dataclass(frozen=True, slots=True)
class Pause:
    length: PauseLength


@dataclass(frozen=True, slots=True)
class Resume:
    pass


@dataclass(frozen=True, slots=True)
class ShowWindow:
    """Show a page; None: the last one."""

    page: Page | None = None


@dataclass(frozen=True, slots=True)
class SetFavourite:
    fqdn: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class SetNotices:
    kind: NoticeKind
    wanted: bool


@dataclass(frozen=True, slots=True)
class SetAutostart:
    wanted: bool


@dataclass(frozen=True, slots=True)
class SetLanguage:
    """Empty for the desktop's."""

    language: str


@dataclass(frozen=True, slots=True)
class RunDiagnostics:
    pass


@dataclass(frozen=True, slots=True)
class SaveReport:
    pass


@dataclass(frozen=True, slots=True)
class ShowDocumentation:
    pass


@dataclass(frozen=True, slots=True)
class Quit:
    pass


Command = (
    OpenPage | ShowReason | WriteMail | CopyText | ShowDetails | CloseTunnel | TimeHops | SelectGateway | EnterCode
    | AnswerClaims | Enrol | StartDaemon | Pause | Resume | ShowWindow | SetFavourite | SetNotices | SetAutostart
    | SetLanguage | RunDiagnostics | SaveReport | ShowDocumentation | Quit
)  # fmt: skip
