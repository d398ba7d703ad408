"""The lab's errors, each with its remedy."""

from __future__ import annotations


class LabError(Exception):
    """A fault that a person can act on; its text is all they need."""


class NotRootError(LabError):
    def __init__(self) -> None:
        super().__init__("The lab makes network namespaces and needs root. Run: sudo make demo")


class LabBusyError(LabError):
    def __init__(self, pid: int) -> None:
        super().__init__(
            f"Another lab is up (process {pid}); there can be one at a time. "
            f"Stop it with Ctrl-C in its terminal, or: kill {pid}"
        )


class LabDownError(LabError):
    def __init__(self) -> None:
        super().__init__("No lab is up. Start one in another terminal: make demo")


class PortTakenError(LabError):
    def __init__(self, port: int) -> None:
        super().__init__(f"Port {port} of 127.0.0.1 is taken by another program. Choose another with --port.")


class ProgramError(LabError):
    """A program ended, or did not become ready in time."""

    def __init__(self, name: str, what: str, log: str, tail: str) -> None:
        lines = "\n".join(f"    {line}" for line in tail.splitlines()[-15:]) or "    (the log is empty)"
        super().__init__(f"{name} {what}. The end of {log}:\n{lines}")


class StepError(LabError):
    """An expectation of a step was not met."""
