"""The end of a failed command: an exit code, and a text for a person or JSON for a program.

    {"error": {"reason": "CODE_NEEDED", "message": "…", "remedy": "…", "shell": "…", "fields": {"name": "…"}, "page": "https://…"}}

`reason` is a name of the error catalogue, or one of the command line's own: USAGE, DAEMON_DOWN, FILE_UNUSABLE,
OUTPUT_LOST, SYSTEM_UNSUPPORTED. `shell` is the remedy's command in words, and `page` is the address of the reason's page at
the controller; each is empty if there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from json import dumps

from culvert_proto.output import EXIT_OUTPUT

from culvert_client.cli import words
from culvert_client.cli.language import _
from culvert_client.platform import SYSTEMS

EXIT_FAULT = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_NO_DAEMON = 4


class FailureError(Exception):
    """Ends the command with `exit_code`, after its text or JSON."""

    def __init__(
        self,
        reason: str,
        message: str,
        remedy: str,
        exit_code: int,
        fields: Mapping[str, str] | None = None,
        page: str = "",
        shell: str = "",
    ) -> None:
        super().__init__(message)
        self.reason, self.message, self.remedy, self.exit_code = reason, message, remedy, exit_code
        self.fields, self.page, self.shell = dict(fields or {}), page, shell

    def say(self, *, json: bool) -> None:
        """Print the text on standard error, or one line of JSON on standard output."""
        # If standard output is lost, a program only gets the exit code.
        if json and self.exit_code != EXIT_OUTPUT:
            said = {
                "reason": self.reason,
                "message": self.message,
                "remedy": self.remedy,
                "shell": self.shell,
            }
            print(dumps({"error": said | {"fields": self.fields, "page": self.page}}))
        else:
            words.say_error(self.message, self.remedy, self.shell, self.page)


def refuse_unsupported_system(system: str) -> None:
    """End the program, with exit code 1, on a system without a platform."""
    if system not in SYSTEMS:
        message = _("Culvert's client runs on Linux, and not on {system}.").format(system=system)
        remedy = _("Use it on a computer with Linux. docs/platforms.md says what another system needs.")
        FailureError("SYSTEM_UNSUPPORTED", message, remedy, EXIT_FAULT).say(json="--json" in sys.argv)
        sys.exit(EXIT_FAULT)
