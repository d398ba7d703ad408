"""A Linux with ESP, and what tests need to put ours beside it."""
