"""The command line `culvert`: a person's interface to the daemon.

Exit codes: 0 done, 1 fault, 2 wrong usage, 3 refused with a reason, 4 the daemon does not run,
74 the output cannot be written. With --json an error is a JSON object on standard output (failure.py).
"""

from culvert_client.cli import language as language  # first: other modules translate texts at their import
from culvert_client.cli.commands import app

from culvert_client.cli import public_networks as public_networks  # isort: skip  registers its command as the last

__all__ = ["app"]
