"""The end of a command that has not done its work: an exit code, and the words for a person or the JSON for a program.

    {"error": {"reason": "CODE_NEEDED", "message": "…", "remedy": "…", "fields": {"name": "…"}}}

`reason` is a name of the error catalogue, or one of the command line's own: USAGE, DAEMON_DOWN, FILE_UNUSABLE, OUTPUT_LOST.
"""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps

from culvert_proto.output import EXIT_OUTPUT

from culvert_client.cli import words

EXIT_FAULT = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_NO_DAEMON = 4


class FailureError(Exception):
    """Ends the command with `exit_code`, after its words or its JSON."""

    def __init__(
        self,
        reason: str,
        message: str,
        remedy: str,
        exit_code: int,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason, self.message, self.remedy, self.exit_code = reason, message, remedy, exit_code
        self.fields = dict(fields or {})

    def say(self, *, json: bool) -> None:
        """On standard error for a person; on standard output, one line, for a program."""
        # A program reads the exit code where standard output is lost.
        if json and self.exit_code != EXIT_OUTPUT:
            said = {"reason": self.reason, "message": self.message, "remedy": self.remedy}
            print(dumps({"error": said | {"fields": self.fields}}))
        else:
            words.say_error(self.message, self.remedy)
