"""The daemon's default paths, by the Filesystem Hierarchy Standard."""

from pathlib import Path

from culvert_client.config import DefaultPaths

PATHS = DefaultPaths(state_dir=Path("/var/lib/culvert"), socket=Path("/run/culvert/culvertd.sock"))
