"""The public socket of the local API: the kernel says who calls (SO_PEERCRED)."""
