"""The zones in which names are published, and the state of the records that dns-updater writes."""
