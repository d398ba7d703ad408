"""The life of one tunnel, as a table of states and events."""
