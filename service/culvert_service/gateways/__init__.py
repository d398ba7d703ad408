"""P4 switches: what they should hold, what they hold, and the difference."""
