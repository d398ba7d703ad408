"""culvertd, the desktop daemon, and culvert, its command line."""
