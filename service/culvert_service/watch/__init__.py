"""A device's live events."""
