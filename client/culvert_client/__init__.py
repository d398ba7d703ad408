"""culvertd, the desktop daemon, and culvert, its command line."""

import os

# Read when gRPC is first imported: without it, lost connections are told to the terminal in gRPC's own words.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
