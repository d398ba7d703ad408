"""The command line `culvert`: a person's interface to the daemon.

Exit codes: 0 done, 1 fault, 2 wrong usage, 3 refused with a reason, 4 the daemon does not run,
74 the output cannot be written. With --json an error is a JSON object on standard output (failure.py).
"""

import sys

from culvert_client.cli import language as language  # first: other modules translate texts at their import
from culvert_client.cli.failure import refuse_unsupported_system

refuse_unsupported_system(sys.platform)

from culvert_client.cli.commands import app  # noqa: E402  its modules need the system

from culvert_client.cli import public_networks as public_networks  # noqa: E402  # isort: skip  registers its command as the last

__all__ = ["app"]
