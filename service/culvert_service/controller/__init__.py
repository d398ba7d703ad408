"""The controller as one process: its database, its parts, and the order in which they start and stop."""
