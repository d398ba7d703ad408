"""The local API: who is calling (SO_PEERCRED), and what the tray and the CLI may ask."""
